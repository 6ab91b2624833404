"""Whether the cache of a sequence that must make room is kept on the host, or computed again."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PreemptionCosts:
    """Measured at start-up: how fast blocks travel, and how fast tokens are computed again."""

    copy_bytes_per_s: float
    prefill_tokens_per_s: float
    block_bytes: int

    def prefers_swap(self, num_tokens: int, num_blocks: int) -> bool:
        """Whether moving `num_blocks` out and in takes less time than computing `num_tokens`."""
        swap_s = 2 * num_blocks * self.block_bytes / self.copy_bytes_per_s
        return swap_s < num_tokens / self.prefill_tokens_per_s


ALWAYS_RECOMPUTE = PreemptionCosts(math.inf, math.inf, 1)
ALWAYS_SWAP = PreemptionCosts(math.inf, 1.0, 1)
