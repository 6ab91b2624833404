"""One look at a service, against an API server in memory."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kvasir_operator import names
from kvasir_operator.cluster import DEPLOYMENTS, PODS, REVISIONS, SERVICES, SERVICES_WANTED
from kvasir_operator.errors import ApiError
from kvasir_operator.observe import Store
from kvasir_operator.reconcile import Next, Reconciler
from kvasir_operator.settings import Settings
from support.fake_cluster import FakeCluster, live_indices
from support.objects import T0, condition, raw_service, ready_pod

KEY = ("team", "chat")
SETTINGS = Settings(default_image="engine:1", status_interval_s=0)
CREATION = [
    "create controllerrevisions",
    "apply deployments",
    "apply services",
    "apply inferenceservices/status",
]


@pytest.fixture
def cluster() -> FakeCluster:
    """An API server with one InferenceService."""
    fake = FakeCluster()
    fake.put(SERVICES_WANTED, raw_service())
    return fake


def operator(
    cluster: FakeCluster, settings: Settings = SETTINGS, now: Callable[[], str] = lambda: T0
) -> Reconciler:
    """A freshly started operator."""
    return Reconciler(cluster, Store(live_indices(cluster)), settings, now)  # type: ignore[arg-type]


def edit(cluster: FakeCluster, **spec: Any) -> None:
    """The user changes fields of the spec."""
    live = cluster.objects[SERVICES_WANTED.plural, *KEY]
    meta = {**live["metadata"], "generation": live["metadata"]["generation"] + 1}
    cluster.put(SERVICES_WANTED, {**live, "metadata": meta, "spec": {**live["spec"], **spec}})


def serve(cluster: FakeCluster) -> None:
    """Play the controller and kubelet: the wanted pods are there and ready."""
    live = cluster.objects[DEPLOYMENTS.plural, *KEY]
    count = live["spec"]["replicas"]
    status = {"observedGeneration": live["metadata"]["generation"], "replicas": count}
    status |= {"updatedReplicas": count, "readyReplicas": count}
    cluster.put(DEPLOYMENTS, {**live, "status": status})
    revision = live["metadata"]["labels"][names.LABEL_REVISION]
    cluster.put(PODS, ready_pod("chat-1", revision))


def status(cluster: FakeCluster) -> dict[str, Any]:
    found: dict[str, Any] = cluster.objects[SERVICES_WANTED.plural, *KEY]["status"]
    return found


def template(cluster: FakeCluster) -> dict[str, Any]:
    found: dict[str, Any] = cluster.objects[DEPLOYMENTS.plural, *KEY]["spec"]["template"]
    return found


def image(cluster: FakeCluster) -> str:
    name: str = template(cluster)["spec"]["containers"][0]["image"]
    return name


async def test_first_look_makes_the_children(cluster: FakeCluster) -> None:
    await operator(cluster).reconcile(KEY)
    assert sorted(cluster.writes) == sorted(CREATION)
    assert status(cluster)["phase"] == "Pending"


async def test_from_creation_to_ready_in_at_most_eight_writes(cluster: FakeCluster) -> None:
    look = operator(cluster).reconcile
    await look(KEY)
    serve(cluster)
    await look(KEY)
    assert status(cluster)["phase"] == "Ready"
    assert cluster.events() == [("Normal", "Ready")]
    assert len(cluster.writes) <= 8


async def test_second_look_writes_nothing(cluster: FakeCluster) -> None:
    look = operator(cluster).reconcile
    await look(KEY)
    before = list(cluster.writes)
    assert await look(KEY) == Next()
    assert cluster.writes == before


async def test_look_after_a_restart_writes_nothing(cluster: FakeCluster) -> None:
    await operator(cluster).reconcile(KEY)
    serve(cluster)
    await operator(cluster).reconcile(KEY)
    before = list(cluster.writes)
    await operator(cluster, now=lambda: "2027-01-01T00:00:00Z").reconcile(KEY)
    assert cluster.writes == before


@pytest.mark.parametrize("crash_at", CREATION)
async def test_restart_after_a_crash_at_any_write_finishes_the_work(
    cluster: FakeCluster, crash_at: str
) -> None:
    cluster.refuse[crash_at] = ApiError(500, "InternalError", "crash")
    with pytest.raises(ApiError):
        await operator(cluster).reconcile(KEY)
    cluster.refuse.clear()
    await operator(cluster).reconcile(KEY)
    assert {resource.plural for resource in (DEPLOYMENTS, SERVICES, REVISIONS)} == {
        plural for plural, _, _ in cluster.objects
    } - {SERVICES_WANTED.plural}
    assert status(cluster)["phase"] == "Pending"


async def test_newer_operator_leaves_running_pods_as_they_are(cluster: FakeCluster) -> None:
    await operator(cluster).reconcile(KEY)
    before = template(cluster)
    newer = replace(SETTINGS, default_image="engine:2")
    await operator(cluster, newer).reconcile(KEY)
    assert template(cluster) == before
    edit(cluster, replicas=3)
    await operator(cluster, newer).reconcile(KEY)
    assert template(cluster) == before
    assert cluster.objects[DEPLOYMENTS.plural, *KEY]["spec"]["replicas"] == 3


async def test_next_real_change_brings_what_a_newer_operator_renders(cluster: FakeCluster) -> None:
    await operator(cluster).reconcile(KEY)
    edit(cluster, engine={"maxNumSeqs": 8})
    await operator(cluster, replace(SETTINGS, default_image="engine:2")).reconcile(KEY)
    assert image(cluster) == "engine:2"


async def test_going_back_brings_back_the_kept_template(cluster: FakeCluster) -> None:
    await operator(cluster).reconcile(KEY)
    first = template(cluster)
    edit(cluster, engine={"maxNumSeqs": 8})
    await operator(cluster).reconcile(KEY)
    edit(cluster, engine={})
    await operator(cluster, replace(SETTINGS, default_image="engine:2")).reconcile(KEY)
    assert template(cluster) == first


async def test_old_revisions_are_pruned_and_the_wanted_one_is_kept(cluster: FakeCluster) -> None:
    look = operator(cluster).reconcile
    for seqs in range(1, 10):
        edit(cluster, engine={"maxNumSeqs": seqs})
        await look(KEY)
    edit(cluster, engine={"maxNumSeqs": 5})
    await look(KEY)
    await look(KEY)
    kept = {entry["revision"] for entry in cluster.of(REVISIONS)}
    assert kept == {5, 6, 7, 8, 9}


async def test_paused_service_is_left_as_it_is(cluster: FakeCluster) -> None:
    look = operator(cluster).reconcile
    await look(KEY)
    serve(cluster)
    before = template(cluster)
    edit(cluster, paused=True, replicas=5, engine={"maxNumSeqs": 8})
    await look(KEY)
    assert template(cluster) == before
    assert cluster.objects[DEPLOYMENTS.plural, *KEY]["spec"]["replicas"] == 1
    assert status(cluster)["phase"] == "Paused"


async def test_pause_ends_with_what_was_asked_for_meanwhile(cluster: FakeCluster) -> None:
    look = operator(cluster).reconcile
    edit(cluster, paused=True, replicas=5)
    await look(KEY)
    assert cluster.of(DEPLOYMENTS) == []
    edit(cluster, paused=False)
    await look(KEY)
    assert cluster.objects[DEPLOYMENTS.plural, *KEY]["spec"]["replicas"] == 5


async def test_refused_spec_makes_no_pod_and_says_why(cluster: FakeCluster) -> None:
    edit(cluster, parallelism={"tensor": 4})
    await operator(cluster).reconcile(KEY)
    assert cluster.of(DEPLOYMENTS) == []
    assert (status(cluster)["phase"], status(cluster)["reason"]) == (
        "Blocked",
        "ParallelismUnsupported",
    )


async def test_refused_change_leaves_what_runs_alone(cluster: FakeCluster) -> None:
    look = operator(cluster).reconcile
    await look(KEY)
    before = template(cluster)
    edit(cluster, parallelism={"tensor": 4})
    await look(KEY)
    assert template(cluster) == before
    assert status(cluster)["phase"] == "Blocked"


async def test_spec_of_a_newer_version_is_refused_by_field(cluster: FakeCluster) -> None:
    edit(cluster, turbo=True)
    await operator(cluster).reconcile(KEY)
    assert status(cluster)["reason"] == "InvalidSpec"
    accepted = next(c for c in status(cluster)["conditions"] if c["type"] == "Accepted")
    assert "spec.turbo" in accepted["message"]


async def test_name_that_is_taken_is_said_and_left_alone(cluster: FakeCluster) -> None:
    theirs = {"kind": "Service", "metadata": {"name": "chat", "namespace": "team"}, "spec": {}}
    cluster.put(SERVICES, theirs)
    after = await operator(cluster).reconcile(KEY)
    assert cluster.objects[SERVICES.plural, *KEY]["spec"] == {}
    assert status(cluster)["reason"] == "NameTaken"
    assert after.after_s is not None


async def test_child_that_the_api_server_refuses_is_said_and_tried_again(
    cluster: FakeCluster,
) -> None:
    cluster.refuse["apply deployments"] = ApiError(422, "Invalid", "limits.cpu: too small")
    after = await operator(cluster).reconcile(KEY)
    assert after.is_failure
    assert status(cluster)["reason"] == "ChildRefused"
    ready = next(c for c in status(cluster)["conditions"] if c["type"] == "Ready")
    assert "limits.cpu: too small" in ready["message"]


async def test_child_that_was_deleted_is_made_again(cluster: FakeCluster) -> None:
    look = operator(cluster).reconcile
    await look(KEY)
    reconciler = operator(cluster)
    cluster.drop(SERVICES, *KEY)
    await reconciler.reconcile(KEY)
    assert len(cluster.of(SERVICES)) == 1


async def test_deleted_service_gets_nothing(cluster: FakeCluster) -> None:
    cluster.drop(SERVICES_WANTED, *KEY)
    assert await operator(cluster).reconcile(KEY) == Next()
    assert cluster.writes == []


async def test_service_on_its_way_out_gets_no_new_children(cluster: FakeCluster) -> None:
    raw = raw_service()
    raw["metadata"]["deletionTimestamp"] = T0
    cluster.put(SERVICES_WANTED, raw)
    await operator(cluster).reconcile(KEY)
    assert cluster.writes == []


async def test_crash_reaches_status_with_its_hint(cluster: FakeCluster) -> None:
    look = operator(cluster).reconcile
    await look(KEY)
    revision = cluster.objects[DEPLOYMENTS.plural, *KEY]["metadata"]["labels"][names.LABEL_REVISION]
    said = '{"reason": "CorruptWeights", "message": "model.safetensors", "hint": "copy it again"}'
    crashed = ready_pod("chat-1", revision)
    crashed["status"] = {
        "conditions": [condition("Ready", "False")],
        "containerStatuses": [
            {"name": "engine", "state": {"terminated": {"exitCode": 1, "message": said}}}
        ],
    }
    cluster.put(PODS, crashed)
    await look(KEY)
    assert (status(cluster)["phase"], status(cluster)["reason"]) == ("Failed", "CorruptWeights")
    assert status(cluster)["lastFailure"]["hint"] == "copy it again"
    assert cluster.events() == [("Warning", "CorruptWeights")]
