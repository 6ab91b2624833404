# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""SwiGLU's activation in one pass over the merged projection's output."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvasir_kernels import pdl

TILE = 1024


@triton.jit
def silu_mul_kernel(out, gate_up, row_stride, dim, TILE: tl.constexpr, PDL: tl.constexpr):
    """Activate one tile of one row; grid (ceil(dim / TILE), rows)."""
    pdl.begin(PDL)
    row = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    gate = tl.load(gate_up + row * row_stride + at, mask=at < dim, other=0.0)
    up = tl.load(gate_up + row * row_stride + dim + at, mask=at < dim, other=0.0)
    wide = gate.to(tl.float32)
    activated = (wide * tl.sigmoid(wide)).to(gate.dtype)  # rounded, as the reference's is
    tl.store(out + row * dim + at, activated * up, mask=at < dim)


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """Activate as the reference does."""
    dim = gate_up.shape[-1] // 2
    out = gate_up.new_empty((*gate_up.shape[:-1], dim))
    flat = gate_up if gate_up.dim() == 2 else gate_up.reshape(-1, 2 * dim)
    if flat.stride(1) != 1:
        flat = flat.contiguous()
    if out.numel():
        grid = (triton.cdiv(dim, TILE), flat.shape[0])
        silu_mul_kernel[grid](
            out, flat, flat.stride(0), dim, TILE=TILE, num_warps=4, **pdl.options(flat)
        )
    return out
