"""Which of an operation's two implementations takes a tensor.

A tensor goes in; whether the Triton kernel takes it comes out. Kernels take CUDA tensors, and under
TRITON_INTERPRET=1 (set before Triton is imported) CPU tensors too, except bfloat16, in which
Triton's interpreter computes nonsense. The references take everything else.
"""

from __future__ import annotations

import os
from functools import cache

import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET", "0") == "1"
INTERPRETED_PROCESSORS = 4  # as if the interpreter were a small card


def use_kernel(x: torch.Tensor) -> bool:
    """Say whether the Triton kernel takes x."""
    return x.is_cuda or (INTERPRETED and x.dtype != torch.bfloat16)


@cache
def processors(device: torch.device) -> int:
    """Return how many streaming multiprocessors the device has."""
    if device.type != "cuda":
        return INTERPRETED_PROCESSORS
    return torch.cuda.get_device_properties(device).multi_processor_count
