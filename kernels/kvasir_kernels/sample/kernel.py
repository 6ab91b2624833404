"""Launching the sampling kernels: thresholds, then draws over parts of rows, then winners."""

from __future__ import annotations

import torch

from kvasir_kernels.dispatch import processors
from kvasir_kernels.sample.draw import draw_kernel, pick_kernel
from kvasir_kernels.sample.threshold import threshold_kernel
from kvasir_kernels.sample.tuning import DRAW_TILE, MOST_PARTS, SEARCH_TILE, WAYS, parts_of


def sample(  # noqa: PLR0913  (the operation's operands)
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
    seed: torch.Tensor,
    position: torch.Tensor,
) -> torch.Tensor:
    """Sample as the reference does."""
    rows, vocab = logits.shape
    if logits.stride(1) != 1:
        raise ValueError("rows of logits must be contiguous")
    tokens = seed.new_empty(rows)
    if rows == 0:
        return tokens
    row_stride = logits.stride(0)
    thresholds = temperature.new_empty(rows)
    threshold_kernel[rows,](
        *(thresholds, logits, temperature, top_k, top_p, min_p, vocab, row_stride),
        TILE=SEARCH_TILE,
        WAYS=WAYS,
        num_warps=8,
    )
    parts, length = parts_of(rows, vocab, processors(logits.device))
    bests = temperature.new_empty((rows, parts))
    candidates = top_k.new_empty((rows, parts))
    draw_kernel[parts, rows](
        *(bests, candidates, logits, thresholds, temperature, seed, position),
        *(vocab, row_stride, length),
        TILE=DRAW_TILE,
        num_warps=4,
    )
    pick_kernel[rows,](tokens, bests, candidates, parts, PARTS=MOST_PARTS, num_warps=1)
    return tokens
