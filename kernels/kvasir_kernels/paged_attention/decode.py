# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""Attention of one new token a sequence, with the keys of long contexts split over programs.

A program folds one part of a sequence's keys for all query heads of one KV head. How many parts a
context has is worked out on the device from its own length, so one launch serves any mix of
lengths; a context of one part is written straight away, the others go through float32 scratch and
`merge_kernel` (Dao et al., Flash-Decoding, 2023, https://crfm.stanford.edu/2023/10/12/flashdecoding.html).
"""

from __future__ import annotations

import triton
import triton.language as tl

from kvasir_kernels import pdl
from kvasir_kernels.paged_attention.tile import LOWEST, blocks_of, fold_tile, load_queries, share

MERGED = tl.constexpr(16)  # parts merged together


@triton.jit
def _part_length(keys, parts, least, BLOCK_N: tl.constexpr):
    """Return how many keys each part of a context has: at least `least`, whole tiles."""
    return tl.cdiv(tl.maximum(tl.cdiv(keys, parts), least), BLOCK_N) * BLOCK_N


@triton.jit
def _store_part(
    out,
    scratch,
    log_weights,
    mixed,  # [rows, WIDTH]
    peak,
    total,
    v_scale,
    seq,
    head,
    heads,
    part,
    parts,
    alone,
    inside,
    out_token_stride,
    out_head_stride,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Write a part's result: to the output if it is the only one, else to scratch."""
    dim = tl.arange(0, WIDTH)
    mixed = share(mixed, total, v_scale)
    mask = inside[:, None] & (dim < DIM)[None, :]
    if alone:
        at = seq.to(tl.int64) * out_token_stride + head * out_head_stride
        tl.store(out + at[:, None] + dim[None, :], mixed.to(out.dtype.element_ty), mask=mask)
    else:
        at = (seq.to(tl.int64) * heads + head) * parts + part
        tl.store(scratch + at[:, None] * DIM + dim[None, :], mixed, mask=mask)
        tl.store(log_weights + at, peak + tl.log2(total), mask=inside)


@triton.jit(
    do_not_specialize=["window", "table_stride", "parts", "least"],
    do_not_specialize_on_alignment=["context_lens", "block_tables"],
)
def decode_kernel(
    out,
    scratch,
    log_weights,
    query,
    k_cache,
    v_cache,
    context_lens,
    block_tables,
    scale,
    v_scale,
    window,
    parts,
    least,
    table_stride,
    out_token_stride,
    out_head_stride,
    query_token_stride,
    query_head_stride,
    block_stride,
    slot_stride,
    head_stride,
    ROWS: tl.constexpr,
    GROUP: tl.constexpr,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    BLOCK_N: tl.constexpr,
    PRECISION: tl.constexpr,
    PDL: tl.constexpr,
):
    """Fold one part of one context; grid (kv_heads, seqs, parts).

    A group of fewer than ROWS heads leaves rows of the matrix products empty, which costs nothing:
    loads of keys and values set the pace even where each KV head has a single query head.
    """
    pdl.begin(PDL)
    kv_head, seq, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    context = tl.load(context_lens + seq)
    first = tl.maximum(context - window, 0)
    length = _part_length(context - first, parts, least, BLOCK_N)
    start = first + part * length
    if (start >= context) & (part > 0):
        return
    row = tl.arange(0, ROWS)
    dim = tl.arange(0, WIDTH)
    head = kv_head * GROUP + row
    inside = row < GROUP
    at = seq.to(tl.int64) * query_token_stride + head * query_head_stride
    mask = inside[:, None] & (dim < DIM)[None, :]
    q = load_queries(query + at[:, None] + dim[None, :], mask, k_cache)

    keys = k_cache + kv_head.to(tl.int64) * head_stride
    values = v_cache + kv_head.to(tl.int64) * head_stride
    table = block_tables + seq.to(tl.int64) * table_stride
    end = tl.minimum(start + length, context)
    position = tl.zeros([ROWS], tl.int32) + end - 1
    mixed = tl.zeros([ROWS, WIDTH], tl.float32)
    peak = tl.full([ROWS], LOWEST, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    block = blocks_of(table, start + tl.arange(0, BLOCK_N), end, BLOCK_SIZE)
    for tile in range(start, end, BLOCK_N):
        mixed, peak, total, block = fold_tile(
            q, mixed, peak, total, keys, values, table, block, tile, end, position, scale, window,
            block_stride, slot_stride,
            DIM, WIDTH, BLOCK_SIZE, BLOCK_N, True, False, PRECISION,
        )  # fmt: skip
    _store_part(
        out, scratch, log_weights, mixed, peak, total, v_scale, seq, head,
        tl.num_programs(0) * GROUP, part, parts, context - first <= length, inside,
        out_token_stride, out_head_stride,
        DIM, WIDTH,
    )  # fmt: skip


@triton.jit(
    do_not_specialize=["items", "window", "parts", "least"],
    do_not_specialize_on_alignment=["context_lens"],
)
def merge_kernel(
    out,
    scratch,
    log_weights,
    context_lens,
    items,
    heads,
    window,
    parts,
    least,
    out_token_stride,
    out_head_stride,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_N: tl.constexpr,
    ITEMS: tl.constexpr,
    PDL: tl.constexpr,
):
    """Merge the parts of ITEMS contexts' heads, where there are several.

    An item is a head of a sequence; grid (ceil(items / ITEMS),). Most batches have nothing to
    merge, so a program looks at all its contexts at once before it looks at any of them.
    """
    pdl.begin(PDL)
    first = tl.program_id(0) * ITEMS
    every = first + tl.arange(0, ITEMS)
    context = tl.load(context_lens + every // heads, mask=every < items, other=0)
    keys = tl.minimum(tl.max(context, 0), window)
    if keys <= _part_length(keys, parts, least, BLOCK_N):
        return
    for offset in range(ITEMS):
        item = first + offset
        if item < items:
            _merge_item(
                out, scratch, log_weights, context_lens, item // heads, item % heads, item,
                window, parts, least, out_token_stride, out_head_stride, DIM, WIDTH, BLOCK_N,
            )  # fmt: skip


@triton.jit
def _merge_item(
    out,
    scratch,
    log_weights,
    context_lens,
    seq,
    head,
    item,
    window,
    parts,
    least,
    out_token_stride,
    out_head_stride,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Merge the parts of one context's head."""
    keys = tl.minimum(tl.load(context_lens + seq), window)
    length = _part_length(keys, parts, least, BLOCK_N)
    if keys > length:
        used = tl.cdiv(keys, length)
        dim = tl.arange(0, WIDTH)
        at = item.to(tl.int64) * parts
        mixed = tl.zeros([WIDTH], tl.float32)
        peak = LOWEST
        total = 0.0
        for first in range(0, used, MERGED):
            part = first + tl.arange(0, MERGED)
            logs = tl.load(log_weights + at + part, mask=part < used, other=float("-inf"))
            mask = (part < used)[:, None] & (dim < DIM)[None, :]
            piece = tl.load(
                scratch + (at + part)[:, None] * DIM + dim[None, :], mask=mask, other=0.0
            )
            new_peak = tl.maximum(peak, tl.max(logs, 0))
            weight = tl.exp2(logs - new_peak)
            shrink = tl.exp2(peak - new_peak)
            total = total * shrink + tl.sum(weight, 0)
            mixed = mixed * shrink + tl.sum(piece * weight[:, None], 0)
            peak = new_peak
        place = out + seq.to(tl.int64) * out_token_stride + head * out_head_stride + dim
        tl.store(place, (mixed / total).to(out.dtype.element_ty), mask=dim < DIM)
