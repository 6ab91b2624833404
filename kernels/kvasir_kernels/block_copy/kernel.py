# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""Block copies within the device's memory, in one launch for any number of blocks."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

TILE = 4096  # bytes


@triton.jit(do_not_specialize_on_alignment=["src_blocks", "dst_blocks"])
def copy_kernel(
    src_pool, dst_pool, src_blocks, dst_blocks, size, src_stride, dst_stride, TILE: tl.constexpr
):
    """Copy one tile of one block; grid (n, ceil(size / TILE))."""
    src, dst = tl.load(src_blocks + tl.program_id(0)), tl.load(dst_blocks + tl.program_id(0))
    if (src < 0) | (dst < 0):
        return
    at = tl.program_id(1) * TILE + tl.arange(0, TILE)
    tile = tl.load(src_pool + src * src_stride + at, mask=at < size)
    tl.store(dst_pool + dst * dst_stride + at, tile, mask=at < size)


def copy_blocks(
    src_pool: torch.Tensor,
    dst_pool: torch.Tensor,
    src_blocks: torch.Tensor,
    dst_blocks: torch.Tensor,
) -> None:
    """Copy as the reference does; blocks must be dense, the pools' strides are free."""
    if not (src_pool[:1].is_contiguous() and dst_pool[:1].is_contiguous()):
        raise ValueError("blocks must be contiguous")
    pairs, size = src_blocks.shape[0], src_pool[:1].numel()
    if pairs:
        tile = TILE // src_pool.element_size()
        copy_kernel[pairs, triton.cdiv(size, tile)](
            *(src_pool, dst_pool, src_blocks, dst_blocks),
            *(size, src_pool.stride(0), dst_pool.stride(0)),
            TILE=tile,
            num_warps=4,
        )
