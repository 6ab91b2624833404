"""The queue of requests that wait to run, ordered by urgency."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator
from typing import Literal

from kvasir_runtime.engine.sequence import Sequence

Policy = Literal["fcfs", "priority"]
Urgency = tuple[int, int]  # smaller runs earlier


class WaitingQueue:
    """Sequences in the order they should run: by priority (if that is the policy), then arrival.

    A preempted sequence keeps its arrival, so it comes back to where it was.
    """

    def __init__(self, policy: Policy) -> None:
        """Begin empty."""
        self._by_priority = policy == "priority"
        self._numbers = itertools.count()
        self._urgency: dict[Sequence, Urgency] = {}
        self._queue: list[Sequence] = []

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._queue)

    def __iter__(self) -> Iterator[Sequence]:
        """Iterate in the order they should run."""
        return iter(self._queue)

    def urgency(self, seq: Sequence) -> Urgency:
        """Return the key that orders a known sequence among all, running ones too."""
        return self._urgency[seq]

    def push(self, seq: Sequence) -> None:
        """Add a new or a preempted sequence."""
        if seq not in self._urgency:
            priority = seq.priority if self._by_priority else 0
            self._urgency[seq] = (priority, next(self._numbers))
        bisect.insort(self._queue, seq, key=self._urgency.__getitem__)

    def head(self) -> Sequence:
        """Return the one that should run next."""
        return self._queue[0]

    def pop(self) -> Sequence:
        """Remove the one that should run next; its urgency is kept while it runs."""
        return self._queue.pop(0)

    def forget(self, seq: Sequence) -> None:
        """Drop a sequence that has ended, waiting or not."""
        if seq in self._queue:
            self._queue.remove(seq)
        self._urgency.pop(seq, None)
