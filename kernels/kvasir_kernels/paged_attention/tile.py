# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""The step all attention kernels share: fold one tile of cached keys into a running softmax.

The softmax is computed online (Milakov and Gimelshein, 2018, https://arxiv.org/abs/1805.02867), in
base 2, so that one multiply-add and the hardware's exp2 make a probability.
"""

from __future__ import annotations

import triton
import triton.language as tl

# A running maximum starts here and not at -inf: (-inf) - (-inf) would poison rows that see no key.
LOWEST = tl.constexpr(-1.0e30)
HALF_LIMIT = tl.constexpr(65504.0)  # float16's largest number


@triton.jit
def load_queries(at, mask, cache):
    """Load rows of queries, in the type that the products with the cache's numbers are made in.

    That is float16 for bfloat16 queries over an e4m3 cache: float16 holds every e4m3 number, and
    one instruction widens two of them, where bfloat16 takes two more.
    """
    query = tl.load(at, mask=mask, other=0.0)
    if cache.dtype.element_ty == tl.float8e4nv and query.dtype == tl.bfloat16:
        query = tl.clamp(query.to(tl.float32), -HALF_LIMIT, HALF_LIMIT).to(tl.float16)
    return query


@triton.jit
def share(mixed, total, v_scale):
    """Divide weighted sums of cached values, [rows, WIDTH], by their weights' sums, [rows].

    v_scale is what cached values are multiplied by; None stands for 1. A row of no weight is 0.
    """
    weight = tl.where(total > 0, total, 1.0)
    if v_scale is not None:
        weight = weight / v_scale
    return mixed / weight[:, None]


@triton.jit
def blocks_of(table, key, end, BLOCK_SIZE: tl.constexpr):
    """Load the block of each key position from the block table.

    The tile loops fetch the next tile's blocks one round ahead: a load of keys whose address waits
    for another load in the same round would be pipelined a stage less deep.
    """
    return tl.load(table + key // BLOCK_SIZE, mask=key < end, other=0)


@triton.jit
def load_rows(
    cache,
    block,
    key,
    end,
    block_stride,
    slot_stride,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Load a tile of the cache, [keys, WIDTH], zero beyond `end` and beyond the head's DIM."""
    dim = tl.arange(0, WIDTH)
    row = block.to(tl.int64) * block_stride + key % BLOCK_SIZE * slot_stride
    at = cache + row[:, None] + dim[None, :]
    if MASKED:
        return tl.load(at, mask=(key < end)[:, None] & (dim < DIM)[None, :], other=0.0)
    if DIM != WIDTH:
        return tl.load(at, mask=(dim < DIM)[None, :], other=0.0)
    return tl.load(at)


@triton.jit
def fold_tile(
    query,  # [rows, WIDTH]
    mixed,  # [rows, WIDTH] float32: the weighted sum of values so far
    peak,  # [rows]: the largest score so far
    total,  # [rows]: the sum of weights so far
    keys,
    values,
    table,
    block,  # [BLOCK_N]: the blocks of this tile's keys
    start,
    end,
    position,  # [rows]: the last key each row may see
    scale,
    window,
    block_stride,
    slot_stride,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    BLOCK_N: tl.constexpr,
    MASKED: tl.constexpr,
    WINDOWED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Fold keys [start, start + BLOCK_N) in; only MASKED tiles may reach past a row's position.

    Cached numbers are widened to the type of the queries, and none is multiplied by its scale:
    `scale` includes that of the keys, `share` brings in that of the values.
    Returns mixed, peak and total, and the blocks of the next tile.
    """
    key = start + tl.arange(0, BLOCK_N)
    k = load_rows(keys, block, key, end, block_stride, slot_stride, DIM, WIDTH, BLOCK_SIZE, MASKED)
    k = k.to(query.dtype)
    score = tl.dot(query, tl.trans(k), input_precision=PRECISION)
    if MASKED:
        score = tl.where(key[None, :] <= position[:, None], score, float("-inf"))
    if WINDOWED:
        score = tl.where(key[None, :] > position[:, None] - window, score, float("-inf"))
    new_peak = tl.maximum(peak, tl.max(score, 1) * scale)
    weight = tl.exp2(score * scale - new_peak[:, None])
    shrink = tl.exp2(peak - new_peak)
    total = total * shrink + tl.sum(weight, 1)
    mixed = mixed * shrink[:, None]
    v = load_rows(
        values, block, key, end, block_stride, slot_stride, DIM, WIDTH, BLOCK_SIZE, MASKED
    )
    v = v.to(query.dtype)
    mixed = tl.dot(weight.to(v.dtype), v, mixed, input_precision=PRECISION)
    block = blocks_of(table, key + BLOCK_N, end, BLOCK_SIZE)
    return mixed, new_peak, total, block
