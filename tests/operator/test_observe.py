"""The store: own writes are seen at once, missed deletions are found by a full list."""

from typing import Any

from kvasir_operator import names
from kvasir_operator.cluster import PODS, SERVICES_WANTED
from kvasir_operator.observe import Store, key_of, observe, slim
from support.objects import deployment, pod, raw_service

KEY = ("team", "chat")


def at(version: int, obj: dict[str, Any]) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(version)}}


def store(*pods: dict[str, Any]) -> Store:
    return Store({PODS.plural: {KEY: list(pods)}})


def versions(held: Store) -> list[str]:
    return [obj["metadata"]["resourceVersion"] for obj in held.get(PODS, KEY)]


def listing(version: int, *items: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": str(version)}, "items": list(items)}


def test_own_write_counts_until_the_watch_has_caught_up() -> None:
    held = store(at(5, pod()))
    held.wrote(PODS, at(7, pod()))
    assert versions(held) == ["7"]
    held.saw(PODS, at(6, pod()), is_deleted=False)
    assert versions(held) == ["7"]
    held.saw(PODS, at(7, pod()), is_deleted=False)
    assert versions(held) == ["5"]


def test_newer_event_wins_over_an_own_write() -> None:
    held = store(at(9, pod()))
    held.wrote(PODS, at(7, pod()))
    assert versions(held) == ["9"]


def test_own_write_to_an_object_that_was_deleted_is_forgotten() -> None:
    held = store()
    held.wrote(PODS, at(7, pod()))
    held.saw(PODS, at(6, pod()), is_deleted=True)
    assert versions(held) == []


def test_list_buries_what_the_watch_did_not_see_go() -> None:
    held = store(at(5, pod("a")), at(5, pod("b")))
    assert held.listed(PODS, [listing(10, at(5, pod("b")))]) == 1
    assert [obj["metadata"]["name"] for obj in held.get(PODS, KEY)] == ["b"]


def test_list_brings_what_the_watch_did_not_see_come() -> None:
    held = store()
    assert held.listed(PODS, [listing(10, at(8, pod()))]) == 1
    assert versions(held) == ["8"]
    assert held.listed(PODS, [listing(11, at(8, pod()))]) == 0


def test_list_says_nothing_about_objects_newer_than_itself() -> None:
    held = store(at(12, pod()))
    assert held.listed(PODS, [listing(10)]) == 0
    assert versions(held) == ["12"]


def test_object_of_the_same_uid_that_lives_is_never_buried() -> None:
    held = store(at(5, pod()))
    held.listed(PODS, [listing(10)])
    held.listed(PODS, [listing(12, at(11, pod()))])
    assert versions(held) == ["11"]


def test_of_two_generations_of_a_child_the_newer_counts() -> None:
    old, new = deployment(), deployment()
    old["metadata"]["uid"] = "old"
    held = Store({"deployments": {KEY: [at(3, old), at(9, new)]}})
    found = observe(held, KEY).deployment
    assert found is not None
    assert found["metadata"]["uid"] == "uid-deployment"


def test_objects_belong_to_the_service_their_label_names() -> None:
    assert key_of(PODS, pod()) == KEY
    assert key_of(SERVICES_WANTED, raw_service()) == KEY
    stranger = pod()
    del stranger["metadata"]["labels"][names.LABEL_SERVICE]
    assert key_of(PODS, stranger) is None


def test_managed_fields_are_not_kept() -> None:
    obj = pod()
    obj["metadata"]["managedFields"] = [{"manager": "x"}]
    assert "managedFields" not in slim(obj)["metadata"]
