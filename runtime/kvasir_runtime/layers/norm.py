"""RMSNorm as a module."""

from __future__ import annotations

import torch
from torch import nn

from kvasir_kernels.rms_norm import add_rms_norm, rms_norm


class RMSNorm(nn.Module):
    """Root-mean-square norm with a learned scale."""

    def __init__(self, dim: int, eps: float) -> None:
        """Allocate the scale, [dim]."""
        super().__init__()
        self.weight = nn.Parameter(torch.empty(dim), requires_grad=False)
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise the last dimension of x."""
        return rms_norm(x, self.weight, self.eps)

    def add(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the norm of x + residual, and x + residual."""
        return add_rms_norm(x, residual, self.weight, self.eps)
