"""How many pods there are, of which template, and whether they are the ones that are wanted."""

from __future__ import annotations

from dataclasses import dataclass

from kvasir_operator.model.observed import Observed, condition_of, labels_of
from kvasir_operator.model.outcome import Outcome
from kvasir_operator.names import LABEL_REVISION


@dataclass(frozen=True, slots=True)
class Counts:
    """Pod counts of the Deployment, as far as its controller has seen what was applied."""

    wanted: int
    replicas: int
    updated: int
    ready: int
    """Pods that answer, of any template."""
    ready_updated: int
    """Pods of the wanted template that answer."""
    is_current: bool
    """The Deployment carries the wanted template and scale, and its controller has seen it."""
    deadline_exceeded: bool

    @property
    def is_rolled_out(self) -> bool:
        """Every wanted pod exists with the wanted template, and no other pod is left."""
        return self.is_current and self.updated == self.wanted and self.replicas == self.wanted


def count(outcome: Outcome) -> Counts:
    """Count the pods of an outcome."""
    deployment = outcome.observed.deployment
    if deployment is None:
        return Counts(outcome.replicas, 0, 0, 0, 0, is_current=False, deadline_exceeded=False)
    status = deployment.get("status") or {}
    is_current = _is_current(outcome)
    ready_updated = _ready_updated(outcome.observed, outcome.revision)
    return Counts(
        wanted=outcome.replicas,
        replicas=status.get("replicas", 0),
        updated=status.get("updatedReplicas", 0) if is_current else 0,
        ready=status.get("readyReplicas", 0),
        ready_updated=min(status.get("readyReplicas", 0), ready_updated),
        is_current=is_current,
        deadline_exceeded=is_current and _deadline_exceeded(outcome.observed),
    )


def _is_current(outcome: Outcome) -> bool:
    deployment = outcome.observed.deployment
    if deployment is None or not outcome.revision:
        return False
    seen = (deployment.get("status") or {}).get("observedGeneration", 0)
    return bool(
        labels_of(deployment).get(LABEL_REVISION) == outcome.revision
        and deployment["spec"].get("replicas") == outcome.replicas
        and seen >= deployment["metadata"].get("generation", 0)
    )


def _ready_updated(observed: Observed, revision: str) -> int:
    ready = 0
    for pod in observed.pods:
        condition = condition_of(pod, "Ready")
        if (
            labels_of(pod).get(LABEL_REVISION) == revision
            and not pod["metadata"].get("deletionTimestamp")
            and condition is not None
            and condition.get("status") == "True"
        ):
            ready += 1
    return ready


def _deadline_exceeded(observed: Observed) -> bool:
    progressing = condition_of(observed.deployment, "Progressing") if observed.deployment else None
    return progressing is not None and progressing.get("reason") == "ProgressDeadlineExceeded"
