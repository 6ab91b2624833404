"""Linear layers, alone and with the gated activation behind them.

Where there are many rows the vendor's matrix products are near the card's limit; where there are
few, reading the weights sets the pace, and a kernel of our own reads them faster.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from kvasir_kernels.dispatch import use_kernel
from kvasir_kernels.linear import tuning
from kvasir_kernels.silu_mul import silu_mul

__all__ = ["gated_linear", "linear"]


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Return x Wᵀ + b; see the reference."""
    if not _few_rows(x, weight, gated=False):
        return functional.linear(x, weight, bias)
    from kvasir_kernels.linear import kernel

    return kernel.linear(x, weight, bias)


def gated_linear(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """Return silu(x Gᵀ + b) * (x Uᵀ + c), where weight is G over U, bias b over c."""
    if bias is not None or not _few_rows(x, weight, gated=True):
        return silu_mul(functional.linear(x, weight, bias))
    from kvasir_kernels.linear import kernel

    return kernel.gated_linear(x, weight)


def _few_rows(x: torch.Tensor, weight: torch.Tensor, *, gated: bool) -> bool:
    """Say whether the kernel is the faster way, and can take the operands."""
    return (
        use_kernel(x)
        and x.element_size() == 2
        and x.dim() == 2
        and x.stride(1) == weight.stride(1) == 1
        and (x.stride(0) | weight.stride(0) | weight.shape[1]) % 8 == 0  # 16 bytes at a time
        and tuning.pays(*x.shape, weight.shape[0], gated=gated)
    )
