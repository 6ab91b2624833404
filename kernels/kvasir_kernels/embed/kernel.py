# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""Embedding of tokens whose ids the device alone may know, so that no step waits for them."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvasir_kernels import pdl

TOKENS = 128
TILE = 1024


@triton.jit
def _token_ids(token_ids, source, pool, at, inside):
    """Load the ids of the tokens `at`."""
    place = tl.load(source + at, mask=inside, other=-1)
    known = tl.load(token_ids + at, mask=inside & (place < 0), other=0)
    sampled = tl.load(pool + place, mask=inside & (place >= 0), other=0)
    return tl.where(place >= 0, sampled, known)


@triton.jit(
    do_not_specialize=["tokens"],
    do_not_specialize_on_alignment=["out", "token_ids", "source", "pool"],
)
def gather_kernel(out, token_ids, source, pool, tokens, TOKENS: tl.constexpr, PDL: tl.constexpr):
    """Gather TOKENS ids; grid (ceil(tokens / TOKENS),)."""
    pdl.begin(PDL)
    at = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    ids = _token_ids(token_ids, source, pool, at, at < tokens)
    tl.store(out + at, ids, mask=at < tokens)


@triton.jit(do_not_specialize_on_alignment=["token_ids", "source", "pool"])
def embed_kernel(
    out, token_ids, source, pool, table, hidden, row_stride, TILE: tl.constexpr, PDL: tl.constexpr
):
    """Copy one tile of one token's embedding; grid (ceil(hidden / TILE), tokens)."""
    pdl.begin(PDL)
    token = tl.program_id(1).to(tl.int64)
    token_id = _token_ids(token_ids, source, pool, token, True)
    dim = tl.program_id(0) * TILE + tl.arange(0, TILE)
    row = tl.load(table + token_id * row_stride + dim, mask=dim < hidden)
    tl.store(out + token * hidden + dim, row, mask=dim < hidden)


def gather_tokens(
    token_ids: torch.Tensor, source: torch.Tensor, pool: torch.Tensor
) -> torch.Tensor:
    """Gather as the reference does."""
    out, tokens = torch.empty_like(token_ids), token_ids.shape[0]
    if tokens:
        grid = (triton.cdiv(tokens, TOKENS),)
        gather_kernel[grid](
            *(out, token_ids, source, pool, tokens),
            TOKENS=TOKENS,
            num_warps=4,
            **pdl.options(out),
        )
    return out


def embed(
    token_ids: torch.Tensor, source: torch.Tensor, pool: torch.Tensor, table: torch.Tensor
) -> torch.Tensor:
    """Embed as the reference does."""
    tokens, hidden = token_ids.shape[0], table.shape[1]
    out = table.new_empty((tokens, hidden))
    if tokens:
        grid = (triton.cdiv(hidden, TILE), tokens)
        operands = (out, token_ids, source, pool, table, hidden, table.stride(0))
        embed_kernel[grid](*operands, TILE=TILE, num_warps=4, **pdl.options(out))
    return out
