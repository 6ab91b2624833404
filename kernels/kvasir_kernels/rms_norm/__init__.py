"""Root-mean-square normalisation, alone and fused with the residual addition before it."""

from __future__ import annotations

import torch

from kvasir_kernels.dispatch import use_kernel
from kvasir_kernels.rms_norm import reference

__all__ = ["add_rms_norm", "rms_norm"]


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Return x / rms(x) * weight over the last dimension; see the reference."""
    if not use_kernel(x):
        return reference.rms_norm(x, weight, eps)
    from kvasir_kernels.rms_norm import kernel

    return kernel.rms_norm(x, weight, eps)


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the normalised x + residual, and x + residual itself for the next layer."""
    if not use_kernel(x):
        return reference.add_rms_norm(x, residual, weight, eps)
    from kvasir_kernels.rms_norm import kernel

    return kernel.add_rms_norm(x, residual, weight, eps)
