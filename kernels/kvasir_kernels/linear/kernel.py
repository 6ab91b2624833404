# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""Linear layers of few rows, where reading the weights sets the pace.

The weight is a list of tiles, block after block of its rows, and every program takes an equal share
of the list (Osama et al., Stream-K, PPoPP 2023, https://arxiv.org/abs/2301.03598): whatever the
shape, all processors read until the end. A block that several programs share is added up by the
last of them to finish, always in the same order. Weights depend on no other kernel: a program asks
for its first tiles before it waits for its input (see `pdl`).
"""

from __future__ import annotations

from functools import cache

import torch
import triton
import triton.language as tl

from kvasir_kernels import pdl
from kvasir_kernels.dispatch import processors
from kvasir_kernels.linear import tuning
from kvasir_kernels.linear.tuning import Tile

COUNTERS = 4096  # blocks of a weight's rows, at most
PANEL_BYTES = tl.constexpr(512)  # of a weight's row, asked for at once


@triton.jit
def _ask_for(weight, row, inside, first, inner, PANELS: tl.constexpr):
    """Ask the second-level cache for PANELS times 512 bytes of each row, from element `first` on."""
    elements: tl.constexpr = PANEL_BYTES // (weight.dtype.element_ty.primitive_bitwidth // 8)
    panel = first + tl.arange(0, PANELS) * elements
    wanted = inside[:, None] & (panel + elements <= inner)[None, :]
    at = tl.where(wanted, row[:, None] + panel[None, :], 0)  # elsewhere the weight's beginning
    tl.inline_asm_elementwise(
        "cp.async.bulk.prefetch.L2.global [$1], 512; mov.u32 $0, 0;",
        "=r,l", [(weight + at).to(tl.uint64)], dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@triton.jit
def _multiply(
    x, weight, total, row, inside, k, inner,
    EVEN: tl.constexpr, SWAP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Add x [ROWS, BLOCK_K] times a tile of the weight to the total."""
    at = weight + row[:, None] + k[None, :]
    mask = inside[:, None] if EVEN else inside[:, None] & (k < inner)[None, :]
    w = tl.load(at, mask=mask, other=0.0)
    if SWAP:
        total = tl.dot(w, tl.trans(x), total, input_precision=PRECISION)
    else:
        total = tl.dot(x, tl.trans(w), total, input_precision=PRECISION)
    return total


@triton.jit
def _owner(tile, tiles, programs):
    """Return the program whose share of `tiles` tiles holds this one."""
    return tl.cdiv((tile + 1) * programs, tiles) - 1


@triton.jit
def _add_up(partial, at, mask, block, depth, tiles, first, last, size):
    """Add up what programs first to last computed of a block, in their order.

    A program keeps the block it begins in at its first place, the one it ends in at its second.
    """
    programs = tl.num_programs(0)
    total = tl.zeros(at.shape, tl.float32)
    for program in range(first, last + 1):
        began_earlier = program * tiles // programs // depth != block
        place = partial + (2 * program + began_earlier).to(tl.int64) * size
        # Past the first-level cache, where another launch's may lie.
        total += tl.load(place + at, mask=mask, other=0.0, cache_modifier=".cg")
    return total


@triton.jit(do_not_specialize=["rows"], do_not_specialize_on_alignment=["counters"])
def linear_kernel(
    out,
    x,
    weight,
    bias,
    partial,  # float32 [programs, 2, 1 + GATED, ROWS, BLOCK_N]
    counters,
    rows,
    columns,
    inner,
    out_stride,
    x_stride,
    weight_stride,
    ROWS: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    EVEN: tl.constexpr,
    BIAS: tl.constexpr,
    GATED: tl.constexpr,
    SWAP: tl.constexpr,
    PANELS: tl.constexpr,
    PRECISION: tl.constexpr,
    PDL: tl.constexpr,
):
    """Compute out, [rows, columns], from tiles of BLOCK_N columns; grid (programs,).

    GATED: from tiles of the gate and, `columns` rows further down, of the other factor.
    SWAP: the weight is the matrix product's left side, which suits the tensor cores' shapes.
    EVEN: the inner dimension is whole tiles.
    """
    program, programs = tl.program_id(0), tl.num_programs(0)
    depth = tl.cdiv(inner, BLOCK_K)
    tiles = tl.cdiv(columns, BLOCK_N) * depth
    begin, end = program * tiles // programs, (program + 1) * tiles // programs
    lane = tl.arange(0, BLOCK_N)
    beyond = columns.to(tl.int64) * weight_stride
    if PDL:
        pdl.let_next_start()
        column = begin // depth * BLOCK_N + lane
        row = column.to(tl.int64) * weight_stride
        first_k = begin % depth * BLOCK_K
        _ask_for(weight, row, column < columns, first_k, inner, PANELS)
        if GATED:
            _ask_for(weight + beyond, row, column < columns, first_k, inner, PANELS)
        pdl.wait_for_last()

    token = tl.arange(0, ROWS)
    known = token < rows
    source = x + token.to(tl.int64)[:, None] * x_stride
    if SWAP:
        zero = tl.zeros([BLOCK_N, ROWS], tl.float32)
        place = lane[:, None] + token[None, :] * BLOCK_N
        known_there = known[None, :]
    else:
        zero = tl.zeros([ROWS, BLOCK_N], tl.float32)
        place = lane[None, :] + token[:, None] * BLOCK_N
        known_there = known[:, None]
    total, other = zero, zero
    size: tl.constexpr = (1 + GATED) * ROWS * BLOCK_N
    for tile in range(begin, end):
        block = tile // depth
        k = tile % depth * BLOCK_K + tl.arange(0, BLOCK_K)
        column = block * BLOCK_N + lane
        row = column.to(tl.int64) * weight_stride
        inside = column < columns
        mask = known[:, None] if EVEN else known[:, None] & (k < inner)[None, :]
        part = tl.load(source + k[None, :], mask=mask, other=0.0)
        total = _multiply(part, weight, total, row, inside, k, inner, EVEN, SWAP, PRECISION)
        if GATED:
            other = _multiply(
                part, weight + beyond, other, row, inside, k, inner, EVEN, SWAP, PRECISION
            )
        if (tile % depth == depth - 1) | (tile == end - 1):
            if (block * depth >= begin) & (tile % depth == depth - 1):
                _store(
                    out, bias, total, other, token, known, column, inside, out_stride,
                    BIAS, GATED, SWAP,
                )  # fmt: skip
            else:
                kept = partial + (2 * program + (begin // depth != block)).to(tl.int64) * size
                tl.store(kept + place, total, mask=known_there)
                if GATED:
                    tl.store(kept + ROWS * BLOCK_N + place, other, mask=known_there)
            total, other = zero, zero

    tl.debug_barrier()  # all threads have stored before one of them says so
    for side in tl.static_range(2):  # the block it began in, and the one it ended in
        block = (begin if side == 0 else end - 1) // depth
        first = _owner(block * depth, tiles, programs)
        last = _owner(block * depth + depth - 1, tiles, programs)
        if (first != last) & ((side == 0) | (begin // depth != block)):
            if tl.atomic_add(counters + block, 1, sem="acq_rel") == last - first:
                tl.store(counters + block, 0)
                total = _add_up(partial, place, known_there, block, depth, tiles, first, last, size)
                if GATED:
                    other = _add_up(
                        partial + ROWS * BLOCK_N,
                        place, known_there, block, depth, tiles, first, last, size,
                    )  # fmt: skip
                column = block * BLOCK_N + lane
                _store(
                    out, bias, total, other, token, known, column, column < columns, out_stride,
                    BIAS, GATED, SWAP,
                )  # fmt: skip


@triton.jit
def _store(
    out, bias, total, other, token, known, column, inside, out_stride,
    BIAS: tl.constexpr, GATED: tl.constexpr, SWAP: tl.constexpr,
):  # fmt: skip
    """Write a block of columns, activated where it is gated."""
    if SWAP:
        total, other = tl.trans(total), tl.trans(other)
    if BIAS:
        total += tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)[None, :]
    dtype: tl.constexpr = out.dtype.element_ty
    result = total.to(dtype)
    if GATED:
        gate = result.to(tl.float32)  # rounded, as the reference's is
        result = (gate * tl.sigmoid(gate)).to(dtype) * other.to(dtype)
    at = out + token.to(tl.int64)[:, None] * out_stride + column[None, :]
    tl.store(at, result, mask=known[:, None] & inside[None, :])


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Multiply as the reference does."""
    out = x.new_empty((x.shape[0], weight.shape[0]))
    launch(out, x, weight, bias, tuning.tile(x.shape[0], gated=False))
    return out


def gated_linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Multiply and activate as the reference does."""
    out = x.new_empty((x.shape[0], weight.shape[0] // 2))
    launch(out, x, weight, None, tuning.tile(x.shape[0], gated=True), gated=True)
    return out


def launch(
    out: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    tile: Tile,
    *,
    gated: bool = False,
) -> None:
    """Launch the kernel with one tile: also what tuning tries."""
    (rows, columns), inner = out.shape, weight.shape[1]
    if rows == 0:
        return
    blocks = triton.cdiv(columns, tile.columns)
    if blocks > COUNTERS:
        raise ValueError(f"{columns} columns are {blocks} blocks, more than {COUNTERS}")
    programs = min(processors(x.device) * tile.programs, blocks * triton.cdiv(inner, tile.inner))
    padded = max(16, triton.next_power_of_2(rows))
    size = (programs, 2, 1 + gated, padded, tile.columns)
    partial = out.new_empty(size, dtype=torch.float32)
    linear_kernel[programs,](
        *(out, x, weight, out if bias is None else bias, partial, _counters(x.device)),
        *(rows, columns, inner, out.stride(0), x.stride(0), weight.stride(0)),
        ROWS=padded,
        BLOCK_N=tile.columns,
        BLOCK_K=tile.inner,
        EVEN=inner % tile.inner == 0,
        BIAS=bias is not None,
        GATED=gated,
        SWAP=tile.swap,
        PANELS=tile.panels,
        PRECISION="ieee" if x.dtype == torch.float32 else "tf32",
        num_warps=tile.warps,
        num_stages=tile.stages,
        **pdl.options(x),
    )


@cache
def _counters(device: torch.device) -> torch.Tensor:
    """Return one counter a block, all zero between launches, which follow one another."""
    return torch.zeros(COUNTERS, dtype=torch.int32, device=device)
