# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""Attention of long prompts on Hopper, in Gluon: matrix products, softmax and loads all overlap.

One warp keeps the tensor memory accelerator fetching blocks of keys and values; two groups of four
warps attend 64 rows each. A group runs the scores of a tile while the values of the one before are
still being multiplied, and its softmax under that; the groups take turns at the tensor cores, so
that one's softmax falls into the other's products (the schedule of FlashAttention-3, Shah et al.,
2024, https://arxiv.org/abs/2407.08608). Places are dealt out as in `mixed`; tiles run from the
newest keys to the oldest. Heads lie in shared memory as panels of 64 columns, the widest that the
accelerator swizzles, so that a block of keys is a dense piece of a panel.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

ROWS = gl.constexpr(128)  # of both groups of warps
GROUP_ROWS = gl.constexpr(64)
PANEL = gl.constexpr(64)
SEARCH = gl.constexpr(256)  # sequences looked at together
LOWEST = gl.constexpr(-1.0e30)
MINUS_INFINITY = gl.constexpr(float("-inf"))


@gluon.jit
def _owner(place, query_start, seqs, BLOCK_Q: gl.constexpr):
    """Return the sequence that owns a place; `seqs` itself stands for the padding."""
    lanes: gl.constexpr = gl.BlockedLayout([2], [32], [4], [0])
    owner = -1
    for first in range(0, seqs + 1, SEARCH):
        seq = first + gl.arange(0, SEARCH, layout=lanes)
        start = gl.load(query_start + seq, mask=seq <= seqs, other=1 << 30)
        owner += gl.sum((start // BLOCK_Q + seq <= place).to(gl.int32), 0)
    return owner


@gluon.jit
def _load_blocks(
    desc,
    buffers,  # [stages * panels * blocks, BLOCK_SIZE, PANEL]
    ready,
    stage,
    blocks,
    kv_head,
    DIM: gl.constexpr,
    BLOCK_SIZE: gl.constexpr,
    BLOCK_N: gl.constexpr,
):
    """Start the loads of one tile, that of each block and panel by itself."""
    PANELS: gl.constexpr = DIM // PANEL
    BLOCKS: gl.constexpr = BLOCK_N // BLOCK_SIZE
    mbarrier.expect(ready.index(stage), BLOCK_N * DIM * 2)
    for block in gl.static_range(BLOCKS):
        for panel in gl.static_range(PANELS):
            tma.async_copy_global_to_shared(
                desc,
                [blocks[block] * BLOCK_SIZE, kv_head * DIM + panel * PANEL],
                ready.index(stage),
                buffers.index((stage * PANELS + panel) * BLOCKS + block),
            )


@gluon.jit
def _load_tiles(
    k_desc,
    v_desc,
    buffers,
    barriers,
    table,
    kv_head,
    context,
    tiles,
    DIM: gl.constexpr,
    BLOCK_SIZE: gl.constexpr,
    BLOCK_N: gl.constexpr,
    STAGES: gl.constexpr,
):
    """Keep the stages full of keys and values: the loading warp."""
    k_buffers, v_buffers = buffers
    k_ready, k_free, v_ready, v_free, _ = barriers
    BLOCKS: gl.constexpr = BLOCK_N // BLOCK_SIZE
    last = (context - 1) // BLOCK_SIZE
    for count in range(tiles):
        stage = count % STAGES
        phase = (count // STAGES & 1) ^ 1
        first = (tiles - 1 - count) * BLOCKS
        blocks = ()
        for block in gl.static_range(BLOCKS):
            # Blocks past the context load the last one again; their scores are masked.
            blocks = blocks + (gl.load(table + gl.minimum(first + block, last)),)  # type: ignore[assignment]  # noqa: RUF005
        mbarrier.wait(k_free.index(stage), phase)
        _load_blocks(k_desc, k_buffers, k_ready, stage, blocks, kv_head, DIM, BLOCK_SIZE, BLOCK_N)
        mbarrier.wait(v_free.index(stage), phase)
        _load_blocks(v_desc, v_buffers, v_ready, stage, blocks, kv_head, DIM, BLOCK_SIZE, BLOCK_N)


@gluon.jit
def _start_scores(query, keys, stage, scores, PANELS: gl.constexpr, FIRST: gl.constexpr):
    """Start the product of 64 rows of queries, from panel FIRST on, with a tile of keys."""
    for panel in gl.static_range(PANELS):
        k = keys.index(stage * PANELS + panel).permute((1, 0))
        scores = warpgroup_mma(
            query.index(FIRST + panel), k, scores, use_acc=panel > 0, is_async=True
        )
    return scores


@gluon.jit
def _soften(scores, peak, total, position, start, scale, MASKED: gl.constexpr):
    """Turn a tile's scores into weights; return them, the new state, and how the old one shrank."""
    if MASKED:
        key = start + gl.arange(0, scores.shape[1], layout=gl.SliceLayout(0, scores.type.layout))
        scores = gl.where(key[None, :] <= position[:, None], scores, MINUS_INFINITY)
    new_peak = gl.maximum(peak, gl.max(scores, 1) * scale)
    weights = gl.exp2(scores * scale - new_peak[:, None])
    shrink = gl.exp2(peak - new_peak)
    return weights, new_peak, total * shrink + gl.sum(weights, 1), shrink


@gluon.jit
def _clear_values(values, stage, start, context, PANELS: gl.constexpr):
    """Zero a tile's values from the context's end on: 0 times what isn't a number isn't 0.

    Both groups of warps do, writing the same.
    """
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    for panel in gl.static_range(PANELS):
        tile = values.index(stage * PANELS + panel)
        value = tile.load(layout)
        key = start + gl.arange(0, value.shape[0], layout=gl.SliceLayout(1, layout))
        tile.store(gl.where((key < context)[:, None], value, 0.0))
    fence_async_shared()


@gluon.jit
def _fold_tiles(
    state,
    query,
    keys,
    values,
    barriers,
    position,
    scale,
    tiles,
    begin,
    end,
    BLOCK_N: gl.constexpr,
    STAGES: gl.constexpr,
    HALF: gl.constexpr,
    MASKED: gl.constexpr,
    TURNS: gl.constexpr,
):
    """Fold the tiles counted [begin, end), each while the one before still mixes its values."""
    k_ready, k_free, v_ready, v_free, turns = barriers
    left, right, scores, weights, peak, total = state
    out_layout: gl.constexpr = left.type.layout
    for count in range(begin, end):
        stage = count % STAGES
        mbarrier.wait(k_ready.index(stage), count // STAGES & 1)
        if TURNS:
            mbarrier.wait(turns.index(HALF), (count - 1) & 1)
        scores = _start_scores(query, keys, stage, scores, 2, 2 * HALF)
        before = (count - 1) % STAGES
        mbarrier.wait(v_ready.index(before), (count - 1) // STAGES & 1)
        left = warpgroup_mma(weights, values.index(before * 2), left, is_async=True)
        right = warpgroup_mma(weights, values.index(before * 2 + 1), right, is_async=True)
        if TURNS:
            mbarrier.arrive(turns.index(1 - HALF), count=1)
        scores = warpgroup_mma_wait(2, deps=(scores,))
        mbarrier.arrive(k_free.index(stage), count=1)
        start = (tiles - 1 - count) * BLOCK_N
        new, peak, total, shrink = _soften(scores, peak, total, position, start, scale, MASKED)
        left, right, weights = warpgroup_mma_wait(0, deps=(left, right, weights))
        mbarrier.arrive(v_free.index(before), count=1)
        shrink = gl.convert_layout(shrink, gl.SliceLayout(1, out_layout))
        left = left * shrink[:, None]
        right = right * shrink[:, None]
        weights = gl.convert_layout(new.to(weights.dtype), weights.type.layout)
    return left, right, scores, weights, peak, total


@gluon.jit
def _rows(first, BEGIN: gl.constexpr, GROUP: gl.constexpr, layout: gl.constexpr):
    """Return token and head in its group of each of 64 rows, and whether the row is in use."""
    row = BEGIN + gl.arange(0, GROUP_ROWS, layout=layout)
    return first + row // GROUP, row % GROUP, row < ROWS // GROUP * GROUP


@gluon.jit
def _attend_rows(
    out,
    query,
    staged,  # [4, GROUP_ROWS, PANEL]
    buffers,
    barriers,
    begin,
    first,
    new,
    context,
    kv_head,
    scale,
    tiles,
    strides,
    HALF: gl.constexpr,
    GROUP: gl.constexpr,
    DIM: gl.constexpr,
    BLOCK_N: gl.constexpr,
    STAGES: gl.constexpr,
    TURNS: gl.constexpr,
):
    """Attend half of the place's rows: a group of four warps."""
    PANELS: gl.constexpr = DIM // PANEL
    SKIP: gl.constexpr = HALF * GROUP_ROWS
    FIRST: gl.constexpr = HALF * PANELS
    out_token_stride, out_head_stride, query_token_stride, query_head_stride = strides
    score_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    out_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, PANEL, 16])
    weight_layout: gl.constexpr = gl.DotOperandLayout(0, out_layout, 2)
    wide: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])  # 16 bytes a thread
    keys = buffers[0]._reinterpret(
        query.dtype.element_ty, [STAGES * PANELS, BLOCK_N, PANEL], staged.type.layout
    )
    values = buffers[1]._reinterpret(
        query.dtype.element_ty, [STAGES * PANELS, BLOCK_N, PANEL], staged.type.layout
    )

    token, head, used = _rows(first, SKIP, GROUP, gl.SliceLayout(1, wide))
    used = used & (token < new)
    flat = (begin + token).to(gl.int64)
    head = kv_head * GROUP + head
    column = gl.arange(0, PANEL, layout=gl.SliceLayout(0, wide))
    at = query + (flat * query_token_stride + head * query_head_stride)[:, None] + column[None, :]
    for panel in gl.static_range(PANELS):
        piece = gl.load(at + panel * PANEL, mask=used[:, None], other=0.0)
        staged.index(FIRST + panel).store(piece)
    fence_async_shared()

    k_ready, k_free, v_ready, _, turns = barriers
    if TURNS and HALF == 1:
        mbarrier.arrive(turns.index(0), count=1)  # the other group begins
    before = context - new
    row_token, _, _ = _rows(first, SKIP, GROUP, gl.SliceLayout(1, score_layout))
    position = before + row_token
    scores = gl.zeros([GROUP_ROWS, BLOCK_N], gl.float32, score_layout)
    peak = gl.full([GROUP_ROWS], LOWEST, gl.float32, gl.SliceLayout(1, score_layout))
    total = gl.zeros([GROUP_ROWS], gl.float32, gl.SliceLayout(1, score_layout))
    left = gl.zeros([GROUP_ROWS, PANEL], gl.float32, out_layout)
    right = gl.zeros([GROUP_ROWS, PANEL], gl.float32, out_layout)

    mbarrier.wait(k_ready.index(0), 0)
    scores = _start_scores(staged, keys, 0, scores, PANELS, FIRST)
    scores = warpgroup_mma_wait(0, deps=(scores,))
    mbarrier.arrive(k_free.index(0), count=1)
    start = (tiles - 1) * BLOCK_N
    new_weights, peak, total, _ = _soften(scores, peak, total, position, start, scale, True)
    weights = gl.convert_layout(new_weights.to(query.dtype.element_ty), weight_layout)
    if start + BLOCK_N > context:
        mbarrier.wait(v_ready.index(0), 0)
        _clear_values(values, 0, start, context, PANELS)

    state = (left, right, scores, weights, peak, total)
    seen_by_all = (before + first + SKIP // GROUP + 1) // BLOCK_N
    turn = gl.maximum(tiles - seen_by_all, 1)
    state = _fold_tiles(
        state, staged, keys, values, barriers, position, scale, tiles, 1, gl.minimum(turn, tiles),
        BLOCK_N, STAGES, HALF, True, TURNS,
    )  # fmt: skip
    state = _fold_tiles(
        state, staged, keys, values, barriers, position, scale, tiles, turn, tiles,
        BLOCK_N, STAGES, HALF, False, TURNS,
    )  # fmt: skip
    left, right, scores, weights, peak, total = state
    stage = (tiles - 1) % STAGES
    mbarrier.wait(v_ready.index(stage), (tiles - 1) // STAGES & 1)
    left = warpgroup_mma(weights, values.index(stage * 2), left, is_async=True)
    right = warpgroup_mma(weights, values.index(stage * 2 + 1), right, is_async=True)
    left, right, weights = warpgroup_mma_wait(0, deps=(left, right, weights))

    total = gl.convert_layout(total, gl.SliceLayout(1, out_layout))
    at = out + (flat * out_token_stride + head * out_head_stride)[:, None] + column[None, :]
    left = gl.convert_layout((left / total[:, None]).to(out.dtype.element_ty), wide)
    gl.store(at, left, mask=used[:, None])
    right = gl.convert_layout((right / total[:, None]).to(out.dtype.element_ty), wide)
    gl.store(at + PANEL, right, mask=used[:, None])


@gluon.jit
def _zero_rows(
    out,
    first,
    tokens,
    kv_head,
    out_token_stride,
    out_head_stride,
    HALF: gl.constexpr,
    GROUP: gl.constexpr,
    DIM: gl.constexpr,
):
    """Zero half of the rows of a place in the padding."""
    wide: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    token, head, used = _rows(first, HALF * GROUP_ROWS, GROUP, gl.SliceLayout(1, wide))
    dim = gl.arange(0, DIM, layout=gl.SliceLayout(0, wide))
    row = token.to(gl.int64) * out_token_stride + (kv_head * GROUP + head) * out_head_stride
    zeros = gl.zeros([GROUP_ROWS, DIM], out.dtype.element_ty, wide)
    gl.store(out + row[:, None] + dim[None, :], zeros, mask=(used & (token < tokens))[:, None])


@gluon.jit(
    do_not_specialize=["seqs", "tokens", "table_stride"],
    do_not_specialize_on_alignment=["query_start", "context_lens", "block_tables"],
)
def prefill_kernel(
    out,
    query,
    k_desc,
    v_desc,
    query_start,
    context_lens,
    block_tables,
    seqs,
    tokens,
    scale,
    table_stride,
    out_token_stride,
    out_head_stride,
    query_token_stride,
    query_head_stride,
    GROUP: gl.constexpr,
    DIM: gl.constexpr,
    BLOCK_SIZE: gl.constexpr,
    BLOCK_N: gl.constexpr,
    STAGES: gl.constexpr,
    TURNS: gl.constexpr,
):
    """Attend the new tokens of one place; grid (tokens // BLOCK_Q + seqs + 1, kv_heads)."""
    BLOCK_Q: gl.constexpr = ROWS // GROUP
    PANELS: gl.constexpr = DIM // PANEL
    place = gl.num_programs(0) - 1 - gl.program_id(0)
    kv_head = gl.program_id(1)
    seq = _owner(place, query_start, seqs, BLOCK_Q)
    begin = gl.load(query_start + seq)
    first = (place - begin // BLOCK_Q - seq) * BLOCK_Q
    if seq == seqs:
        _zero_rows(
            out, begin + first, tokens, kv_head, out_token_stride, out_head_stride, 0, GROUP, DIM
        )
        _zero_rows(
            out, begin + first, tokens, kv_head, out_token_stride, out_head_stride, 1, GROUP, DIM
        )
        return
    new = gl.load(query_start + seq + 1) - begin
    if first >= new:
        return
    context = gl.load(context_lens + seq)
    table = block_tables + seq.to(gl.int64) * table_stride
    tiles = gl.cdiv(gl.minimum(context - new + first + BLOCK_Q, context), BLOCK_N)

    BUFFERS: gl.constexpr = STAGES * PANELS * BLOCK_N // BLOCK_SIZE
    k_buffers = gl.allocate_shared_memory(k_desc.dtype, [BUFFERS, BLOCK_SIZE, PANEL], k_desc.layout)
    v_buffers = gl.allocate_shared_memory(v_desc.dtype, [BUFFERS, BLOCK_SIZE, PANEL], v_desc.layout)
    staged = gl.allocate_shared_memory(
        query.dtype.element_ty, [2 * PANELS, GROUP_ROWS, PANEL], k_desc.layout
    )
    k_ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    k_free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    turns = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for half in gl.static_range(2):
        mbarrier.init(turns.index(half), count=1)
    for stage in gl.static_range(STAGES):
        mbarrier.init(k_ready.index(stage), count=1)
        mbarrier.init(v_ready.index(stage), count=1)
        mbarrier.init(k_free.index(stage), count=2)
        mbarrier.init(v_free.index(stage), count=2)
    buffers = (k_buffers, v_buffers)
    barriers = (k_ready, k_free, v_ready, v_free, turns)
    strides = (out_token_stride, out_head_stride, query_token_stride, query_head_stride)
    gl.warp_specialize(
        [
            (_attend_rows, (
                out, query, staged, buffers, barriers, begin, first, new, context, kv_head, scale,
                tiles, strides, 0, GROUP, DIM, BLOCK_N, STAGES, TURNS,
            )),
            (_attend_rows, (
                out, query, staged, buffers, barriers, begin, first, new, context, kv_head, scale,
                tiles, strides, 1, GROUP, DIM, BLOCK_N, STAGES, TURNS,
            )),
            (_load_tiles, (
                k_desc, v_desc, buffers, barriers, table, kv_head, context, tiles,
                DIM, BLOCK_SIZE, BLOCK_N, STAGES,
            )),
        ],
        [4, 1],
        [240, 24],
    )  # fmt: skip
