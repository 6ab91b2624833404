"""Linear layers, alone and with the gated activation behind them.

torch multiplies; where there are few rows, a kernel that reads weights faster than cuBLAS does.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from kvasir_kernels.dispatch import processors, use_kernel
from kvasir_kernels.linear import tuning
from kvasir_kernels.silu_mul import silu_mul

__all__ = ["gated_linear", "linear"]


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Return x Wᵀ + b; see the reference."""
    if _suits(x, weight, weight.shape[0]):
        from kvasir_kernels.linear import kernel

        return kernel.linear(x, weight, bias)
    if tuning.transposed_on_cpu(x):
        product = torch.mm(weight, x.t()).t().contiguous()
        return product if bias is None else product.add_(bias)
    return functional.linear(x, weight, bias)


def gated_linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return silu(x Gᵀ) * (x Uᵀ), where weight is G over U; see the reference."""
    if not _suits(x, weight, weight.shape[0] // 2):
        return silu_mul(linear(x, weight))
    from kvasir_kernels.linear import kernel

    return kernel.gated_linear(x, weight)


def _suits(x: torch.Tensor, weight: torch.Tensor, columns: int) -> bool:
    """Say whether the kernel takes the operands, 16 bytes at a time, and is the faster way."""
    return (
        use_kernel(x)
        and x.element_size() == 2
        and x.stride(-1) == weight.stride(-1) == 1
        and (x.stride(0) | weight.stride(0)) % 8 == 0
        and tuning.pays(x.shape[0], columns, processors(x.device))
    )
