"""The host's part of the KV cache, and copies of blocks within the device and to the host.

A host block holds one block of all layers side by side, so that it travels as one piece. Copies are
queued on the device's stream: what is computed later sees them, and the host waits for nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch

from kvasir_kernels import block_copy
from kvasir_runtime.engine.preemption import CopySpeed

STAGED_BLOCKS = 16  # gathered on the device at once: tens of megabytes at most

Pairs = list[tuple[int, int]]


class HostCache:
    """Swapped-out blocks, in pinned memory where the device is a GPU."""

    def __init__(self, pool: torch.Tensor, num_blocks: int) -> None:
        """Allocate `num_blocks` for blocks of `pool`, [layers, 2, blocks, …]."""
        layers, two, _, *block = pool.shape
        shape = (num_blocks, layers, two, *block)
        self._pool = pool
        self._host = torch.empty(shape, dtype=pool.dtype, pin_memory=pool.is_cuda)

    def swap_out(self, pairs: Pairs) -> None:
        """Copy device blocks to host blocks; pairs are (device, host)."""
        for part in _parts(pairs):
            staged = self._new_staging(len(part))
            _copy_layers(self._pool, [device for device, _ in part], staged, into_pool=False)
            for rows, first in _runs([host for _, host in part]):
                count = rows.stop - rows.start
                self._host[first : first + count].copy_(staged[rows], non_blocking=True)

    def swap_in(self, pairs: Pairs) -> None:
        """Copy host blocks to device blocks; pairs are (host, device)."""
        for part in _parts(pairs):
            staged = self._new_staging(len(part))
            for rows, first in _runs([host for host, _ in part]):
                count = rows.stop - rows.start
                staged[rows].copy_(self._host[first : first + count], non_blocking=True)
            _copy_layers(self._pool, [device for _, device in part], staged, into_pool=True)

    def measure_speed(self) -> CopySpeed:
        """Time round trips of one block and of several; the contents of both pools are lost."""
        many = min(STAGED_BLOCKS, self._host.shape[0], self._pool.shape[2])
        one_s, many_s = self._round_trip_s(1), self._round_trip_s(many)
        block_s = max(many_s - one_s, 1e-9) / max(many - 1, 1)
        return CopySpeed(max(0.0, one_s - block_s), self._host[0].nbytes / block_s)

    def _round_trip_s(self, count: int) -> float:
        """Return the best time of three to copy `count` blocks out and in again."""
        pairs = [(block, block) for block in range(count)]
        times = []
        for _ in range(3):
            started = self._now()
            self.swap_out(pairs)
            self.swap_in(pairs)
            times.append(self._now() - started)
        return min(times)

    def _new_staging(self, blocks: int) -> torch.Tensor:
        return self._pool.new_empty((blocks, *self._host.shape[1:]))

    def _now(self) -> float:
        if self._pool.is_cuda:
            torch.cuda.synchronize(self._pool.device)
        return time.perf_counter()


def copy_blocks(pool: torch.Tensor, pairs: Pairs) -> None:
    """Copy blocks within the pool, [layers, 2, blocks, …]; pairs are (source, destination).

    No destination may be a source.
    """
    source, destination = (
        _in_all_layers(pool, [pair[side] for pair in pairs]).flatten() for side in (0, 1)
    )
    flat = pool.flatten(0, 2)
    block_copy.copy_blocks(flat, flat, source, destination)


def _copy_layers(
    pool: torch.Tensor, blocks: list[int], staged: torch.Tensor, *, into_pool: bool
) -> None:
    """Copy blocks of all layers between the pool and `staged`, [blocks, layers, 2, …]."""
    in_pool = _in_all_layers(pool, blocks).flatten()
    in_staged = torch.arange(len(in_pool), device=pool.device)
    sides = (pool.flatten(0, 2), staged.flatten(0, 2), in_pool, in_staged)
    if into_pool:
        sides = (sides[1], sides[0], sides[3], sides[2])
    block_copy.copy_blocks(*sides)


def _in_all_layers(pool: torch.Tensor, blocks: list[int]) -> torch.Tensor:
    """Return where blocks lie in the pool's first three dimensions, int64 [blocks, layers * 2]."""
    layers, two, count = pool.shape[:3]
    first = torch.arange(layers * two, device=pool.device) * count
    own = torch.tensor(blocks, dtype=torch.long).to(pool.device, non_blocking=True)
    return own[:, None] + first[None, :]


def _parts(pairs: Pairs) -> Iterator[Pairs]:
    for start in range(0, len(pairs), STAGED_BLOCKS):
        yield pairs[start : start + STAGED_BLOCKS]


def _runs(numbers: list[int]) -> Iterator[tuple[slice, int]]:
    """Yield the runs of consecutive numbers: where each lies in the list, and its first number."""
    begin = 0
    for at in range(1, len(numbers) + 1):
        if at == len(numbers) or numbers[at] != numbers[at - 1] + 1:
            yield slice(begin, at), numbers[begin]
            begin = at
