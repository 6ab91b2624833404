"""Block copies in plain torch."""

from __future__ import annotations

import torch


def copy_blocks(
    src_pool: torch.Tensor,
    dst_pool: torch.Tensor,
    src_blocks: torch.Tensor,
    dst_blocks: torch.Tensor,
) -> None:
    """Copy block src_blocks[i] of one pool over block dst_blocks[i] of the other, in place.

    Pools: [blocks, ...] of one dtype and block shape, maybe the same tensor; then no block is both
    a source and a destination. src_blocks, dst_blocks: int64 [n], destinations all different; a
    pair with a negative entry is padding and copies nothing.
    """
    kept = (src_blocks >= 0) & (dst_blocks >= 0)
    dst_pool[dst_blocks[kept]] = src_pool[src_blocks[kept]]
