# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""Attention of prefill chunks and decodes in one launch whose grid depends on padded sizes alone.

A program takes BLOCK_Q new tokens of one sequence and all query heads of one KV head: the heads of
a group lie beside each other as rows of one matrix product, so that a key is loaded once for all.
Sequence i owns the places from query_start[i] // BLOCK_Q + i on, which leaves every sequence
enough of them however ragged the batch is; places nobody owns write zeros to the padding.
"""

from __future__ import annotations

import triton
import triton.language as tl

from kvasir_kernels import pdl
from kvasir_kernels.paged_attention.tile import LOWEST, blocks_of, fold_tile, load_queries, share

SEARCH = tl.constexpr(256)  # sequences looked at together
SMALL_ROWS = tl.constexpr(16)  # the least a matrix product takes: enough for one token's heads


@triton.jit
def _owner(place, query_start, seqs, BLOCK_Q: tl.constexpr):
    """Return the sequence that owns a place; `seqs` itself stands for the padding."""
    owner = -1
    for first in range(0, seqs + 1, SEARCH):
        seq = first + tl.arange(0, SEARCH)
        start = tl.load(query_start + seq, mask=seq <= seqs, other=1 << 30)
        owner += tl.sum((start // BLOCK_Q + seq <= place).to(tl.int32))
    return owner


@triton.jit
def _attend_rows(
    out,
    query,
    keys,
    values,
    table,
    begin,
    first,
    new,
    context,
    kv_head,
    scale,
    v_scale,
    window,
    out_token_stride,
    out_head_stride,
    query_token_stride,
    query_head_stride,
    block_stride,
    slot_stride,
    ROWS: tl.constexpr,
    GROUP: tl.constexpr,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    BLOCK_N: tl.constexpr,
    WINDOWED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Attend up to ROWS // GROUP tokens of a sequence, from its new token `first` on."""
    row = tl.arange(0, ROWS)
    dim = tl.arange(0, WIDTH)
    tokens: tl.constexpr = ROWS // GROUP
    token = first + row // GROUP
    head = kv_head * GROUP + row % GROUP
    inside = ((row < tokens * GROUP) & (token < new))[:, None] & (dim < DIM)[None, :]
    flat = (begin + token).to(tl.int64)
    at = flat * query_token_stride + head * query_head_stride
    q = load_queries(query + at[:, None] + dim[None, :], inside, keys)

    before = context - new
    position = before + token
    end = tl.minimum(before + first + tokens, context)
    start = 0
    if WINDOWED:
        start = tl.maximum(before + first - window + 1, 0) // BLOCK_N * BLOCK_N
    seen_by_all = tl.maximum((before + first + 1) // BLOCK_N * BLOCK_N, start)

    mixed = tl.zeros([ROWS, WIDTH], tl.float32)
    peak = tl.full([ROWS], LOWEST, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    block = blocks_of(table, start + tl.arange(0, BLOCK_N), end, BLOCK_SIZE)
    for tile in range(start, seen_by_all, BLOCK_N):
        mixed, peak, total, block = fold_tile(
            q, mixed, peak, total, keys, values, table, block, tile, end, position, scale, window,
            block_stride, slot_stride,
            DIM, WIDTH, BLOCK_SIZE, BLOCK_N, False, WINDOWED, PRECISION,
        )  # fmt: skip
    for tile in range(seen_by_all, end, BLOCK_N):
        mixed, peak, total, block = fold_tile(
            q, mixed, peak, total, keys, values, table, block, tile, end, position, scale, window,
            block_stride, slot_stride,
            DIM, WIDTH, BLOCK_SIZE, BLOCK_N, True, WINDOWED, PRECISION,
        )  # fmt: skip

    mixed = share(mixed, total, v_scale)
    at = flat * out_token_stride + head * out_head_stride
    tl.store(out + at[:, None] + dim[None, :], mixed.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _zero_rows(
    out,
    first,
    tokens,
    kv_head,
    out_token_stride,
    out_head_stride,
    BLOCK_Q: tl.constexpr,
    ROWS: tl.constexpr,
    GROUP: tl.constexpr,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Zero the group's heads of the padding tokens [first, first + BLOCK_Q)."""
    row = tl.arange(0, ROWS)
    dim = tl.arange(0, WIDTH)
    token = first + row // GROUP
    at = token.to(tl.int64) * out_token_stride + (kv_head * GROUP + row % GROUP) * out_head_stride
    inside = ((row < BLOCK_Q * GROUP) & (token < tokens))[:, None] & (dim < DIM)[None, :]
    zeros = tl.zeros([ROWS, WIDTH], out.dtype.element_ty)
    tl.store(out + at[:, None] + dim[None, :], zeros, mask=inside)


@triton.jit(
    do_not_specialize=["seqs", "tokens", "window", "table_stride"],
    do_not_specialize_on_alignment=["query_start", "context_lens", "block_tables"],
)
def mixed_kernel(
    out,
    query,
    k_cache,
    v_cache,
    query_start,
    context_lens,
    block_tables,
    seqs,
    tokens,
    scale,
    v_scale,
    window,
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
    WINDOWED: tl.constexpr,
    PRECISION: tl.constexpr,
    PDL: tl.constexpr,
):
    """Attend the new tokens of one place; grid (tokens // BLOCK_Q + seqs + 1, kv_heads)."""
    pdl.begin(PDL)
    BLOCK_Q: tl.constexpr = ROWS // GROUP
    # The last places first: within a prompt they see the most keys, and shouldn't start last.
    place = tl.num_programs(0) - 1 - tl.program_id(0)
    kv_head = tl.program_id(1)
    seq = _owner(place, query_start, seqs, BLOCK_Q)
    begin = tl.load(query_start + seq)
    first = (place - begin // BLOCK_Q - seq) * BLOCK_Q
    if seq == seqs:
        _zero_rows(
            out, begin + first, tokens, kv_head, out_token_stride, out_head_stride,
            BLOCK_Q, ROWS, GROUP, DIM, WIDTH,
        )  # fmt: skip
        return
    new = tl.load(query_start + seq + 1) - begin
    if first >= new:
        return
    context = tl.load(context_lens + seq)
    table = block_tables + seq.to(tl.int64) * table_stride
    keys = k_cache + kv_head.to(tl.int64) * head_stride
    values = v_cache + kv_head.to(tl.int64) * head_stride
    if new * GROUP <= SMALL_ROWS:  # a decode: a large tile would be nearly empty
        _attend_rows(
            out, query, keys, values, table, begin, first, new, context, kv_head, scale, v_scale,
            window, out_token_stride, out_head_stride, query_token_stride, query_head_stride,
            block_stride, slot_stride,
            SMALL_ROWS, GROUP, DIM, WIDTH, BLOCK_SIZE, BLOCK_N, WINDOWED, PRECISION,
        )  # fmt: skip
    else:
        _attend_rows(
            out, query, keys, values, table, begin, first, new, context, kv_head, scale, v_scale,
            window, out_token_stride, out_head_stride, query_token_stride, query_head_stride,
            block_stride, slot_stride,
            ROWS, GROUP, DIM, WIDTH, BLOCK_SIZE, BLOCK_N, WINDOWED, PRECISION,
        )  # fmt: skip
