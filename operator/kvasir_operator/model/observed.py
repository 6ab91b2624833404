"""What was seen of a service's children, as plain dicts from the API server's JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Observed:
    """The children of one service at one moment."""

    deployment: Object | None = None
    service: Object | None = None
    revisions: tuple[Object, ...] = ()
    pods: tuple[Object, ...] = ()
    mount_failures: dict[str, str] = field(default_factory=dict)
    """Pod name → why its volumes cannot be mounted, from the kubelet's Events."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What keeps, or kept, a pod from serving."""

    reason: str
    message: str
    hint: str
    pod: str | None = None
    container: str | None = None
    exit_code: int | None = None
    time: str | None = None
    waiting: bool = False
    """True when nothing ended: the pod waits for a node, an image or a volume."""


def labels_of(obj: Object) -> dict[str, str]:
    """The labels of an object, empty if it has none."""
    labels: dict[str, str] = obj["metadata"].get("labels") or {}
    return labels


def condition_of(obj: Object, kind: str) -> Object | None:
    """The status condition `kind` of a raw object."""
    conditions: list[Object] = (obj.get("status") or {}).get("conditions") or []
    return next((entry for entry in conditions if entry.get("type") == kind), None)
