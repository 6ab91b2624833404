"""Copies of whole blocks within the device's memory: copy-on-write, and staging for swaps."""

from __future__ import annotations

import torch

from kvasir_kernels.block_copy import reference
from kvasir_kernels.dispatch import use_kernel

__all__ = ["copy_blocks"]


def copy_blocks(
    src_pool: torch.Tensor,
    dst_pool: torch.Tensor,
    src_blocks: torch.Tensor,
    dst_blocks: torch.Tensor,
) -> None:
    """Copy block src_blocks[i] of one pool over block dst_blocks[i] of the other, in place.

    See the reference.
    """
    copy = reference.copy_blocks
    if use_kernel(src_pool):
        from kvasir_kernels.block_copy.kernel import copy_blocks as copy
    copy(src_pool, dst_pool, src_blocks, dst_blocks)
