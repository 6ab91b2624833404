"""The gated activation of the Llama family's feed-forward layer."""

from __future__ import annotations

import torch

from kvasir_kernels.dispatch import use_kernel
from kvasir_kernels.silu_mul import reference

__all__ = ["silu_mul"]


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """Return silu(gate) * up, where gate_up is [..., 2 * dim], gate first; [..., dim] comes out."""
    if not use_kernel(gate_up):
        return reference.silu_mul(gate_up)
    from kvasir_kernels.silu_mul import kernel

    return kernel.silu_mul(gate_up)
