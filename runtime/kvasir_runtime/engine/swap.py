"""The host's part of the KV cache, and copies between it and the device's.

A host block holds one block of all layers side by side, so that it travels as one copy. Copies are
queued on the device's stream: what is computed later sees them, and the host waits for nothing.
"""

from __future__ import annotations

import time

import torch

STAGED_BLOCKS = 16  # gathered on the device at once: tens of megabytes at most


class HostCache:
    """Swapped-out blocks, in pinned memory where the device is a GPU."""

    def __init__(self, pool: torch.Tensor, num_blocks: int) -> None:
        """Allocate `num_blocks` for blocks of `pool`, [layers, 2, blocks, …]."""
        layers, two, _, *block = pool.shape
        self._pool = pool
        self._host = torch.empty(
            (num_blocks, layers, two, *block), dtype=pool.dtype, pin_memory=pool.is_cuda
        )

    def swap_out(self, pairs: list[tuple[int, int]]) -> None:
        """Copy device blocks to host blocks; pairs are (device, host)."""
        for start in range(0, len(pairs), STAGED_BLOCKS):
            part = pairs[start : start + STAGED_BLOCKS]
            staged = self._pool[:, :, self._index([device for device, _ in part])]
            staged = staged.movedim(2, 0).contiguous()
            for row, (_, host) in enumerate(part):
                self._host[host].copy_(staged[row], non_blocking=True)

    def swap_in(self, pairs: list[tuple[int, int]]) -> None:
        """Copy host blocks to device blocks; pairs are (host, device)."""
        for start in range(0, len(pairs), STAGED_BLOCKS):
            part = pairs[start : start + STAGED_BLOCKS]
            shape = (len(part), *self._host.shape[1:])
            staged = torch.empty(shape, dtype=self._pool.dtype, device=self._pool.device)
            for row, (host, _) in enumerate(part):
                staged[row].copy_(self._host[host], non_blocking=True)
            self._pool[:, :, self._index([device for _, device in part])] = staged.movedim(0, 2)

    def measure_bandwidth(self) -> float:
        """Return the bytes a second that a copy out and in again moves, on average."""
        count = min(STAGED_BLOCKS, self._host.shape[0], self._pool.shape[2])
        pairs = [(block, block) for block in range(count)]
        self.swap_out(pairs)
        started = self._now()
        self.swap_out(pairs)
        self.swap_in(pairs)
        return 2 * count * self._host[0].nbytes / max(self._now() - started, 1e-9)

    def _index(self, blocks: list[int]) -> torch.Tensor:
        return torch.tensor(blocks).to(self._pool.device, non_blocking=True)

    def _now(self) -> float:
        if self._pool.is_cuda:
            torch.cuda.synchronize(self._pool.device)
        return time.perf_counter()


def copy_blocks(pool: torch.Tensor, pairs: list[tuple[int, int]]) -> None:
    """Copy blocks within the pool, [layers, 2, blocks, …]; pairs are (source, destination).

    No destination may be a source.
    """
    index = torch.tensor(pairs, dtype=torch.long).to(pool.device, non_blocking=True)
    pool[:, :, index[:, 1]] = pool[:, :, index[:, 0]]
