"""Choosing each row's token: temperature, top-k, top-p and min-p, without host round trips."""

from __future__ import annotations

import torch

from kvasir_kernels.dispatch import use_kernel
from kvasir_kernels.sample import reference

__all__ = ["sample"]


def sample(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
    seed: torch.Tensor,
    position: torch.Tensor,
    *,
    rows: torch.Tensor | None = None,
    pool: torch.Tensor | None = None,
) -> torch.Tensor:
    """Choose a token for each row of logits, [rows, vocab]; see the reference."""
    choose = reference.sample
    if use_kernel(logits):
        from kvasir_kernels.sample.kernel import sample as choose
    operands = (logits, temperature, top_k, top_p, min_p, seed, position)
    return choose(*operands, rows=rows, pool=pool)
