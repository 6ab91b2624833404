"""Brings a child to what is wanted, by server-side apply, and only when it is not there already.

In: the wanted object and the live one. Out: the live object after it. It never takes over an
object that is somebody else's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from kvasir_operator import names
from kvasir_operator.cluster import Cluster, Object, Resource
from kvasir_operator.errors import NameTaken, Waiting
from kvasir_operator.model.service import Ref

OLD_CHILD_RETRY_S = 1.0

QUANTITY = re.compile(r"^([0-9]+(?:\.[0-9]+)?)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$")
FACTORS = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
}


class Applier:
    """Applies children; remembers what it settled, so that it never repeats a write in vain."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._settled: dict[str, tuple[str, object]] = {}

    async def ensure(
        self, ref: Ref, resource: Resource, wanted: Object, live: Object | None
    ) -> Object | None:
        """Make `wanted` so; the new live object, None if nothing had to be written.

        Raises:
            NameTaken: the name is used by an object that is not this service's.
            Waiting: an older service of the same name is still being cleaned away.
            ApiError: the API server refuses it.
        """
        if live is None:
            meta = wanted["metadata"]
            live = await self._cluster.get(resource, meta["namespace"], meta["name"])
        if live is not None:
            check_owner(ref, live)
            if self._is_settled(wanted, live):
                return None
        after = await self._cluster.apply(resource, wanted)
        self._settled[after["metadata"]["uid"]] = (_mark(wanted), _edition(after))
        return after

    def forget(self, obj: Mapping[str, Any]) -> None:
        """Drop what is remembered of a deleted object."""
        self._settled.pop(obj["metadata"]["uid"], None)

    def _is_settled(self, wanted: Object, live: Object) -> bool:
        if _mark(live) != _mark(wanted):
            return False
        settled = self._settled.get(live["metadata"]["uid"])
        return settled == (_mark(wanted), _edition(live)) or contains(live, wanted)


def check_owner(ref: Ref, live: Object) -> None:
    """Refuse to touch an object that is not the service's.

    Raises:
        NameTaken: it belongs to somebody else.
        Waiting: it belongs to an older service of the same name, which is gone.
    """
    owners = live["metadata"].get("ownerReferences") or []
    owner = next((entry for entry in owners if entry.get("controller")), None)
    what = f"{live.get('kind', 'object')} {live['metadata']['name']}"
    if owner is not None and owner["uid"] == ref.uid:
        if live["metadata"].get("deletionTimestamp"):
            raise Waiting(f"{what} is being deleted", OLD_CHILD_RETRY_S)
        return
    if owner is not None and owner.get("kind") == names.KIND and owner.get("name") == ref.name:
        raise Waiting(f"{what} of an older {ref.name} is being deleted", OLD_CHILD_RETRY_S)
    labels = live["metadata"].get("labels") or {}
    if owner is None and labels.get(names.LABEL_SERVICE) == ref.name:
        return  # left behind by a deletion with --cascade=orphan: ours to take again
    raise NameTaken(
        f"{what} exists already and is not Kvasir's: delete it, or give the InferenceService "
        "another name"
    )


def contains(live: Any, wanted: Any) -> bool:
    """Whether `live` has all of `wanted`; what the server or others added is left alone."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(
            contains(live.get(key), value) if value not in ({}, []) else key in live or not value
            for key, value in wanted.items()
        )
    if isinstance(wanted, list) and any(isinstance(item, dict) for item in wanted):
        return isinstance(live, list) and all(
            any(contains(candidate, item) for candidate in live) for item in wanted
        )
    return bool(live == wanted) or _same_quantity(live, wanted)


def _same_quantity(left: Any, right: Any) -> bool:
    """1000m is 1, 1024Mi is 1Gi: the API server writes quantities its own way."""
    parsed = [_quantity(left), _quantity(right)]
    return None not in parsed and parsed[0] == parsed[1]


def _quantity(value: Any) -> Decimal | None:
    if not isinstance(value, str | int) or isinstance(value, bool):
        return None
    match = QUANTITY.match(str(value))
    return Decimal(match[1]) * FACTORS[match[2] or ""] if match else None


def _mark(obj: Object) -> str:
    annotations = obj["metadata"].get("annotations") or {}
    return str(annotations.get(names.ANNOTATION_APPLIED, ""))


def _edition(obj: Object) -> object:
    """What changes when the spec does: generation, or resourceVersion where there is none."""
    return obj["metadata"].get("generation") or obj["metadata"]["resourceVersion"]
