"""The keyed queue between events and reconciles.

In: keys, at once or after a delay. Out: each key to one worker at a time, however often it was
added meanwhile; a key added while it is worked on comes again afterwards. Failures back off.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

BACKOFF_FIRST_S = 0.2
BACKOFF_MOST_S = 60.0


class WorkQueue(Generic[Key]):
    """Level-triggered: it carries no events, only which keys need a look."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ready: asyncio.Queue[Key] = asyncio.Queue()
        self._queued: set[Key] = set()
        self._working: dict[Key, float] = {}
        self._again: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        """How many keys wait for a worker."""
        return self._ready.qsize()

    @property
    def longest_work_s(self) -> float:
        """How long the oldest reconcile under way has been going on."""
        now = self._clock()
        oldest: float = min(self._working.values(), default=now)
        return now - oldest

    def add(self, key: Key) -> None:
        """Have `key` looked at, as soon as a worker is free."""
        self._cancel_timer(key)
        if key in self._working:
            self._again.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._ready.put_nowait(key)

    def add_after(self, key: Key, delay_s: float) -> None:
        """Have `key` looked at after a while; an earlier look that is planned already stays."""
        loop = asyncio.get_running_loop()
        planned = self._timers.get(key)
        if planned is not None and planned.when() <= loop.time() + delay_s:
            return
        self._cancel_timer(key)
        self._timers[key] = loop.call_later(delay_s, self.add, key)

    def retry(self, key: Key) -> float:
        """Have `key` looked at after its failures' back-off; the delay in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay_s = min(BACKOFF_FIRST_S * 2.0 ** min(failures, 16), BACKOFF_MOST_S)
        self.add_after(key, delay_s)
        return delay_s

    def forget_failures(self, key: Key) -> None:
        """Start `key`'s back-off over after a success."""
        self._failures.pop(key, None)

    async def get(self) -> Key:
        """The next key; until `done` no other worker gets it."""
        key = await self._ready.get()
        self._queued.discard(key)
        self._working[key] = self._clock()
        return key

    def done(self, key: Key) -> None:
        """The work on `key` is over; it comes again if it was added meanwhile."""
        del self._working[key]
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _cancel_timer(self, key: Key) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
