"""The state in one word, and why, in another and a sentence."""

from __future__ import annotations

from typing import NamedTuple

from kvasir_operator.model.observed import condition_of, labels_of
from kvasir_operator.model.outcome import Outcome
from kvasir_operator.names import LABEL_REVISION
from kvasir_operator.status.counts import Counts


class State(NamedTuple):
    """Phase, reason (empty when Ready) and the reason's sentence."""

    phase: str
    reason: str
    message: str


def state(outcome: Outcome, counts: Counts) -> State:
    """Judge an outcome; the first that holds of what matters most to the user."""
    if outcome.refusal is not None:
        return State("Blocked", outcome.refusal.reason, outcome.refusal.message)
    if outcome.paused:
        return State(
            "Paused", "Paused", "spec.paused is true: nothing is changed until it is false"
        )
    if counts.is_rolled_out and outcome.replicas == 0:
        return State("Pending", "ScaledToZero", "replicas is 0: nothing serves")
    if counts.is_rolled_out and counts.ready_updated >= counts.wanted:
        return State("Ready", "", f"{counts.ready_updated} of {counts.wanted} pods answer")
    return _unfinished(outcome, counts)


def _unfinished(outcome: Outcome, counts: Counts) -> State:
    """Some wanted pod does not answer yet, or an old one is still there."""
    failure = outcome.failure
    if failure is not None:
        down = "Pending" if failure.waiting else "Failed"
        phase = "Degraded" if counts.ready > 0 else down
        return State(phase, failure.reason, f"{failure.message}; {failure.hint}")
    if counts.deadline_exceeded:
        reason, message = (
            "StartupTimedOut",
            (
                "the pods did not become ready in time: a slow start needs a larger "
                "lifecycle.startupTimeoutSeconds"
            ),
        )
        return State("Degraded" if counts.ready else "Failed", reason, message)
    return _underway(outcome, counts)


def _underway(outcome: Outcome, counts: Counts) -> State:
    progress = f"{counts.ready_updated} of {counts.wanted} pods of the current template answer"
    if counts.is_rolled_out and counts.ready_updated > 0:
        return State("Degraded", "PodsNotReady", progress)
    if counts.ready > 0:
        return State("Updating", "RollingOut", progress)
    if _has_node(outcome):
        return State("Starting", "PodsStarting", progress)
    return State("Pending", "PodsPending", progress)


def _has_node(outcome: Outcome) -> bool:
    scheduled = (
        condition_of(pod, "PodScheduled")
        for pod in outcome.observed.pods
        if labels_of(pod).get(LABEL_REVISION) == outcome.revision
    )
    return any(entry is not None and entry.get("status") == "True" for entry in scheduled)
