"""The keyed queue: no key twice at once, none lost, failures back off."""

import asyncio

import pytest

from kvasir_operator.workqueue import BACKOFF_FIRST_S, BACKOFF_MOST_S, WorkQueue


async def test_many_adds_are_one_look() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for _ in range(5):
        queue.add("a")
    assert len(queue) == 1


async def test_key_that_is_worked_on_waits_until_the_work_is_done() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    assert len(queue) == 0
    queue.done("a")
    assert await queue.get() == "a"


async def test_key_that_was_not_added_meanwhile_does_not_come_again() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.done(await queue.get())
    assert len(queue) == 0


async def test_other_keys_go_on_meanwhile() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.add("b")
    assert [await queue.get(), await queue.get()] == ["a", "b"]


async def test_delayed_key_comes() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 0.01)
    assert len(queue) == 0
    assert await asyncio.wait_for(queue.get(), 5) == "a"


async def test_earlier_look_wins_over_a_later_one() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 0.01)
    queue.add_after("a", 3600)
    assert await asyncio.wait_for(queue.get(), 5) == "a"


async def test_event_makes_a_planned_look_superfluous() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 0.01)
    queue.add("a")
    queue.done(await queue.get())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 0.05)


async def test_failures_back_off_and_a_success_starts_over() -> None:
    queue: WorkQueue[str] = WorkQueue()
    delays = [queue.retry("a") for _ in range(12)]
    assert delays[:3] == [BACKOFF_FIRST_S, 2 * BACKOFF_FIRST_S, 4 * BACKOFF_FIRST_S]
    assert delays[-1] == BACKOFF_MOST_S
    queue.forget_failures("a")
    assert queue.retry("a") == BACKOFF_FIRST_S


async def test_longest_work_is_that_of_the_oldest_reconcile() -> None:
    now = 0.0
    queue: WorkQueue[str] = WorkQueue(lambda: now)
    assert queue.longest_work_s == 0
    queue.add("a")
    await queue.get()
    now = 7.0
    assert queue.longest_work_s == 7
