# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""Linear layers of few rows, where reading the weights sets the pace.

A program multiplies BLOCK_N rows of the weight with all rows of the input, over one of SPLITS parts
of the inner dimension, so that a narrow layer fills the card as well. The last program of a block
to finish adds its parts up, always in the same order.
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


@triton.jit
def _multiply(
    weight, x, total, row, inside, k, end, EVEN: tl.constexpr, PRECISION: tl.constexpr
):  # fmt: skip
    """Add a tile of the weight, [BLOCK_N, BLOCK_K], times x, [ROWS, BLOCK_K], to the total.

    The weight is the left side: it has the 64 rows that the tensor cores want.
    """
    mask = inside[:, None] if EVEN else inside[:, None] & (k < end)[None, :]
    w = tl.load(weight + row[:, None] + k[None, :], mask=mask, other=0.0)
    return tl.dot(w, tl.trans(x), total, input_precision=PRECISION)


@triton.jit
def _sum_parts(partial, mask, stride, SPLITS: tl.constexpr):
    """Add up a block's parts in order, past the first-level cache, where old ones may lie."""
    total = tl.load(partial, mask=mask, other=0.0, cache_modifier=".cg")
    for split in tl.static_range(1, SPLITS):
        total += tl.load(partial + split * stride, mask=mask, other=0.0, cache_modifier=".cg")
    return total


@triton.jit(do_not_specialize=["rows"], do_not_specialize_on_alignment=["counters"])
def linear_kernel(
    out,
    x,
    weight,
    bias,
    partial,  # float32 [SPLITS, rows, columns]
    counters,  # int32, one a block, all zero before and after
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
    PRECISION: tl.constexpr,
    PDL: tl.constexpr,
):
    """Compute BLOCK_N columns of `out`, [rows, columns]; grid (ceil(columns / BLOCK_N), SPLITS).

    EVEN: the inner dimension is whole tiles. GATED: the columns of the gate and, `columns` rows
    further down the weight, of what it is multiplied with; SPLITS is 1 then.
    """
    pdl.begin(PDL)
    block, split = tl.program_id(0), tl.program_id(1)
    column = block * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = column < columns
    row = column.to(tl.int64) * weight_stride
    beside = row + columns.to(tl.int64) * weight_stride
    tiles = tl.cdiv(inner, BLOCK_K)
    first = split * tiles // SPLITS * BLOCK_K
    end = tl.minimum((split + 1) * tiles // SPLITS * BLOCK_K, inner)
    token = tl.arange(0, ROWS)
    known = token < rows
    source = x + token.to(tl.int64)[:, None] * x_stride
    total = tl.zeros([BLOCK_N, ROWS], tl.float32)
    other = tl.zeros([BLOCK_N, ROWS], tl.float32)
    for start in range(first, end, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        mask = known[:, None] if EVEN else known[:, None] & (k < end)[None, :]
        part = tl.load(source + k[None, :], mask=mask, other=0.0)
        total = _multiply(weight, part, total, row, inside, k, end, EVEN, PRECISION)
        if GATED:
            other = _multiply(weight, part, other, beside, inside, k, end, EVEN, PRECISION)

    total = tl.trans(total)
    mask = known[:, None] & inside[None, :]
    if SPLITS > 1:
        place = partial + token[:, None] * columns + column[None, :]
        stride = rows.to(tl.int64) * columns
        tl.store(place + split * stride, total, mask=mask)
        tl.debug_barrier()  # every thread has stored before one of them says so
        if tl.atomic_add(counters + block, 1, sem="acq_rel") != SPLITS - 1:
            return
        tl.store(counters + block, 0)
        total = _sum_parts(place, mask, stride, SPLITS)
    if BIAS:
        total += tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)[None, :]
    dtype: tl.constexpr = out.dtype.element_ty
    result = total.to(dtype)
    if GATED:
        gate = result.to(tl.float32)  # rounded, as the reference's is
        result = (gate * tl.sigmoid(gate)).to(dtype) * tl.trans(other).to(dtype)
    at = out + token.to(tl.int64)[:, None] * out_stride + column[None, :]
    tl.store(at, result, mask=mask)


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Multiply as the reference does."""
    out = x.new_empty((x.shape[0], weight.shape[0]))
    tile = tuning.tile(weight.shape[0], weight.shape[1], processors(x.device))
    launch(out, x, weight, bias, tile)
    return out


def gated_linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Multiply and activate as the reference does."""
    out = x.new_empty((x.shape[0], weight.shape[0] // 2))
    launch(out, x, weight, None, tuning.GATED, gated=True)
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
    if tile.splits > 1 and (gated or blocks > COUNTERS):
        raise ValueError(f"{columns} columns, gated: {gated}, can't be split {tile.splits} ways")
    partial = out
    if tile.splits > 1:
        partial = out.new_empty((tile.splits, rows, columns), dtype=torch.float32)
    linear_kernel[blocks, tile.splits](
        *(out, x, weight, out if bias is None else bias, partial, _counters(x.device)),
        *(rows, columns, inner, out.stride(0), x.stride(0), weight.stride(0)),
        ROWS=max(16, triton.next_power_of_2(rows)),
        BLOCK_N=tile.columns,
        BLOCK_K=tile.inner,
        SPLITS=tile.splits,
        EVEN=inner % tile.inner == 0,
        BIAS=bias is not None,
        GATED=gated,
        PRECISION="ieee" if x.dtype == torch.float32 else "tf32",
        num_warps=4,
        num_stages=tile.stages,
        **pdl.options(x),
    )


@cache
def _counters(device: torch.device) -> torch.Tensor:
    """Return counters for launches that follow one another."""
    return torch.zeros(COUNTERS, dtype=torch.int32, device=device)
