# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""Linear layers of few rows, where reading the weights sets the pace.

A program multiplies all rows by BLOCK_N rows of the weight, over one of SPLITS parts of the inner
dimension, so that few output columns still fill the card. The last program of a column to finish
adds the parts up, always in the same order. Weights depend on no other kernel: a program asks for
its first ones before it waits for its input (see `pdl`).
"""

from __future__ import annotations

from functools import cache

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from kvasir_kernels import pdl
from kvasir_kernels.linear import tuning
from kvasir_kernels.linear.tuning import Tile

COUNTERS = 4096
PANEL_BYTES = tl.constexpr(512)  # of a weight's row, asked for at once


@triton.jit
def _prefetch(weight, row, inside, first, end, PANELS: tl.constexpr):
    """Ask for PANELS times 512 bytes of each row of the weight, as far as [first, end) holds them."""
    elements: tl.constexpr = PANEL_BYTES // (weight.dtype.element_ty.primitive_bitwidth // 8)
    panel = first + tl.arange(0, PANELS) * elements
    wanted = inside[:, None] & (panel + elements <= end)[None, :]
    at = tl.where(wanted, row[:, None] + panel[None, :], 0)  # elsewhere the weight's beginning
    tl.inline_asm_elementwise(
        "cp.async.bulk.prefetch.L2.global [$1], 512; mov.u32 $0, 0;",
        "=r,l", [(weight + at).to(tl.uint64)], dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@triton.jit
def _load_weight(weight, row, inside, k, end, EVEN: tl.constexpr):
    """Load rows of the weight at the inner positions k, [BLOCK_N, BLOCK_K]."""
    at = weight + row[:, None] + k[None, :]
    if EVEN:
        return tl.load(at, mask=inside[:, None], other=0.0)
    return tl.load(at, mask=inside[:, None] & (k < end)[None, :], other=0.0)


@triton.jit
def _sum_parts(partial, mask, stride, SPLITS: tl.constexpr):
    """Add up the parts of the sum, in order; past the first-level cache, where old ones may lie."""
    total = tl.load(partial, mask=mask, other=0.0, cache_modifier=".cg")
    for split in tl.static_range(1, SPLITS):
        total += tl.load(partial + split * stride, mask=mask, other=0.0, cache_modifier=".cg")
    return total


@triton.jit(do_not_specialize=["rows"], do_not_specialize_on_alignment=["partial", "counters"])
def linear_kernel(
    out,
    x,
    weight,
    bias,
    partial,
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
    SPLITS: tl.constexpr,
    EVEN: tl.constexpr,
    BIAS: tl.constexpr,
    GATED: tl.constexpr,
    SWAP: tl.constexpr,
    PANELS: tl.constexpr,
    PRECISION: tl.constexpr,
    PDL: tl.constexpr,
):
    """Compute BLOCK_N columns of `out`, [rows, columns]; grid (ceil(columns / BLOCK_N), SPLITS).

    GATED: columns of the gate and, `columns` rows further down, of the other factor.
    SWAP: the weight is the matrix product's left side, which suits the tensor cores' shapes.
    """
    block, split = tl.program_id(0), tl.program_id(1)
    column = block * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = column < columns
    row = column.to(tl.int64) * weight_stride
    second = row + columns.to(tl.int64) * weight_stride
    tiles = tl.cdiv(inner, BLOCK_K)
    first = split * tiles // SPLITS * BLOCK_K
    end = tl.minimum((split + 1) * tiles // SPLITS * BLOCK_K, inner)
    if PDL:
        gdc_launch_dependents()
        if PANELS > 0:
            _prefetch(weight, row, inside, first, end, PANELS)
            if GATED:
                _prefetch(weight, second, inside, first, end, PANELS)
        gdc_wait()

    token = tl.arange(0, ROWS)
    known = token < rows
    source = x + token.to(tl.int64)[:, None] * x_stride
    if SWAP:
        total = tl.zeros([BLOCK_N, ROWS], tl.float32)
        other = tl.zeros([BLOCK_N, ROWS], tl.float32)
    else:
        total = tl.zeros([ROWS, BLOCK_N], tl.float32)
        other = tl.zeros([ROWS, BLOCK_N], tl.float32)
    for start in range(first, end, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        mask = known[:, None] if EVEN else known[:, None] & (k < end)[None, :]
        part = tl.load(source + k[None, :], mask=mask, other=0.0)
        w = _load_weight(weight, row, inside, k, end, EVEN)
        if SWAP:
            total = tl.dot(w, tl.trans(part), total, input_precision=PRECISION)
        else:
            total = tl.dot(part, tl.trans(w), total, input_precision=PRECISION)
        if GATED:
            u = _load_weight(weight, second, inside, k, end, EVEN)
            if SWAP:
                other = tl.dot(u, tl.trans(part), other, input_precision=PRECISION)
            else:
                other = tl.dot(part, tl.trans(u), other, input_precision=PRECISION)
    if SWAP:
        total, other = tl.trans(total), tl.trans(other)

    mask = known[:, None] & inside[None, :]
    if SPLITS > 1:
        place = token[:, None] * columns + column[None, :]
        stride = rows.to(tl.int64) * columns
        kept = partial + split * stride + place
        tl.store(kept, total, mask=mask)
        if GATED:
            tl.store(kept + SPLITS * stride, other, mask=mask)
        tl.debug_barrier()  # every thread's part is stored before one thread says so
        if tl.atomic_add(counters + block, 1, sem="acq_rel") != SPLITS - 1:
            return
        tl.store(counters + block, 0)
        total = _sum_parts(partial + place, mask, stride, SPLITS)
        if GATED:
            other = _sum_parts(partial + SPLITS * stride + place, mask, stride, SPLITS)
    if BIAS:
        total += tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)[None, :]
    dtype: tl.constexpr = out.dtype.element_ty
    if GATED:
        gate = total.to(dtype).to(tl.float32)  # rounded as if it had been stored
        result = (gate * tl.sigmoid(gate)).to(dtype) * other.to(dtype)
    else:
        result = total.to(dtype)
    at = out + token.to(tl.int64)[:, None] * out_stride + column[None, :]
    tl.store(at, result, mask=mask)


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Multiply as the reference does."""
    out = x.new_empty((x.shape[0], weight.shape[0]))
    launch(out, x, weight, bias, tuning.tile(*_sizes(x, weight), gated=False))
    return out


