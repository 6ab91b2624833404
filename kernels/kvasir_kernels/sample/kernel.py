"""Launching the sampling kernels: thresholds, then draws over parts of rows, then winners."""

from __future__ import annotations

import torch

from kvasir_kernels import pdl
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
    *,
    rows: torch.Tensor | None = None,
    pool: torch.Tensor | None = None,
) -> torch.Tensor:
    """Sample as the reference does."""
    if logits.stride(1) != 1:
        raise ValueError("rows of logits must be contiguous")
    count, vocab = logits.shape
    tokens = seed.new_empty(count)
    if count == 0:
        return tokens
    rows = torch.arange(count, device=logits.device) if rows is None else rows
    launch = pdl.options(logits)
    least = thresholds(logits, rows, temperature, top_k, top_p, min_p)
    parts, length = tuning.parts_of(count, vocab, processors(logits.device))
    bests = temperature.new_empty((count, parts))
    candidates = top_k.new_empty((count, parts))
    draw_kernel[parts, count](
        *(bests, candidates, logits, rows, least, temperature, seed, position),
        *(vocab, logits.stride(0), length),
        TILE=tuning.DRAW_TILE,
        num_warps=tuning.DRAW_WARPS,
        **launch,
    )
    pick_kernel[count,](
        *(tokens, tokens if pool is None else pool, rows, bests, candidates, parts),
        PARTS=tuning.MOST_PARTS,
        POOL=pool is not None,
        num_warps=1,
        **launch,
    )
    return tokens


def thresholds(
    logits: torch.Tensor,
    rows: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
) -> torch.Tensor:
    """Return the least logit each row keeps, float32 [rows]; -inf where it keeps all."""
    count, vocab = logits.shape
    least = temperature.new_empty(count)
    scratch = temperature.new_empty((count, tuning.SEARCH_TILE + tuning.LISTED))
    threshold_kernel[count,](
        *(least, scratch, logits, rows, temperature, top_k, top_p, min_p, vocab, logits.stride(0)),
        CAPACITY=tuning.LISTED,
        TILE=tuning.SEARCH_TILE,
        WAYS=tuning.WAYS,
        num_warps=tuning.SEARCH_WARPS,
        **pdl.options(logits),
    )
    return least
