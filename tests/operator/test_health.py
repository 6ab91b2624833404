"""/healthz fails when the operator is stuck, and only then."""

import socket

import aiohttp

from kvasir_operator.health import Health, serve_health
from kvasir_operator.observe import Key
from kvasir_operator.workqueue import WorkQueue


class Clock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_quiet_cluster_is_healthy() -> None:
    clock = Clock()
    health = Health(WorkQueue(clock), 60, clock)
    for _ in range(100):
        clock.now += 60
        health.resynced()
    report = health.report()
    assert report["ok"]
    assert report["lastEventAgeSeconds"] == 6000


def test_event_resets_its_age() -> None:
    clock = Clock()
    health = Health(WorkQueue(clock), 60, clock)
    clock.now = 50
    health.saw_event()
    assert health.report()["lastEventAgeSeconds"] == 0


def test_resync_that_stands_still_is_unhealthy() -> None:
    clock = Clock()
    health = Health(WorkQueue(clock), 60, clock)
    clock.now = 301
    assert not health.report()["ok"]


async def test_reconcile_that_hangs_is_unhealthy() -> None:
    clock = Clock()
    queue: WorkQueue[Key] = WorkQueue(clock)
    health = Health(queue, 60, clock)
    queue.add(("team", "chat"))
    await queue.get()
    clock.now = 301
    health.resynced()
    assert not health.report()["ok"]


async def test_endpoint_answers_with_the_figures() -> None:
    clock = Clock()
    health = Health(WorkQueue(clock), 60, clock)
    port = _free_port()
    async with serve_health(health, port), aiohttp.ClientSession() as client:
        url = f"http://127.0.0.1:{port}/healthz"
        async with client.get(url) as answer:
            assert (answer.status, (await answer.json())["ok"]) == (200, True)
        clock.now = 1e6
        async with client.get(url) as answer:
            assert answer.status == 503


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
