# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""The draw: the largest p / Exp(1) among the tokens above a threshold, or the largest logit.

Several programs share a row where there are few rows. A token's noise depends on its seed, position
and id alone, so the same token wins however a row is shared.
"""

from __future__ import annotations

import triton
import triton.language as tl

from kvasir_kernels import pdl
from kvasir_kernels.sample.reference import GREEDY as GREEDY_TEMPERATURE
from kvasir_kernels.sample.threshold import MINUS_INFINITY, load_logits

GREEDY = tl.constexpr(GREEDY_TEMPERATURE)
NO_TOKEN = tl.constexpr(0x7FFFFFFF)


@triton.jit
def _exponential(words):
    """Map 32 random bits to Exp(1), keeping the digits of small results, which win a draw."""
    uniform = words.to(tl.float32) * 2.0**-32 + 2.0**-33
    rest = 1.0 - uniform
    return tl.where(rest == 1.0, uniform, -tl.log(rest) * (uniform / (1.0 - rest)))


@triton.jit
def _noise(seed, position, first, TILE: tl.constexpr):
    """Return Exp(1) noise of a tile of tokens: word t % 4 of the Philox block t // 4."""
    counter = first // 4 + tl.arange(0, TILE // 4)
    zero = counter * 0
    words = tl.philox(seed, counter, zero + position.to(tl.int32), zero, zero)
    pairs = tl.join(tl.join(words[0], words[2]), tl.join(words[1], words[3]))
    return _exponential(tl.reshape(pairs, [TILE]))


@triton.jit
def _most_likely(logits, first, end, TILE: tl.constexpr):
    """Return each lane's largest logit of [first, end), and its token."""
    best = tl.full([TILE], MINUS_INFINITY, tl.float32)
    best_at = tl.zeros([TILE], tl.int32)
    for start in range(first, end, TILE):
        score, token = load_logits(logits, start, end, TILE)
        best_at = tl.where(score > best, token, best_at)
        best = tl.maximum(best, score)
    return best, best_at


@triton.jit
def _noisiest(logits, first, end, threshold, inverse, seed, position, TILE: tl.constexpr):
    """Return each lane's largest log(p / Exp(1)) of the kept tokens of [first, end), and which."""
    best = tl.full([TILE], MINUS_INFINITY, tl.float32)
    best_at = tl.zeros([TILE], tl.int32)
    for start in range(first, end, TILE):
        score, token = load_logits(logits, start, end, TILE)
        noisy = score * inverse - tl.log(_noise(seed, position, start, TILE))
        noisy = tl.where(score >= threshold, noisy, MINUS_INFINITY)
        best_at = tl.where(noisy > best, token, best_at)
        best = tl.maximum(best, noisy)
    return best, best_at


@triton.jit
def _winner(best, best_at):
    """Return the largest of the lanes' bests and its token, the lowest among equals."""
    highest = tl.max(best, 0)
    return highest, tl.min(tl.where(best == highest, best_at, NO_TOKEN), 0)


@triton.jit(do_not_specialize=["part_length"])
def draw_kernel(
    bests,
    candidates,
    logits,
    rows,
    thresholds,
    temperature,
    seed,
    position,
    vocab,
    row_stride,
    part_length,
    TILE: tl.constexpr,
    PDL: tl.constexpr,
):
    """Write the winner of one part of one row; grid (parts, rows)."""
    pdl.begin(PDL)
    part, row = tl.program_id(0), tl.program_id(1)
    logits += row.to(tl.int64) * row_stride
    first = part * part_length
    end = tl.minimum(first + part_length, vocab)
    own = tl.load(rows + row)
    heat = tl.load(temperature + own)
    if heat < GREEDY:
        best, best_at = _most_likely(logits, first, end, TILE)
    else:
        best, best_at = _noisiest(
            logits, first, end, tl.load(thresholds + row), tl.div_rn(1.0, heat),
            tl.load(seed + own), tl.load(position + row), TILE,
        )  # fmt: skip
    highest, token = _winner(best, best_at)
    at = row * tl.num_programs(0) + part
    tl.store(bests + at, highest)
    tl.store(candidates + at, token)


@triton.jit(do_not_specialize=["parts"], do_not_specialize_on_alignment=["tokens"])
def pick_kernel(
    tokens,
    pool,
    rows,
    bests,
    candidates,
    parts,
    PARTS: tl.constexpr,
    POOL: tl.constexpr,
    PDL: tl.constexpr,
):
    """Write the winner of one row's parts, of at most PARTS; grid (rows,)."""
    pdl.begin(PDL)
    row = tl.program_id(0)
    part = tl.arange(0, PARTS)
    at = row * parts + part
    best = tl.load(bests + at, mask=part < parts, other=MINUS_INFINITY)
    _, token = _winner(best, tl.load(candidates + at, mask=part < parts, other=NO_TOKEN))
    tl.store(tokens + row, token.to(tl.int64))
    if POOL:
        tl.store(pool + tl.load(rows + row), token.to(tl.int64))
