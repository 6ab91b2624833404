"""What changed from one status to the next: whether it can wait, and what deserves an Event."""

from __future__ import annotations

from typing import Any, NamedTuple

Status = dict[str, Any]


class Notice(NamedTuple):
    """An Event to post."""

    kind: str
    reason: str
    message: str


def is_urgent(before: Status, after: Status) -> bool:
    """True where clients wait for it: another generation, or Ready came or went."""
    return before.get("observedGeneration") != after["observedGeneration"] or _ready(
        before
    ) != _ready(after)


def notices(before: Status, after: Status) -> list[Notice]:
    """Events for the transitions a user wants to find later; few on purpose."""
    if _ready(after) == "True":
        came = _ready(before) != "True"
        return [Notice("Normal", "Ready", f"serving at {after['url']}")] if came else []
    if after["reason"] != before.get("reason") and _is_trouble(after):
        return [Notice("Warning", after["reason"], _condition(after, "Ready")["message"])]
    return []


def _is_trouble(status: Status) -> bool:
    failure = status.get("lastFailure") or {}
    return bool(status["phase"] == "Blocked" or failure.get("reason") == status["reason"])


def _ready(status: Status) -> str | None:
    return _condition(status, "Ready").get("status")


def _condition(status: Status, kind: str) -> Status:
    entries: list[Status] = status.get("conditions") or []
    return next((entry for entry in entries if entry["type"] == kind), {})
