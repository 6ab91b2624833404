"""The device an engine runs on: which one, with which dtype, and how much of it is free."""

from __future__ import annotations

import torch

from kvasir_kernels.kv_scales import E4M3
from kvasir_runtime.config import GIB, EngineConfig
from kvasir_runtime.errors import InvalidConfigError, OutOfMemoryError, UnsupportedFeatureError

DTYPES = {
    "half": torch.float16,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float": torch.float32,
    "float32": torch.float32,
}

E4M3_CAPABILITY = (8, 9)  # Ada; Hopper is 9.0


def pick_device(config: EngineConfig) -> torch.device:
    """Return the device asked for; InvalidConfigError where there is no such device."""
    available = torch.cuda.is_available()
    if config.device == "cuda" and not available:
        raise InvalidConfigError(
            "device is cuda, but torch finds no GPU",
            "ask for a GPU (nvidia.com/gpu) and check its driver, or use --device cpu",
        )
    use_cuda = config.device == "cuda" or (config.device == "auto" and available)
    return torch.device("cuda", torch.cuda.current_device()) if use_cuda else torch.device("cpu")


def pick_dtype(config: EngineConfig, checkpoint: str, device: torch.device) -> torch.dtype:
    """Return the dtype of weights and activations.

    auto is the checkpoint's own, and bfloat16 for a float32 one, on a GPU; float32 on a CPU, where
    16-bit arithmetic is slow.
    """
    if config.dtype != "auto":
        return DTYPES[config.dtype]
    if device.type == "cpu":
        return torch.float32
    own = DTYPES.get(checkpoint, torch.bfloat16)
    return torch.bfloat16 if own is torch.float32 else own


def pick_kv_dtype(
    config: EngineConfig, activations: torch.dtype, device: torch.device
) -> torch.dtype:
    """Return the dtype of the KV cache: that of the activations, or e4m3 where fp8 is asked for.

    Raises UnsupportedFeatureError on a GPU that doesn't convert e4m3.
    """
    if config.kv_cache_dtype == "auto":
        return activations
    if device.type == "cuda":
        capability = torch.cuda.get_device_capability(device)
        if capability < E4M3_CAPABILITY:
            raise UnsupportedFeatureError(
                f"kv_cache_dtype is {config.kv_cache_dtype}, and "
                f"{torch.cuda.get_device_name(device)} has compute capability "
                f"{capability[0]}.{capability[1]}, below {E4M3_CAPABILITY[0]}.{E4M3_CAPABILITY[1]}",
                "leave it at auto, or use a GPU from Ada or Hopper on (L4, L40S, H100, H200, ...)",
            )
    return E4M3


def kv_budget_bytes(config: EngineConfig, device: torch.device) -> int:
    """Return what is left of the GPU's budget after the peak of all allocations so far.

    Call it after a forward pass of the largest batch: the peak then holds weights and activations.
    Raises OutOfMemoryError where other processes already hold more than the budget leaves.
    """
    free, total = torch.cuda.mem_get_info(device)
    budget = int(total * config.gpu_memory_utilization)
    outside = total - free - torch.cuda.memory_reserved(device)  # context, other processes
    left = budget - outside - torch.cuda.max_memory_allocated(device)
    if left <= 0:
        raise OutOfMemoryError(
            f"the budget is {budget / GIB:.1f} GiB ({config.gpu_memory_utilization:.2f} of "
            f"{total / GIB:.1f}), of which {outside / GIB:.1f} are held outside this engine and "
            f"{torch.cuda.max_memory_allocated(device) / GIB:.1f} by weights and activations",
            "raise --gpu-memory-utilization, free the GPU, or use a smaller model",
        )
    return left
