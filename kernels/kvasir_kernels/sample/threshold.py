# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""Truncation without a sort: top-k, top-p and min-p become one threshold on a row's logits.

One pass over a row finds the crests, the largest logit of each lane. The k-th crest is a lower
bound of the k-th logit, so a second pass gathers the few logits above it into a list, and the
threshold is searched there. A row whose list would be long or hold too little probability is
searched whole. A search weighs the tokens above WAYS evenly spaced candidates and keeps the one
interval in which the weight crosses its target, until a single value is left: the threshold is
exact. Sums have a fixed order, so the same row always gets the same threshold.
"""

from __future__ import annotations

import triton
import triton.language as tl

from kvasir_kernels import pdl

MINUS_INFINITY = tl.constexpr(float("-inf"))
INFINITY = tl.constexpr(float("inf"))
# Far more passes than float32 can need: they bound rows of strange numbers or of one value.
ROW_PASSES = tl.constexpr(10)
LIST_PASSES = tl.constexpr(64)
NUCLEUS_CRESTS = tl.constexpr(256)  # crests above which a nucleus is expected to lie


@triton.jit
def load_logits(logits, first, vocab, TILE: tl.constexpr):
    """Load a tile of a row as float32, -inf beyond it and for what isn't a number."""
    token = first + tl.arange(0, TILE)
    score = tl.load(logits + token, mask=token < vocab, other=MINUS_INFINITY).to(tl.float32)
    return tl.where(score == score, score, MINUS_INFINITY), token


@triton.jit
def _crests(crests, logits, vocab, TILE: tl.constexpr):
    """Write each lane's largest logit; return the least finite one and the largest."""
    most = tl.full([TILE], MINUS_INFINITY, tl.float32)
    for first in range(0, vocab, TILE):
        score, _ = load_logits(logits, first, vocab, TILE)
        most = tl.maximum(most, score)
    tl.store(crests + tl.arange(0, TILE), most)
    tl.debug_barrier()  # every thread reads the crests
    return tl.min(tl.where(most > MINUS_INFINITY, most, INFINITY), 0), tl.max(most, 0)


@triton.jit
def _least(logits, vocab, TILE: tl.constexpr):
    """Return the least finite logit."""
    least = tl.full([TILE], INFINITY, tl.float32)
    for first in range(0, vocab, TILE):
        score, _ = load_logits(logits, first, vocab, TILE)
        least = tl.minimum(least, tl.where(score > MINUS_INFINITY, score, INFINITY))
    return tl.min(least, 0)


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
def _gather(
    kept, logits, vocab, low, high, peak, inverse, CAPACITY: tl.constexpr, TILE: tl.constexpr
):
    """List the logits in [low, high), CAPACITY of them at most.

    Returns how many there are, and the probability of the whole row relative to the peak's.
    """
    count = 0
    mass = tl.zeros([TILE], tl.float32)
    for first in range(0, vocab, TILE):
        score, _ = load_logits(logits, first, vocab, TILE)
        mass += tl.exp((score - peak) * inverse)
        within = ((score >= low) & (score < high)).to(tl.int32)
        place = count + tl.cumsum(within, 0) - 1
        tl.store(kept + place, score, mask=(within > 0) & (place < CAPACITY))
        count += tl.sum(within, 0)
    tl.debug_barrier()  # every thread reads the list
    return count, tl.sum(mass, 0)


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
    """Return the largest logit that, with all above it, weighs enough, from a whole row.

    Enough is `share` tokens, or with BY_MASS that share of the probability at or above `low`.
    """
    high = _just_above(peak)
    above = 0.0
    target = share
    count = CAPACITY + 1
    passes = 0
    while (passes < ROW_PASSES) & (count > CAPACITY):
        candidates, sums, least, most = _weigh(
            logits, vocab, low, high, peak, inverse, BY_MASS, TILE, WAYS
        )
        if passes == 0:
            target = _target(share, tl.max(sums, 0), BY_MASS)
        if least < most:
            low, high, above = _narrow(candidates, sums, target, high, above, WAYS)
            if passes > 0:  # one pass leaves too many
                count, _ = _gather(kept, logits, vocab, low, high, peak, inverse, CAPACITY, TILE)
            passes += 1
        else:
            low = least
            passes = ROW_PASSES
    if count <= CAPACITY:
        low = _search_list(
            kept, count, low, high, above, target, peak, inverse, BY_MASS, TILE, WAYS
        )
    return low


