"""Applying: only what differs is written, and nobody else's object is touched."""

from typing import Any

import pytest

from kvasir_operator import render
from kvasir_operator.apply import Applier, check_owner, contains
from kvasir_operator.cluster import SERVICES
from kvasir_operator.errors import NameTaken, Waiting
from kvasir_operator.model.service import Ref
from support.fake_cluster import FakeCluster

REF = Ref("team", "chat", "uid-chat", 1)
WANTED = render.service(REF)


async def applied(cluster: FakeCluster) -> dict[str, Any]:
    live = await Applier(cluster).ensure(REF, SERVICES, WANTED, None)  # type: ignore[arg-type]
    assert live is not None
    return live


async def test_what_is_there_is_not_written_again_after_a_restart() -> None:
    cluster = FakeCluster()
    live = await applied(cluster)
    assert await Applier(cluster).ensure(REF, SERVICES, WANTED, live) is None  # type: ignore[arg-type]
    assert cluster.writes == ["apply services"]


async def test_what_somebody_changed_is_put_right() -> None:
    cluster = FakeCluster()
    live = await applied(cluster)
    live["spec"]["selector"] = {"app": "other"}
    after = await Applier(cluster).ensure(REF, SERVICES, WANTED, live)  # type: ignore[arg-type]
    assert after is not None


async def test_field_that_is_no_longer_wanted_is_taken_out() -> None:
    cluster = FakeCluster()
    live = await applied(cluster)
    more = {**WANTED, "spec": {**WANTED["spec"], "sessionAffinity": "ClientIP"}}
    live = {**render.metadata.marked(more), "metadata": {
        **live["metadata"], "annotations": render.metadata.marked(more)["metadata"]["annotations"]
    }}  # fmt: skip
    assert contains(live, {**WANTED, "metadata": {}})
    assert await Applier(cluster).ensure(REF, SERVICES, WANTED, live) is not None  # type: ignore[arg-type]


async def test_value_that_the_server_writes_its_own_way_is_not_fought_over() -> None:
    cluster = FakeCluster()
    applier = Applier(cluster)  # type: ignore[arg-type]
    live = await applier.ensure(REF, SERVICES, WANTED, None)
    assert live is not None
    live["spec"]["type"] = "clusterip"
    assert await applier.ensure(REF, SERVICES, WANTED, live) is None


def owned(**meta: Any) -> dict[str, Any]:
    return {"kind": "Service", "metadata": {"name": "chat", **meta}}


def owner(uid: str, name: str = "chat") -> list[dict[str, Any]]:
    return [{"kind": "InferenceService", "name": name, "uid": uid, "controller": True}]


def test_own_child_may_be_changed() -> None:
    check_owner(REF, owned(ownerReferences=owner("uid-chat")))


def test_orphan_of_a_service_of_the_name_is_taken_again() -> None:
    check_owner(REF, owned(labels={"kvasir.dev/inferenceservice": "chat"}))


@pytest.mark.parametrize(
    "live",
    [
        owned(ownerReferences=owner("uid-before")),
        owned(ownerReferences=owner("uid-chat"), deletionTimestamp="2026-01-01T00:00:00Z"),
    ],
    ids=["an older service's", "on its way out"],
)
def test_child_that_is_about_to_go_is_waited_for(live: dict[str, Any]) -> None:
    with pytest.raises(Waiting):
        check_owner(REF, live)


@pytest.mark.parametrize("live", [owned(), owned(ownerReferences=owner("x", "other"))])
def test_somebody_elses_object_is_left_alone(live: dict[str, Any]) -> None:
    with pytest.raises(NameTaken, match="another name"):
        check_owner(REF, live)


@pytest.mark.parametrize(
    ("live", "wanted"),
    [
        ({"a": 1, "b": 2}, {"a": 1}),
        ({"cpu": "1"}, {"cpu": "1000m"}),
        ({"memory": "1Gi"}, {"memory": "1024Mi"}),
        ({"list": [{"name": "x", "more": 1}, {"name": "y"}]}, {"list": [{"name": "x"}]}),
        ({"args": ["a", "b"]}, {"args": ["a", "b"]}),
        ({}, {"annotations": {}}),
        ({"emptyDir": {}}, {"emptyDir": {}}),
    ],
)
def test_live_object_has_what_is_wanted(live: Any, wanted: Any) -> None:
    assert contains(live, wanted)


@pytest.mark.parametrize(
    ("live", "wanted"),
    [
        ({"a": 1}, {"a": 2}),
        ({}, {"a": 1}),
        ({"cpu": "2"}, {"cpu": "1000m"}),
        ({"args": ["a"]}, {"args": ["a", "b"]}),
        ({"list": [{"name": "x"}]}, {"list": [{"name": "y"}]}),
        ({"flag": True}, {"flag": False}),
        ({"a": "text"}, {"a": {"b": 1}}),
    ],
)
def test_live_object_lacks_something(live: Any, wanted: Any) -> None:
    assert not contains(live, wanted)
