# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""Truncation without a sort: top-k, top-p and min-p become one threshold on a row's logits.

A search weighs the tokens above WAYS evenly spaced candidates and keeps the one interval in which
the weight crosses its target. A few passes over the row leave so few tokens in the interval that
they are gathered into a short list, and searched there until a single value is left: the threshold
is exact. Sums have a fixed order, so the same row always gets the same threshold.
"""

from __future__ import annotations

import triton
import triton.language as tl

MINUS_INFINITY = tl.constexpr(float("-inf"))
INFINITY = tl.constexpr(float("inf"))
# Far more passes than float32 can need: they bound rows of strange numbers or of one value.
ROW_PASSES = tl.constexpr(10)
LIST_PASSES = tl.constexpr(64)


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
def _weigh(
    logits,
    count,
    low,
    high,
    peak,
    inverse,
    BY_MASS: tl.constexpr,
    TILE: tl.constexpr,
    WAYS: tl.constexpr,
):
    """Weigh the tokens above each of WAYS candidates; find the range of the logits within them.

    Returns candidates and weights, [WAYS], and the least and the largest logit in [low, high).
    """
    candidates = low + (high - low) * (tl.arange(0, WAYS).to(tl.float32) / WAYS)
    sums = tl.zeros([WAYS, TILE], tl.float32)
    least = tl.full([TILE], INFINITY, tl.float32)
    most = tl.full([TILE], MINUS_INFINITY, tl.float32)
    for first in range(0, count, TILE):
        score, _ = load_logits(logits, first, count, TILE)
        weight = tl.full([TILE], 1.0, tl.float32)
        if BY_MASS:
            weight = tl.exp((score - peak) * inverse)
        above = score[None, :] >= candidates[:, None]
        sums += tl.where(above, weight[None, :], 0.0)
        within = (score >= low) & (score < high)
        least = tl.minimum(least, tl.where(within, score, INFINITY))
        most = tl.maximum(most, tl.where(within, score, MINUS_INFINITY))
    return candidates, tl.sum(sums, 1), tl.min(least, 0), tl.max(most, 0)


@triton.jit
def _narrow(candidates, sums, target, high, above, WAYS: tl.constexpr):
    """Return the interval where the weight crosses its target, and the weight above it."""
    way = tl.arange(0, WAYS)
    crossed = tl.maximum(tl.sum((sums >= target).to(tl.int32), 0) - 1, 0)
    return (
        tl.max(tl.where(way <= crossed, candidates, MINUS_INFINITY), 0),
        tl.min(tl.where(way > crossed, candidates, high), 0),
        tl.max(tl.where(way > crossed, sums, above), 0),
    )


@triton.jit
def _target(share, whole, BY_MASS: tl.constexpr):
    """Return the weight to reach: not 0, which candidates above every logit would reach too."""
    return tl.maximum(share * whole, 1.0e-30) if BY_MASS else tl.minimum(share, whole)


@triton.jit
def _gather(kept, logits, vocab, low, high, CAPACITY: tl.constexpr, TILE: tl.constexpr):
    """List the logits in [low, high); return how many there are, of which CAPACITY are listed."""
    count = 0
    for first in range(0, vocab, TILE):
        score, _ = load_logits(logits, first, vocab, TILE)
        within = ((score >= low) & (score < high)).to(tl.int32)
        place = count + tl.cumsum(within, 0) - 1
        tl.store(kept + place, score, mask=(within > 0) & (place < CAPACITY))
        count += tl.sum(within, 0)
    tl.debug_barrier()  # every thread reads the list
    return count


@triton.jit
def _search_list(
    kept,
    count,
    low,
    high,
    above,
    target,
    peak,
    inverse,
    BY_MASS: tl.constexpr,
    TILE: tl.constexpr,
    WAYS: tl.constexpr,
):
    """Search a list of logits, above all of which lies the weight `above`, to the end."""
    passes = 0
    while passes < LIST_PASSES:
        candidates, sums, least, most = _weigh(
            kept, count, low, high, peak, inverse, BY_MASS, TILE, WAYS
        )
        if least < most:
            low, high, _ = _narrow(candidates, sums + above, target, high, above, WAYS)
            passes += 1
        else:
            low = tl.where(least < INFINITY, least, low)
            passes = LIST_PASSES
    return low


@triton.jit
def _search_row(
    kept,
    logits,
    vocab,
    low,
    share,
    peak,
    inverse,
    BY_MASS: tl.constexpr,
    CAPACITY: tl.constexpr,
    TILE: tl.constexpr,
    WAYS: tl.constexpr,
):
    """Return the largest logit that, with all above it, weighs enough.

    Enough is `share` tokens, or with BY_MASS that share of the probability at or above `low`.
    """
    high = _just_above(peak)
    above = 0.0
    target = share
    count = CAPACITY + 1
    passes = 0
    while (passes < ROW_PASSES) & (count > CAPACITY):
        candidates, sums, _, _ = _weigh(
            logits, vocab, low, high, peak, inverse, BY_MASS, TILE, WAYS
        )
        if passes == 0:
            target = _target(share, tl.max(sums, 0), BY_MASS)
        low, high, above = _narrow(candidates, sums, target, high, above, WAYS)
        if passes > 0:  # one pass leaves too many
            count = _gather(kept, logits, vocab, low, high, CAPACITY, TILE)
        passes += 1
    if count <= CAPACITY:
        low = _search_list(
            kept, count, low, high, above, target, peak, inverse, BY_MASS, TILE, WAYS
        )
    return low


@triton.jit
def _just_above(peak):
    return peak + (tl.abs(peak) + 1.0) * 0.001


@triton.jit
def _nucleus(
    kept,
    logits,
    vocab,
    low,
    share,
    peak,
    inverse,
    counted,
    CAPACITY: tl.constexpr,
    TILE: tl.constexpr,
    WAYS: tl.constexpr,
):
    """Return top-p's threshold among the tokens at or above `low`: top-k's, where `counted`."""
    count = CAPACITY + 1
    if counted:
        count = _gather(kept, logits, vocab, low, INFINITY, CAPACITY, TILE)
    if count <= CAPACITY:
        high = _just_above(peak)
        _, sums, _, _ = _weigh(kept, count, low, high, peak, inverse, True, TILE, WAYS)
        target = _target(share, tl.max(sums, 0), True)
        low = _search_list(kept, count, low, high, 0.0, target, peak, inverse, True, TILE, WAYS)
    else:
        low = _search_row(
            kept, logits, vocab, low, share, peak, inverse, True, CAPACITY, TILE, WAYS
        )
    return low


@triton.jit
def threshold_kernel(
    thresholds,
    scratch,  # float32 [rows, CAPACITY]
    logits,
    temperature,
    top_k,
    top_p,
    min_p,
    vocab,
    row_stride,
    CAPACITY: tl.constexpr,
    TILE: tl.constexpr,
    WAYS: tl.constexpr,
):
    """Write the least logit one row keeps, -inf where it keeps all; grid (rows,)."""
    row = tl.program_id(0)
    logits += row.to(tl.int64) * row_stride
    kept = scratch + row * CAPACITY
    heat = tl.load(temperature + row)
    k, p, least_p = tl.load(top_k + row), tl.load(top_p + row), tl.load(min_p + row)
    counted = (k > 0) & (k < vocab)
    low = MINUS_INFINITY
    if (heat > 0.0) & (counted | (p < 1.0) | (least_p > 0.0)):
        inverse = tl.div_rn(1.0, heat)
        low, peak = _range(logits, vocab, TILE)
        if counted:
            low = _search_row(
                kept, logits, vocab, low, k.to(tl.float32), peak, inverse,
                False, CAPACITY, TILE, WAYS,
            )  # fmt: skip
        if p < 1.0:
            low = _nucleus(
                kept, logits, vocab, low, p, peak, inverse, counted, CAPACITY, TILE, WAYS
            )
        if least_p > 0.0:
            low = tl.maximum(low, peak + tl.log(least_p) * heat)
    tl.store(thresholds + row, low)
