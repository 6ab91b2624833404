"""Linear layers in plain torch."""

from __future__ import annotations

import torch
from torch.nn import functional

from kvasir_kernels.silu_mul.reference import silu_mul


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Return x Wᵀ + b. x: [tokens, in]; weight: [out, in]; bias: [out]; returns [tokens, out]."""
    return functional.linear(x, weight, bias)


def gated_linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return silu(x Gᵀ) * (x Uᵀ), where weight is G over U.

    x: [tokens, in]; weight: [2 * out, in]; returns [tokens, out].
    """
    return silu_mul(functional.linear(x, weight))
