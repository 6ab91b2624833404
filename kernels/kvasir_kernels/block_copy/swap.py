"""Block copies between the device's pool and pinned host memory, asynchronous on the stream.

Triton takes no host pointers, so blocks pass through a dense staging buffer on the device: torch
gathers or scatters them there, and runs of neighbouring host blocks cross in one copy each.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch


def swap_blocks(
    src_pool: torch.Tensor,
    dst_pool: torch.Tensor,
    src_blocks: torch.Tensor,
    dst_blocks: torch.Tensor,
) -> None:
    """Copy blocks between pools on different devices, one of them the host.

    src_blocks, dst_blocks: int64 [n] on the host, without padding. The copy is complete when the
    current stream reaches this point; host memory that isn't pinned makes it synchronous.
    """
    if src_blocks.is_cuda or dst_blocks.is_cuda:
        raise ValueError("swaps take their block numbers on the host: waiting for them would sync")
    if src_pool.is_cuda:
        staging = src_pool.index_select(0, _to_device(src_blocks, src_pool.device))
        for run, first in _runs(dst_blocks):
            length = run.stop - run.start
            dst_pool[first : first + length].copy_(staging[run], non_blocking=True)
        return
    staging = dst_pool.new_empty((len(src_blocks), *dst_pool.shape[1:]))
    for run, first in _runs(src_blocks):
        length = run.stop - run.start
        staging[run].copy_(src_pool[first : first + length], non_blocking=True)
    dst_pool.index_copy_(0, _to_device(dst_blocks, dst_pool.device), staging)


def _to_device(blocks: torch.Tensor, device: torch.device) -> torch.Tensor:
    return blocks.pin_memory().to(device, non_blocking=True)


def _runs(blocks: torch.Tensor) -> Iterator[tuple[slice, int]]:
    """Yield the runs of consecutive numbers: where each lies in `blocks`, and its first number."""
    numbers = blocks.tolist()
    begin = 0
    for at in range(1, len(numbers) + 1):
        if at == len(numbers) or numbers[at] != numbers[at - 1] + 1:
            yield slice(begin, at), numbers[begin]
            begin = at
