# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""RMSNorm in one pass: a row stays in registers between its sum of squares and its scaling."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvasir_kernels import pdl

ELEMENTS = 2048  # a program takes as many short rows as fit in this


@triton.jit(do_not_specialize=["rows"])
def rms_norm_kernel(
    out,
    total,
    x,
    residual,
    weight,
    rows,
    inner,
    outer_stride,
    inner_stride,
    eps,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    ADD: tl.constexpr,
    PDL: tl.constexpr,
):
    """Normalise ROWS rows; row r of x lies at r // inner * outer_stride + r % inner * inner_stride.

    out, total and residual are dense, [rows, DIM].
    """
    pdl.begin(PDL)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    dim = tl.arange(0, WIDTH)
    inside = (row < rows)[:, None] & (dim < DIM)[None, :]
    at = (row // inner).to(tl.int64) * outer_stride + row % inner * inner_stride
    dense = row.to(tl.int64)[:, None] * DIM + dim[None, :]
    value = tl.load(x + at[:, None] + dim[None, :], mask=inside, other=0.0)
    if ADD:
        value += tl.load(residual + dense, mask=inside, other=0.0)
        tl.store(total + dense, value, mask=inside)
    wide = value.to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide, 1) / DIM + eps)
    learned = tl.load(weight + dim, mask=dim < DIM, other=0.0)
    normal = (wide * scale[:, None]).to(value.dtype)  # rounded before the scale, as models expect
    tl.store(out + dense, normal * learned[None, :], mask=inside)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Normalise as the reference does; x may be a view whose rows are dense."""
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    _launch(out, out, x, out, weight, eps, add=False)
    return out


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Add and normalise as the reference does."""
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    total = torch.empty_like(out)
    _launch(out, total, x, residual.contiguous(), weight, eps, add=True)
    return out, total


def _launch(
    out: torch.Tensor,
    total: torch.Tensor,
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    *,
    add: bool,
) -> None:
    x = x if x.dim() in (2, 3) and x.stride(-1) == 1 else x.reshape(-1, x.shape[-1])
    dim, inner = x.shape[-1], x.shape[1] if x.dim() == 3 else 1
    rows, width = x.numel() // dim, triton.next_power_of_2(dim)
    tile = max(1, ELEMENTS // width)
    if rows == 0:
        return
    rms_norm_kernel[triton.cdiv(rows, tile),](
        *(out, total, x, residual, weight, rows, inner, x.stride(0)),
        *(x.stride(1) if x.dim() == 3 else 0, eps),
        DIM=dim,
        WIDTH=width,
        ROWS=tile,
        ADD=add,
        num_warps=min(16, max(4, width // 512)),
        **pdl.options(x),
    )
