"""The latest known state of the cluster: kopf's indices, corrected by what they cannot know.

In: the indices; objects as the API server returned them to our own writes; full lists from the
resync. Out: an `Observed` for a service. The corrections are
- our own writes, until the watch has caught up: a second look must not write again;
- objects that a full list no longer has: a watch that was cut off misses deletions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kvasir_operator.cluster import (
    DEPLOYMENTS,
    EVENTS,
    PODS,
    REVISIONS,
    SERVICES,
    SERVICES_WANTED,
    Cluster,
    Resource,
)
from kvasir_operator.model.observed import Object, Observed, labels_of
from kvasir_operator.names import LABEL_SERVICE

Key = tuple[str, str]
"""Namespace and name of an InferenceService."""

WATCHED = (SERVICES_WANTED, DEPLOYMENTS, SERVICES, REVISIONS, PODS)

Indices = Mapping[str, Mapping[Key, Iterable[Object]]]


def key_of(resource: Resource, obj: Mapping[str, Any]) -> Key | None:
    """The InferenceService that an object is, or belongs to."""
    meta = obj["metadata"]
    if not resource.labelled:
        return meta["namespace"], meta["name"]
    owner = (meta.get("labels") or {}).get(LABEL_SERVICE)
    return (meta["namespace"], owner) if owner else None


def slim(obj: Mapping[str, Any]) -> Object:
    """An object without what nobody reads, to keep the memory of large clusters low."""
    meta = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": meta}


def version_of(obj: Mapping[str, Any]) -> int:
    """The resourceVersion as the number it is (Kubernetes guarantees the order since 1.35)."""
    return int(obj["metadata"]["resourceVersion"])


class Store:
    """Indices and their corrections, by resource and key."""

    def __init__(self, indices: Indices) -> None:
        self._indices = indices
        self._newer: dict[tuple[str, Key], dict[str, Object]] = {}
        self._gone: dict[str, set[str]] = {}

    def bind(self, indices: Indices) -> None:
        """Read from these indices from now on."""
        self._indices = indices

    def get(self, resource: Resource, key: Key) -> list[Object]:
        """Every known object of a resource that is, or belongs to, the service `key`."""
        found = {obj["metadata"]["uid"]: obj for obj in self._indexed(resource, key)}
        for uid, obj in self._newer.get((resource.plural, key), {}).items():
            if uid not in found or version_of(obj) > version_of(found[uid]):
                found[uid] = obj
        gone = self._gone.get(resource.plural, set())
        return [obj for uid, obj in found.items() if uid not in gone]

    def wanted(self, key: Key) -> Object | None:
        """The raw InferenceService."""
        return max(self.get(SERVICES_WANTED, key), key=version_of, default=None)

    def wrote(self, resource: Resource, obj: Object) -> None:
        """Remember what the API server answered to a write."""
        key = key_of(resource, obj)
        if key is not None:
            self._newer.setdefault((resource.plural, key), {})[obj["metadata"]["uid"]] = slim(obj)

    def saw(self, resource: Resource, obj: Mapping[str, Any], *, is_deleted: bool) -> None:
        """Drop the correction that an event has caught up with."""
        key = key_of(resource, obj)
        if key is None:
            return
        kept = self._newer.get((resource.plural, key), {})
        newer = kept.get(obj["metadata"]["uid"])
        if newer is not None and (is_deleted or version_of(obj) >= version_of(newer)):
            del kept[obj["metadata"]["uid"]]
        if not kept:
            self._newer.pop((resource.plural, key), None)

    def forget(self, resource: Resource, obj: Mapping[str, Any]) -> None:
        """Remember that an object was deleted by us, or found to be gone."""
        self._gone.setdefault(resource.plural, set()).add(obj["metadata"]["uid"])

    def listed(self, resource: Resource, listings: list[Object]) -> int:
        """Take in full lists, one a watched namespace or one of all.

        Returns how many objects the watch did not know as they are there.
        """
        at = min(int(listing["metadata"]["resourceVersion"]) for listing in listings)
        items: list[Object] = [obj for listing in listings for obj in listing["items"]]
        corrected = sum(self._correct(resource, obj) for obj in items)
        live = {obj["metadata"]["uid"] for obj in items}
        before = self._gone.get(resource.plural, set())
        self._gone[resource.plural] = {
            obj["metadata"]["uid"]
            for obj in self._known(resource)
            if obj["metadata"]["uid"] not in live and version_of(obj) <= at
        }
        return corrected + len(self._gone[resource.plural] - before)

    def _correct(self, resource: Resource, obj: Object) -> bool:
        key = key_of(resource, obj)
        if key is None:
            return False
        uid = obj["metadata"]["uid"]
        mine = next((o for o in self.get(resource, key) if o["metadata"]["uid"] == uid), None)
        if mine is not None and version_of(mine) >= version_of(obj):
            return False
        self.wrote(resource, obj)
        return True

    def _known(self, resource: Resource) -> Iterator[Object]:
        """Every object in the index or among the corrections, dead ones too."""
        for key in list(self._indices.get(resource.plural, {})):
            yield from self._indexed(resource, key)
        for (plural, _), objects in self._newer.items():
            if plural == resource.plural:
                yield from objects.values()

    def _indexed(self, resource: Resource, key: Key) -> list[Object]:
        index = self._indices.get(resource.plural, {})
        return list(index[key]) if key in index else []


def observe(store: Store, key: Key) -> Observed:
    """The children of a service, as far as they are known without asking."""
    return Observed(
        deployment=_named(store.get(DEPLOYMENTS, key), key[1]),
        service=_named(store.get(SERVICES, key), key[1]),
        revisions=tuple(store.get(REVISIONS, key)),
        pods=tuple(store.get(PODS, key)),
    )


def _named(objects: list[Object], name: str) -> Object | None:
    """The child called `name`; of two with the name, one is on its way out: the newer counts."""
    named = [obj for obj in objects if obj["metadata"]["name"] == name]
    return max(named, key=version_of, default=None)


def stuck_on_volumes(observed: Observed, revision_label: tuple[str, str]) -> list[Object]:
    """Pods that have a node and no volumes yet: they alone are worth asking Events about."""
    label, revision = revision_label
    return [
        pod
        for pod in observed.pods
        if labels_of(pod).get(label) == revision
        and not pod["metadata"].get("deletionTimestamp")
        and _is_creating(pod)
    ]


def _is_creating(pod: Object) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return any(
        ((entry.get("state") or {}).get("waiting") or {}).get("reason") == "ContainerCreating"
        for entry in statuses
    )


async def mount_failures(cluster: Cluster, pods: Iterable[Object]) -> dict[str, str]:
    """Why volumes of `pods` do not mount, by pod name, from the kubelet's Events."""
    found: dict[str, str] = {}
    for pod in pods:
        meta = pod["metadata"]
        selector = f"involvedObject.uid={meta['uid']},reason=FailedMount"
        listing = await cluster.list(EVENTS, meta["namespace"], fieldSelector=selector)
        if listing["items"]:
            found[meta["name"]] = listing["items"][-1].get("message", "")
    return found
