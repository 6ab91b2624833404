"""Linear layers whose weights may be several checkpoint tensors stacked into one.

One wide matrix multiplication is faster than two or three narrow ones, so queries, keys and values
(and gate and up) share a weight. The loader fills each part by its row offset.
"""

from __future__ import annotations

import torch
from torch import nn

from kvasir_kernels.linear import linear


class StackedLinear(nn.Module):
    """y = x Wᵀ (+ b), with W's rows made of named parts in a fixed order."""

    def __init__(self, in_features: int, parts: dict[str, int], *, bias: bool = False) -> None:
        """Allocate [sum of parts, in_features]; `parts` maps a part's name to its rows."""
        super().__init__()
        self.rows: dict[str, slice] = {}
        end = 0
        for name, size in parts.items():
            self.rows[name] = slice(end, end + size)
            end += size
        self.sizes = list(parts.values())
        self.weight = nn.Parameter(torch.empty(end, in_features), requires_grad=False)
        self.bias = nn.Parameter(torch.empty(end), requires_grad=False) if bias else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [tokens, in] to [tokens, all parts]."""
        return linear(x, self.weight, self.bias)


class Linear(StackedLinear):
    """A linear layer with one part."""

    def __init__(self, in_features: int, out_features: int, *, bias: bool = False) -> None:
        """Allocate [out_features, in_features]."""
        super().__init__(in_features, {"": out_features}, bias=bias)
