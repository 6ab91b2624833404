import asyncio

import pytest

from kvasir_runtime.server.errors import ClientGoneError, NotServingError
from kvasir_runtime.server.running import RunningRequests
from runtime.server.conftest import until


class Client:
    def __init__(self):
        self.gone = asyncio.Event()

    async def receive(self):
        await self.gone.wait()
        return {"type": "http.disconnect"}


async def answer(running, client, cleaned):
    async with running.enter(client.receive):
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)


@pytest.fixture
def running():
    return RunningRequests()


async def test_a_client_that_leaves_ends_its_request_alone(running):
    clients, cleaned = [Client(), Client()], []
    tasks = [asyncio.create_task(answer(running, client, cleaned)) for client in clients]
    await until(lambda: len(running) == 2)
    clients[0].gone.set()
    with pytest.raises(ClientGoneError):
        await tasks[0]
    assert len(running) == 1
    assert len(cleaned) == 1
    tasks[1].cancel()
    await asyncio.wait(tasks)


async def test_cutting_ends_all_with_the_reason(running):
    tasks = [asyncio.create_task(answer(running, Client(), [])) for _ in range(3)]
    await until(lambda: len(running) == 3)
    assert running.cut_all(NotServingError("time is up")) == 3
    for task in tasks:
        with pytest.raises(NotServingError, match="time is up"):
            await task
    assert await running.wait_idle(0)


async def test_a_cancellation_from_outside_stays_one(running):
    task = asyncio.create_task(answer(running, Client(), []))
    await until(lambda: len(running) == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(running) == 0


async def test_waiting_for_idle_gives_up_in_time(running):
    task = asyncio.create_task(answer(running, Client(), []))
    await until(lambda: len(running) == 1)
    assert not await running.wait_idle(0.01)
    task.cancel()
    assert await running.wait_idle(5)


async def test_after_a_cut_the_task_can_go_on(running):
    """A cut stream still sends its error event: the cancellation must not come back."""

    async def handler():
        async with running.enter(Client().receive) as scope:
            with pytest.raises(NotServingError), scope.explained():
                await asyncio.Event().wait()
            await asyncio.sleep(0)
            return "sent"

    task = asyncio.create_task(handler())
    await until(lambda: len(running) == 1)
    running.cut_all(NotServingError("time is up"))
    assert await task == "sent"
