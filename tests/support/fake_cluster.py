"""An API server in memory, as far as the operator's writes and reads need one.

It keeps what a real one promises: resourceVersions grow by one for the whole server and only on a
change, generations by one on a change of spec, an apply with nothing new changes nothing.
"""

import copy
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from kvasir_operator.cluster import EVENTS, Resource
from kvasir_operator.errors import ApiError
from kvasir_operator.observe import WATCHED, Indices, Key, key_of

Object = dict[str, Any]


class FakeCluster:
    """Objects by resource, namespace and name; and a list of every write request."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.writes: list[str] = []
        self.refuse: dict[str, ApiError] = {}
        self._versions = itertools.count(100)

    def put(self, resource: Resource, obj: Object) -> Object:
        """Store an object as somebody else's write."""
        obj = copy.deepcopy(obj)
        obj["metadata"]["resourceVersion"] = str(next(self._versions))
        obj["metadata"].setdefault("uid", f"uid-{obj['metadata']['resourceVersion']}")
        obj["metadata"].setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        self.objects[self._key(resource, obj)] = obj
        return obj

    def drop(self, resource: Resource, namespace: str, name: str) -> None:
        """Delete an object as somebody else."""
        del self.objects[resource.plural, namespace, name]

    def of(self, resource: Resource) -> Sequence[Object]:
        """All objects of a resource."""
        return [obj for (plural, _, _), obj in self.objects.items() if plural == resource.plural]

    async def list(self, resource: Resource, namespace: str | None, **query: str) -> Object:
        items = [
            obj for obj in self.of(resource) if namespace in (None, obj["metadata"]["namespace"])
        ]
        version = str(next(self._versions))
        return {"metadata": {"resourceVersion": version}, "items": copy.deepcopy(items)}

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        return copy.deepcopy(self.objects.get((resource.plural, namespace, name)))

    async def create(self, resource: Resource, obj: Object) -> Object:
        self._write(f"create {resource.plural}")
        obj = copy.deepcopy(obj)
        if "generateName" in obj["metadata"]:
            obj["metadata"]["name"] = f"{obj['metadata']['generateName']}{next(self._versions)}"
        if self._key(resource, obj) in self.objects:
            raise ApiError(409, "AlreadyExists", f"{obj['metadata']['name']} already exists")
        obj["metadata"]["generation"] = 1
        return copy.deepcopy(self.put(resource, obj))

    async def apply(self, resource: Resource, obj: Object, subresource: str = "") -> Object:
        self._write(f"apply {resource.plural}{'/' if subresource else ''}{subresource}")
        live = self.objects.get(self._key(resource, obj))
        if live is None and subresource:
            raise ApiError(404, "NotFound", "not found")
        if live is None:
            fresh = {**obj, "metadata": {**obj["metadata"], "generation": 1}}
            return copy.deepcopy(self.put(resource, fresh))
        return copy.deepcopy(self._merge(resource, live, obj, subresource))

    async def delete(self, resource: Resource, namespace: str, name: str) -> None:
        self._write(f"delete {resource.plural}")
        self.objects.pop((resource.plural, namespace, name), None)

    def events(self) -> Sequence[tuple[str, str]]:
        """Type and reason of every Event."""
        return [(event["type"], event["reason"]) for event in self.of(EVENTS)]

    def _merge(self, resource: Resource, live: Object, obj: Object, subresource: str) -> Object:
        if subresource:
            after = {**live, subresource: obj[subresource]}
        else:
            meta = {**live["metadata"], **obj["metadata"]}
            after = {**live, **obj, "metadata": meta}
            if after.get("spec") != live.get("spec"):
                meta["generation"] = live["metadata"].get("generation", 1) + 1
        return live if after == live else self.put(resource, after)

    def _write(self, what: str) -> None:
        if error := self.refuse.get(what):
            raise error
        self.writes.append(what)

    @staticmethod
    def _key(resource: Resource, obj: Object) -> tuple[str, str, str]:
        return resource.plural, obj["metadata"]["namespace"], obj["metadata"]["name"]


class LiveIndex:
    """What kopf's index of a resource would hold once the watch has caught up."""

    def __init__(self, cluster: FakeCluster, resource: Resource) -> None:
        self._cluster = cluster
        self._resource = resource

    def _by_key(self) -> dict[Key, list[Object]]:
        found: dict[Key, list[Object]] = {}
        for obj in self._cluster.of(self._resource):
            key = key_of(self._resource, obj)
            if key is not None:
                found.setdefault(key, []).append(copy.deepcopy(obj))
        return found

    def __getitem__(self, key: Key) -> list[Object]:
        return self._by_key()[key]

    def __contains__(self, key: object) -> bool:
        return key in self._by_key()

    def __iter__(self) -> Iterator[Key]:
        return iter(self._by_key())


def live_indices(cluster: FakeCluster) -> Indices:
    """Indices without any delay."""
    return {resource.plural: LiveIndex(cluster, resource) for resource in WATCHED}  # type: ignore[misc]
