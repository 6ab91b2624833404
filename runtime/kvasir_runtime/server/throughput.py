"""Tokens a second over the last seconds, from counters that only grow.

Enters: samples of the engine's counters. Leaves: average prompt and generation rates over a sliding
window, which fall to zero within the window once the load ends.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from kvasir_runtime.messages import Stats

WINDOW_S = 10.0


@dataclass(frozen=True, slots=True)
class Rates:
    """Tokens a second."""

    prompt: float = 0.0
    generation: float = 0.0


class Throughput:
    """A sliding window over two token counters."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        """Begin with an empty window."""
        self._window_s = window_s
        self._samples: deque[tuple[float, int, int]] = deque()

    def add(self, now_s: float, stats: Stats) -> None:
        """Take a sample, and forget those that left the window."""
        self._samples.append((now_s, stats.prompt_tokens_total, stats.generation_tokens_total))
        while len(self._samples) > 2 and self._samples[1][0] <= now_s - self._window_s:
            self._samples.popleft()

    def rates(self) -> Rates:
        """Return the averages between the window's oldest and newest sample."""
        if len(self._samples) < 2:
            return Rates()
        (start_s, prompt_start, generated_start) = self._samples[0]
        (end_s, prompt_end, generated_end) = self._samples[-1]
        elapsed_s = end_s - start_s
        if elapsed_s <= 0:
            return Rates()
        return Rates(
            (prompt_end - prompt_start) / elapsed_s, (generated_end - generated_start) / elapsed_s
        )
