"""Whether the cache of a sequence that must make room is kept on the host, or computed again."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CopySpeed:
    """How long a round trip of blocks to the host takes: some time whatever their number, and more
    by the byte. `bytes_per_s` counts a block once for both ways."""

    overhead_s: float
    bytes_per_s: float

    def round_trip_s(self, num_bytes: int) -> float:
        """Return the time to move so many bytes out and in again."""
        return self.overhead_s + num_bytes / self.bytes_per_s


@dataclass(frozen=True, slots=True)
class PreemptionCosts:
    """Measured at start-up: how fast blocks travel, and how fast tokens are computed again."""

    copy: CopySpeed
    prefill_tokens_per_s: float
    block_bytes: int

    def prefers_swap(self, num_tokens: int, num_blocks: int) -> bool:
        """Whether moving `num_blocks` out and in takes less time than computing `num_tokens`.

        Short sequences are computed again, since every round trip takes its overhead; long ones are
        moved, where the link is quick enough.
        """
        swap_s = self.copy.round_trip_s(num_blocks * self.block_bytes)
        return swap_s < num_tokens / self.prefill_tokens_per_s


_FREE = CopySpeed(0.0, math.inf)
ALWAYS_RECOMPUTE = PreemptionCosts(_FREE, math.inf, 1)
ALWAYS_SWAP = PreemptionCosts(_FREE, 1.0, 1)
