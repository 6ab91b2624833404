# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""SwiGLU's activation in one pass over the merged projection's output."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvasir_kernels import pdl, prefetch

TILE = 1024


@triton.jit(do_not_specialize=["rows"])
def silu_mul_kernel(
    out,
    gate_up,
    ahead,
    rows,
    row_stride,
    dim,
    ahead_rows,
    ahead_stride,
    TILE: tl.constexpr,
    AHEAD: tl.constexpr,
    PDL: tl.constexpr,
):
    """Activate one tile of one row; grid (ceil(dim / TILE), rows).

    Programs of rows from `rows` on ask for AHEAD bytes of each row of `ahead`.
    """
    if AHEAD > 0 and tl.program_id(1) >= rows:
        asking = (tl.program_id(1) - rows) * tl.num_programs(0) + tl.program_id(0)
        others = (tl.num_programs(1) - rows) * tl.num_programs(0)
        prefetch.ask_for(ahead, ahead_rows, ahead_stride, asking, others, AHEAD)
        return
    pdl.begin(PDL)
    row = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    gate = tl.load(gate_up + row * row_stride + at, mask=at < dim, other=0.0)
    up = tl.load(gate_up + row * row_stride + dim + at, mask=at < dim, other=0.0)
    wide = gate.to(tl.float32)
    activated = (wide * tl.sigmoid(wide)).to(gate.dtype)  # rounded, as the reference's is
    tl.store(out + row * dim + at, activated * up, mask=at < dim)


def silu_mul(gate_up: torch.Tensor, *, ahead: torch.Tensor | None = None) -> torch.Tensor:
    """Activate as the reference does."""
    dim = gate_up.shape[-1] // 2
    out = gate_up.new_empty((*gate_up.shape[:-1], dim))
    flat = gate_up if gate_up.dim() == 2 else gate_up.reshape(-1, 2 * dim)
    if flat.stride(1) != 1:
        flat = flat.contiguous()
    rows, tiles = flat.shape[0], triton.cdiv(dim, TILE)
    asked = prefetch.bytes_ahead(ahead, rows)
    ahead = flat if ahead is None else ahead
    if out.numel():
        silu_mul_kernel[tiles, rows + triton.cdiv(prefetch.PROGRAMS, tiles) * (asked > 0)](
            *(out, flat, ahead, rows, flat.stride(0), dim, ahead.shape[0], ahead.stride(0)),
            TILE=TILE,
            AHEAD=asked,
            num_warps=4,
            **pdl.options(flat),
        )
    return out
