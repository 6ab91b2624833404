"""How large the KV cache may be, and the tensors themselves."""

from __future__ import annotations

import torch

from kvasir_runtime.config import GIB, EngineConfig
from kvasir_runtime.errors import KVCacheTooSmallError
from kvasir_runtime.models.config import ModelConfig


def bytes_per_block(model: ModelConfig, block_size: int, dtype: torch.dtype) -> int:
    """Return the bytes that keys and values of one block take in all layers."""
    return model.kv_elements_per_token * block_size * dtype.itemsize


def fit_length(config: EngineConfig, model: ModelConfig, num_blocks: int, block_bytes: int) -> int:
    """Return the longest sequence that is served, in tokens.

    That is `max_model_len` where it was given, else the model's own maximum; one that the pool
    doesn't hold raises KVCacheTooSmallError with what it does hold.
    """
    length = config.max_model_len or model.max_position_embeddings
    capacity = num_blocks * config.block_size
    if capacity >= length:
        return length
    missing_gib = (-(-length // config.block_size) - num_blocks) * block_bytes / GIB
    raise KVCacheTooSmallError(
        f"the KV cache holds {capacity:,} tokens ({num_blocks:,} blocks), one sequence of "
        f"max_model_len needs {length:,}, which is {missing_gib:.2f} GiB more",
        f"set --max-model-len to at most {capacity:,}, or make room: {_how_to_grow(config)}"
        if capacity
        else f"the weights leave no memory for it: {_how_to_grow(config)}, or use a smaller model",
    )


def allocate(
    model: ModelConfig, num_blocks: int, block_size: int, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """Return the pool, [layers, 2, blocks, block_size, kv_heads, head_dim], keys before values.

    It is uninitialised: no slot is read before it was written.
    """
    shape = (model.num_layers, 2, num_blocks, block_size, model.num_kv_heads, model.head_dim)
    return torch.empty(shape, dtype=dtype, device=device)


def cpu_pool_bytes(config: EngineConfig) -> int:
    """Return the bytes of the pool on a CPU: as asked for."""
    return int(config.kv_cache_gib * GIB)


def _how_to_grow(config: EngineConfig) -> str:
    if config.num_gpu_blocks_override is not None:
        return "raise --num-gpu-blocks-override"
    return "raise --kv-cache-gib (CPU) or --gpu-memory-utilization (GPU)"
