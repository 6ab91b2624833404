"""Copies of whole KV blocks: copy-on-write on the device, swaps to and from the host."""

from __future__ import annotations

import torch

from kvasir_kernels.block_copy import reference
from kvasir_kernels.block_copy.swap import swap_blocks
from kvasir_kernels.dispatch import use_kernel

__all__ = ["copy_blocks"]


def copy_blocks(
    src_pool: torch.Tensor,
    dst_pool: torch.Tensor,
    src_blocks: torch.Tensor,
    dst_blocks: torch.Tensor,
) -> None:
    """Copy block src_blocks[i] of one pool over block dst_blocks[i] of the other, in place.

    See the reference; between a device and the host, see `swap_blocks`.
    """
    copy = reference.copy_blocks
    if src_pool.device != dst_pool.device:
        copy = swap_blocks
    elif use_kernel(src_pool):
        from kvasir_kernels.block_copy.kernel import copy_blocks as copy
    copy(src_pool, dst_pool, src_blocks, dst_blocks)
