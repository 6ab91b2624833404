"""Room in host memory for the blocks of swapped-out sequences."""

from __future__ import annotations

import heapq

from kvasir_runtime.engine.sequence import Sequence


class HostPool:
    """Hands out host blocks; a swapped-out sequence owns its own alone.

    The lowest free ones come first, so that most neighbours travel together.
    """

    def __init__(self, num_blocks: int) -> None:
        """Begin with every block free; 0 blocks means no swapping."""
        self.num_blocks = num_blocks
        self._free = list(range(num_blocks))

    @property
    def num_used(self) -> int:
        """Return the blocks that swapped-out sequences own."""
        return self.num_blocks - len(self._free)

    def has_room(self, count: int) -> bool:
        """Whether `count` blocks are free."""
        return count <= len(self._free)

    def take(self, seq: Sequence, count: int) -> None:
        """Give `count` blocks, which must be free, to a sequence."""
        seq.host_blocks = [heapq.heappop(self._free) for _ in range(count)]

    def release(self, seq: Sequence) -> None:
        """Take a sequence's blocks back."""
        for block in seq.host_blocks:
            heapq.heappush(self._free, block)
        seq.host_blocks = []
