"""Sends requests at their times and waits for all answers.

The load is open: a slow server gets the next request when it is due, not when the last one ends.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kvasir_runtime.bench.latency import Answer
from kvasir_runtime.bench.workload import Prompt
from kvasir_runtime.errors import AnswerError


@dataclass(frozen=True, slots=True)
class Planned:
    """A request to come: its time after the start, its prompt, and the tokens wanted."""

    offset_s: float
    prompt: Prompt
    output_len: int


class Target(Protocol):
    """What is measured."""

    async def ask(self, prompt: Prompt, output_len: int) -> Answer:
        """Return the answer to one prompt, with the moments its tokens came at.

        Moments are `time.perf_counter()` seconds. Raises AnswerError where there is none.
        """


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of a run's requests."""

    answers: tuple[Answer, ...]
    errors: tuple[AnswerError, ...]
    late_s: tuple[float, ...]
    elapsed_s: float

    @property
    def errors_by_kind(self) -> dict[str, int]:
        """Return how many requests failed in which way."""
        return dict(Counter(error.kind for error in self.errors))


async def replay(target: Target, plan: Sequence[Planned]) -> Replayed:
    """Send every request of `plan`, ordered by time, and return when all have ended.

    `late_s` says how much later than planned each was sent: where it is not small against the
    latencies, the client was the bottleneck. Whatever isn't an AnswerError ends the run at once.
    """
    start = time.perf_counter()
    late, tasks = [], []
    try:
        async with asyncio.TaskGroup() as group:
            for request in plan:
                due = start + request.offset_s
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                late.append(max(0.0, time.perf_counter() - due))
                tasks.append(group.create_task(_attempt(target, request)))
    except ExceptionGroup as failures:
        # An engine that dies fails every request in the same way: one says it.
        raise failures.exceptions[0] from failures
    elapsed = time.perf_counter() - start
    ends = [task.result() for task in tasks]
    return Replayed(
        answers=tuple(end for end in ends if isinstance(end, Answer)),
        errors=tuple(end for end in ends if isinstance(end, AnswerError)),
        late_s=tuple(late),
        elapsed_s=elapsed,
    )


async def warm_up(target: Target, plan: Sequence[Planned]) -> None:
    """Send requests all at once; raises the AnswerError of the first that fails."""
    for end in await asyncio.gather(*(_attempt(target, request) for request in plan)):
        if isinstance(end, AnswerError):
            raise end


async def _attempt(target: Target, request: Planned) -> Answer | AnswerError:
    try:
        return await target.ask(request.prompt, request.output_len)
    except AnswerError as error:
        return error
