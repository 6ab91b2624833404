"""Statuses in quick succession are drawn together, except what clients wait for."""

from typing import Any

import pytest

from kvasir_operator.cluster import SERVICES_WANTED
from kvasir_operator.errors import ApiError
from kvasir_operator.model.observed import Observed
from kvasir_operator.model.outcome import Outcome
from kvasir_operator.model.service import Ref
from kvasir_operator.observe import Store
from kvasir_operator.tell import Teller
from support.fake_cluster import FakeCluster, live_indices
from support.objects import T0, condition, deployment, pod, raw_service, ready_pod

STATUS_WRITE = "apply inferenceservices/status"


class Clock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def cluster() -> FakeCluster:
    """An API server with one InferenceService."""
    fake = FakeCluster()
    fake.put(SERVICES_WANTED, raw_service())
    return fake


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still."""
    return Clock()


@pytest.fixture
def teller(cluster: FakeCluster, clock: Clock) -> Teller:
    """A teller that waits a second between statuses."""
    return Teller(cluster, Store(live_indices(cluster)), 1.0, clock)  # type: ignore[arg-type]


def outcome(cluster: FakeCluster, *pods: dict[str, Any], ready: int = 0) -> Outcome:
    raw = cluster.of(SERVICES_WANTED)[0]
    observed = Observed(deployment=deployment(readyReplicas=ready), pods=pods)
    return Outcome(Ref.of(raw), raw.get("status") or {}, observed, replicas=1, revision="r1")


PLACED = pod(conditions=[condition("PodScheduled", "True")])


async def test_what_can_wait_waits_for_the_interval(
    cluster: FakeCluster, clock: Clock, teller: Teller
) -> None:
    assert await teller.tell(outcome(cluster), T0) is None
    clock.now += 0.25
    assert await teller.tell(outcome(cluster, PLACED), T0) == pytest.approx(0.75)
    clock.now += 0.75
    assert await teller.tell(outcome(cluster, PLACED), T0) is None
    assert cluster.writes == [STATUS_WRITE] * 2


async def test_ready_is_told_at_once(cluster: FakeCluster, teller: Teller) -> None:
    await teller.tell(outcome(cluster), T0)
    assert await teller.tell(outcome(cluster, ready_pod(), ready=1), T0) is None
    assert cluster.events() == [("Normal", "Ready")]


async def test_nothing_new_is_not_told(cluster: FakeCluster, teller: Teller) -> None:
    await teller.tell(outcome(cluster), T0)
    await teller.tell(outcome(cluster), "2027-01-01T00:00:00Z")
    assert cluster.writes == [STATUS_WRITE]


async def test_service_that_is_gone_is_no_error(cluster: FakeCluster, teller: Teller) -> None:
    told = outcome(cluster)
    cluster.drop(SERVICES_WANTED, "team", "chat")
    assert await teller.tell(told, T0) is None


async def test_refused_event_does_not_fail_the_reconcile(
    cluster: FakeCluster, teller: Teller
) -> None:
    cluster.refuse["create events"] = ApiError(403, "Forbidden", "no events for you")
    await teller.tell(outcome(cluster, ready_pod(), ready=1), T0)
    assert cluster.writes == [STATUS_WRITE]
