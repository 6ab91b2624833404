# mypy: allow-untyped-defs, allow-untyped-decorators, allow-untyped-calls
"""Truncation without a sort: top-k, top-p and min-p become one threshold on a row's logits.

`_search` finds it exactly: each pass over the row weighs the tokens above WAYS evenly spaced
candidates and keeps the one interval in which the weight crosses its target, until that holds a
single value. Sums have a fixed order, so the same row always gets the same threshold.
"""

from __future__ import annotations

import triton
import triton.language as tl

MINUS_INFINITY = tl.constexpr(float("-inf"))
INFINITY = tl.constexpr(float("inf"))
MOST_PASSES = tl.constexpr(64)  # far more than float32 can need; bounds rows with strange numbers


@triton.jit
def load_logits(logits, first, vocab, TILE: tl.constexpr):
    """Load a tile of a row as float32, -inf beyond it and for what isn't a number."""
    token = first + tl.arange(0, TILE)
    score = tl.load(logits + token, mask=token < vocab, other=MINUS_INFINITY).to(tl.float32)
    return tl.where(score == score, score, MINUS_INFINITY), token


@triton.jit
def _range(logits, vocab, TILE: tl.constexpr):
    """Return the least finite and the largest logit."""
    least = tl.full([TILE], INFINITY, tl.float32)
    most = tl.full([TILE], MINUS_INFINITY, tl.float32)
    for first in range(0, vocab, TILE):
        score, _ = load_logits(logits, first, vocab, TILE)
        least = tl.minimum(least, tl.where(score > MINUS_INFINITY, score, INFINITY))
        most = tl.maximum(most, score)
    return tl.min(least, 0), tl.max(most, 0)


@triton.jit
def _weigh(  # noqa: PLR0913
    logits,
    vocab,
    low,
    high,
    candidates,  # [WAYS]
    peak,
    inverse,
    BY_MASS: tl.constexpr,
    TILE: tl.constexpr,
    WAYS: tl.constexpr,
):
    """Weigh the tokens above each candidate; find the least and largest logit in [low, high)."""
    sums = tl.zeros([WAYS, TILE], tl.float32)
    least = tl.full([TILE], INFINITY, tl.float32)
    most = tl.full([TILE], MINUS_INFINITY, tl.float32)
    for first in range(0, vocab, TILE):
        score, _ = load_logits(logits, first, vocab, TILE)
        if BY_MASS:
            weight = tl.exp((score - peak) * inverse)
        else:
            weight = tl.full([TILE], 1.0, tl.float32)
        above = score[None, :] >= candidates[:, None]
        sums += tl.where(above, weight[None, :], 0.0)
        within = (score >= low) & (score < high)
        least = tl.minimum(least, tl.where(within, score, INFINITY))
        most = tl.maximum(most, tl.where(within, score, MINUS_INFINITY))
    return tl.sum(sums, 1), tl.min(least, 0), tl.max(most, 0)


@triton.jit
def _search(  # noqa: PLR0913
    logits,
    vocab,
    low,
    share,
    peak,
    inverse,
    BY_MASS: tl.constexpr,
    TILE: tl.constexpr,
    WAYS: tl.constexpr,
):
    """Return the largest logit that, with all above it, weighs enough.

    Enough is `share` tokens, or with BY_MASS that share of the probability at or above `low`.
    """
    way = tl.arange(0, WAYS)
    high = peak + (tl.abs(peak) + 1.0) * 0.001
    target = share
    passes = 0
    while passes < MOST_PASSES:
        candidates = low + (high - low) * (way.to(tl.float32) / WAYS)
        sums, least, most = _weigh(
            logits, vocab, low, high, candidates, peak, inverse, BY_MASS, TILE, WAYS
        )
        if passes == 0:
            whole = tl.max(sums, 0)
            # Not 0, which candidates above every logit would reach as well.
            target = tl.maximum(share * whole, 1.0e-30) if BY_MASS else tl.minimum(share, whole)
        if least < most:
            crossed = tl.maximum(tl.sum((sums >= target).to(tl.int32), 0) - 1, 0)
            low = tl.max(tl.where(way <= crossed, candidates, MINUS_INFINITY), 0)
            high = tl.min(tl.where(way > crossed, candidates, high), 0)
            passes += 1
        else:
            low = least
            passes = MOST_PASSES
    return low


@triton.jit
def threshold_kernel(  # noqa: PLR0913
    thresholds,
    logits,
    temperature,
    top_k,
    top_p,
    min_p,
    vocab,
    row_stride,
    TILE: tl.constexpr,
    WAYS: tl.constexpr,
):
    """Write the least logit one row keeps, -inf where it keeps all; grid (rows,)."""
    row = tl.program_id(0)
    logits += row.to(tl.int64) * row_stride
    heat = tl.load(temperature + row)
    k, p, least_p = tl.load(top_k + row), tl.load(top_p + row), tl.load(min_p + row)
    by_count = (k > 0) & (k < vocab)
    low = MINUS_INFINITY
    if (heat > 0.0) & (by_count | (p < 1.0) | (least_p > 0.0)):
        inverse = tl.div_rn(1.0, heat)
        low, peak = _range(logits, vocab, TILE)
        if by_count:
            low = _search(logits, vocab, low, k.to(tl.float32), peak, inverse, False, TILE, WAYS)
        if p < 1.0:
            low = _search(logits, vocab, low, p, peak, inverse, True, TILE, WAYS)
        if least_p > 0.0:
            low = tl.maximum(low, peak + tl.log(least_p) * heat)
    tl.store(thresholds + row, low)
