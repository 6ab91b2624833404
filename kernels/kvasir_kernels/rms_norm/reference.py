"""RMSNorm in plain torch (Zhang and Sennrich, 2019, https://arxiv.org/abs/1910.07467)."""

from __future__ import annotations

import torch


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Return x / rms(x) * weight over the last dimension, statistics in float32.

    x: [..., dim]; weight: [dim]; the result has x's shape and dtype.
    """
    wide = x.float()
    scale = torch.rsqrt(wide.pow(2).mean(dim=-1, keepdim=True) + eps)
    return weight * (wide * scale).to(x.dtype)


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the normalised x + residual, and x + residual itself for the next layer."""
    total = x + residual
    return rms_norm(total, weight, eps), total