def gated_linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Multiply and activate as the reference does."""
    out = x.new_empty((x.shape[0], weight.shape[0] // 2))
    launch(out, x, weight, None, tuning.tile(*_sizes(x, weight), gated=True), gated=True)
    return out


@cache
def _counters(device: torch.device) -> torch.Tensor:
    """Return one counter a column of programs, zero between launches; launches follow each other."""
    return torch.zeros(COUNTERS, dtype=torch.int32, device=device)


def _sizes(x: torch.Tensor, weight: torch.Tensor) -> tuple[int, int, int]:
    return x.shape[0], weight.shape[0], weight.shape[1]


def launch(
    out: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    tile: Tile,
    *,
    gated: bool = False,
) -> None:
    """Launch the kernel with one tile: what tuning tries."""
    rows, columns = out.shape
    inner = weight.shape[1]
    if rows == 0:
        return
    blocks = triton.cdiv(columns, tile.columns)
    partial, counters = out, out
    if tile.splits > 1:
        partial = out.new_empty((1 + gated, tile.splits, rows, columns), dtype=torch.float32)
        counters = _counters(out.device)
        if blocks > counters.shape[0]:
            raise ValueError(f"{blocks} columns of programs, there are {counters.shape[0]} counters")
    linear_kernel[blocks, tile.splits](
        *(out, x, weight, out if bias is None else bias, partial, counters),
        *(rows, columns, inner, out.stride(0), x.stride(0), weight.stride(0)),
        ROWS=max(16, triton.next_power_of_2(rows)),
        BLOCK_N=tile.columns,
        BLOCK_K=tile.inner,
        SPLITS=tile.splits,
        num_stages=tile.stages,
        EVEN=inner % tile.inner == 0,
        BIAS=bias is not None,
        GATED=gated,
        SWAP=tile.swap,
        PANELS=tile.panels,
        PRECISION="ieee" if x.dtype == torch.float32 else "tf32",
        num_warps=tile.warps,
        **pdl.options(x),
    )
