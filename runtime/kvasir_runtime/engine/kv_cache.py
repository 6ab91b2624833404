"""How large the KV cache may be, and the tensors themselves."""

from __future__ import annotations

import torch

from kvasir_runtime.config import GIB, EngineConfig
from kvasir_runtime.errors import KVCacheTooSmallError
from kvasir_runtime.layers.attention import KVCache
from kvasir_runtime.models.config import ModelConfig


def bytes_per_block(model: ModelConfig, block_size: int, dtype: torch.dtype) -> int:
    """Return the bytes that keys and values of one block take in all layers."""
    return model.kv_elements_per_token * block_size * dtype.itemsize


def count_blocks(config: EngineConfig, available_bytes: int, block_bytes: int) -> int:
    """Return the pool's size in blocks: the override, or what `available_bytes` holds."""
    if config.num_gpu_blocks_override is not None:
        return config.num_gpu_blocks_override
    return max(0, available_bytes) // block_bytes


def fit_length(config: EngineConfig, model: ModelConfig, num_blocks: int) -> int:
    """Return the longest sequence that is served, in tokens.

    That is `max_model_len` where it was given and fits, else the model's own maximum; one that
    doesn't fit raises KVCacheTooSmallError with what would.
    """
    length = config.max_model_len or model.max_position_embeddings
    capacity = num_blocks * config.block_size
    if capacity >= length:
        return length
    raise KVCacheTooSmallError(
        f"the KV cache holds {capacity:,} tokens ({num_blocks:,} blocks), "
        f"one sequence of max_model_len needs {length:,}",
        f"set --max-model-len to at most {capacity:,}"
        if capacity
        else "the weights leave no memory for it: use a smaller model or a larger device",
    )


def allocate(
    model: ModelConfig, num_blocks: int, block_size: int, dtype: torch.dtype, device: torch.device
) -> list[KVCache]:
    """Return each layer's cache, uninitialised: no slot is read before it was written."""
    shape = (2, num_blocks, block_size, model.num_kv_heads, model.head_dim)
    pools = (torch.empty(shape, dtype=dtype, device=device) for _ in range(model.num_layers))
    return [KVCache(keys=pool[0], values=pool[1]) for pool in pools]


def cpu_pool_bytes(config: EngineConfig) -> int:
    """Return the bytes of the pool on a CPU: as asked for."""
    return int(config.kv_cache_gib * GIB)