@triton.jit
def _just_above(peak):
    return peak + (tl.abs(peak) + 1.0) * 0.001


@triton.jit
def _list_top(
    crests,
    kept,
    logits,
    vocab,
    wanted,
    inverse,
    CAPACITY: tl.constexpr,
    TILE: tl.constexpr,
    WAYS: tl.constexpr,
):
    """List at least the `wanted` largest logits, unless more than CAPACITY would come along.

    Returns how many there are, what the least may be, the peak, and the row's probability
    relative to the peak's.
    """
    low, peak = _crests(crests, logits, vocab, TILE)
    high = _just_above(peak)
    low = _search_list(
        crests, TILE, low, high, 0.0, wanted.to(tl.float32), peak, inverse, False, TILE, WAYS
    )
    count, mass = _gather(kept, logits, vocab, low, INFINITY, peak, inverse, CAPACITY, TILE)
    return count, low, peak, mass


@triton.jit
def _nucleus(
    kept,
    logits,
    vocab,
    count,
    low,
    peak,
    mass,
    share,
    inverse,
    counted,
    CAPACITY: tl.constexpr,
    TILE: tl.constexpr,
    WAYS: tl.constexpr,
):
    """Return top-p's threshold: among the tokens at or above `low` where `counted`, else in all."""
    enough = False
    high = _just_above(peak)
    target = share
    if count <= CAPACITY:
        _, sums, _, _ = _weigh(kept, count, low, high, peak, inverse, True, TILE, WAYS)
        held = tl.max(sums, 0)
        target = _target(share, tl.where(counted, held, mass), True)
        enough = held >= target
    if enough:
        low = _search_list(kept, count, low, high, 0.0, target, peak, inverse, True, TILE, WAYS)
    else:
        if not counted:
            low = _least(logits, vocab, TILE)
        low = _search_row(
            kept, logits, vocab, low, share, peak, inverse, True, CAPACITY, TILE, WAYS
        )
    return low


@triton.jit
def threshold_kernel(
    thresholds,
    scratch,  # float32 [rows, TILE + CAPACITY]
    logits,
    rows,
    temperature,
    top_k,
    top_p,
    min_p,
    vocab,
    row_stride,
    CAPACITY: tl.constexpr,
    TILE: tl.constexpr,
    WAYS: tl.constexpr,
    PDL: tl.constexpr,
):
    """Write the least logit one row keeps, -inf where it keeps all; grid (rows,)."""
    pdl.begin(PDL)
    row = tl.program_id(0)
    own = tl.load(rows + row)
    logits += row.to(tl.int64) * row_stride
    crests = scratch + row * (TILE + CAPACITY)
    kept = crests + TILE
    heat = tl.load(temperature + own)
    k, p, least_p = tl.load(top_k + own), tl.load(top_p + own), tl.load(min_p + own)
    counted = (k > 0) & (k < vocab)
    threshold = MINUS_INFINITY
    if (heat > 0.0) & (counted | (p < 1.0) | (least_p > 0.0)):
        inverse = tl.div_rn(1.0, heat)
        wanted = tl.where(counted, k, NUCLEUS_CRESTS)
        count, low, peak, mass = _list_top(
            crests, kept, logits, vocab, wanted, inverse, CAPACITY, TILE, WAYS
        )
        if counted:
            if (count <= CAPACITY) & (count >= k):
                low = _search_list(
                    kept, count, low, _just_above(peak), 0.0, k.to(tl.float32), peak, inverse,
                    False, TILE, WAYS,
                )  # fmt: skip
            else:
                low = _search_row(
                    kept, logits, vocab, _least(logits, vocab, TILE), k.to(tl.float32), peak,
                    inverse, False, CAPACITY, TILE, WAYS,
                )  # fmt: skip
                count = CAPACITY + 1  # the list is another one now
            threshold = low
        if p < 1.0:
            threshold = _nucleus(
                kept, logits, vocab, count, low, peak, mass, p, inverse, counted,
                CAPACITY, TILE, WAYS,
            )  # fmt: skip
        if least_p > 0.0:
            threshold = tl.maximum(threshold, peak + tl.log(least_p) * heat)
    tl.store(thresholds + row, threshold)
