"""The conditions: Ready, Accepted, Scheduled, Available, Progressing."""

from __future__ import annotations

from typing import Any, NamedTuple

from kvasir_operator.model.observed import condition_of, labels_of
from kvasir_operator.model.outcome import Outcome
from kvasir_operator.names import LABEL_REVISION
from kvasir_operator.status.counts import Counts
from kvasir_operator.status.phase import State


class Claim(NamedTuple):
    """One condition before it gets its generation and time."""

    type: str
    status: str
    reason: str
    message: str


def conditions(outcome: Outcome, counts: Counts, state: State, now: str) -> list[dict[str, Any]]:
    """All conditions; lastTransitionTime moves only where status does."""
    claims = (
        _ready(outcome, counts, state),
        _accepted(outcome),
        _scheduled(outcome),
        _available(counts),
        _progressing(counts, state),
    )
    before = {entry["type"]: entry for entry in outcome.previous.get("conditions") or []}
    return [
        _stamped(claim, before.get(claim.type), outcome.ref.generation, now) for claim in claims
    ]


def _ready(outcome: Outcome, counts: Counts, state: State) -> Claim:
    """True only if the current generation is fully rolled out and a pod of it answers."""
    if outcome.refusal is None and counts.is_rolled_out and counts.ready_updated > 0:
        return Claim(
            "Ready", "True", "Serving", f"{counts.ready_updated} of {counts.wanted} pods answer"
        )
    return Claim("Ready", "False", state.reason or "NotReady", state.message)


def _accepted(outcome: Outcome) -> Claim:
    if outcome.refusal is not None:
        return Claim("Accepted", "False", outcome.refusal.reason, outcome.refusal.message)
    return Claim("Accepted", "True", "Accepted", "the spec can be run")


def _scheduled(outcome: Outcome) -> Claim:
    seen = [
        condition_of(pod, "PodScheduled") or {}
        for pod in outcome.observed.pods
        if labels_of(pod).get(LABEL_REVISION) == outcome.revision
        and not pod["metadata"].get("deletionTimestamp")
    ]
    waiting = next((entry for entry in seen if entry.get("reason") == "Unschedulable"), None)
    if waiting is not None:
        return Claim("Scheduled", "False", "Unschedulable", waiting.get("message", ""))
    if seen and all(entry.get("status") == "True" for entry in seen):
        return Claim("Scheduled", "True", "Scheduled", "every pod has a node")
    return Claim("Scheduled", "Unknown", "NoPods", "no pod has been placed yet")


def _available(counts: Counts) -> Claim:
    if counts.ready > 0:
        return Claim("Available", "True", "PodsAnswer", "a pod answers")
    return Claim("Available", "False", "NoPodAnswers", "no pod answers")


def _progressing(counts: Counts, state: State) -> Claim:
    if state.phase in ("Blocked", "Paused"):
        return Claim("Progressing", "False", state.reason, state.message)
    if counts.is_rolled_out and counts.ready_updated >= counts.wanted:
        return Claim("Progressing", "False", "Complete", "every wanted pod is there")
    if state.reason == "StartupTimedOut":
        return Claim("Progressing", "False", state.reason, state.message)
    return Claim("Progressing", "True", "RollingOut", "pods are being brought to what is wanted")


def _stamped(
    claim: Claim, before: dict[str, Any] | None, generation: int, now: str
) -> dict[str, Any]:
    same = before is not None and before.get("status") == claim.status
    return {
        "type": claim.type,
        "status": claim.status,
        "reason": claim.reason,
        "message": claim.message,
        "observedGeneration": generation,
        "lastTransitionTime": before["lastTransitionTime"] if same and before else now,
    }
