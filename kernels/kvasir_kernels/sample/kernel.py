"""Launching the sampling kernels: thresholds, then draws over parts of rows, then winners."""

from __future__ import annotations

import torch

from kvasir_kernels.dispatch import processors
from kvasir_kernels.sample import tuning
from kvasir_kernels.sample.draw import draw_kernel, pick_kernel
from kvasir_kernels.sample.threshold import threshold_kernel


def sample(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
    seed: torch.Tensor,
    position: torch.Tensor,
) -> torch.Tensor:
    """Sample as the reference does."""
    if logits.stride(1) != 1:
        raise ValueError("rows of logits must be contiguous")
    rows, vocab = logits.shape
    tokens = seed.new_empty(rows)
    if rows == 0:
        return tokens
    least = thresholds(logits, temperature, top_k, top_p, min_p)
    parts, length = tuning.parts_of(rows, vocab, processors(logits.device))
    bests = temperature.new_empty((rows, parts))
    candidates = top_k.new_empty((rows, parts))
    draw_kernel[parts, rows](
        *(bests, candidates, logits, least, temperature, seed, position),
        *(vocab, logits.stride(0), length),
        TILE=tuning.DRAW_TILE,
        num_warps=tuning.DRAW_WARPS,
    )
    pick_kernel[rows,](tokens, bests, candidates, parts, PARTS=tuning.MOST_PARTS, num_warps=1)
    return tokens


def thresholds(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
) -> torch.Tensor:
    """Return the least logit each row keeps, float32 [rows]; -inf where it keeps all."""
    rows, vocab = logits.shape
    least = temperature.new_empty(rows)
    scratch = temperature.new_empty((rows, tuning.SEARCH_TILE + tuning.LISTED))
    threshold_kernel[rows,](
        *(least, scratch, logits, temperature, top_k, top_p, min_p, vocab, logits.stride(0)),
        CAPACITY=tuning.LISTED,
        TILE=tuning.SEARCH_TILE,
        WAYS=tuning.WAYS,
        num_warps=tuning.SEARCH_WARPS,
    )
    return least
