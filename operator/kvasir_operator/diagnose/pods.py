"""Failures of whole pods: no node takes it, the node threw it out, its volumes do not mount,
or it may not be created at all."""

from __future__ import annotations

from kvasir_operator.diagnose.hints import hint_for
from kvasir_operator.diagnose.termination import MESSAGE_MAX_LENGTH
from kvasir_operator.model.observed import Failure, Object, condition_of
from kvasir_operator.names import GPU_RESOURCE


def pod_failure(pod: Object) -> Failure | None:
    """An unschedulable or evicted pod."""
    status = pod.get("status") or {}
    if status.get("phase") == "Failed":
        reason = status.get("reason") or "PodFailed"
        return _failure(pod, reason, status.get("message") or "the pod failed", None)
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled is None or scheduled.get("reason") != "Unschedulable":
        return None
    message = scheduled.get("message") or "no node takes the pod"
    return _failure(pod, _why_unschedulable(message), message, scheduled.get("lastTransitionTime"))


def mount_failure(pod: Object, mount_failures: dict[str, str]) -> Failure | None:
    """A pod on a node that waits for its volumes."""
    message = mount_failures.get(pod["metadata"]["name"])
    return _failure(pod, "VolumeMountFailed", message, None) if message else None


def refused_pods(deployment: Object | None) -> Failure | None:
    """A Deployment that may not create its pods: a quota, a pod security standard."""
    condition = condition_of(deployment, "ReplicaFailure") if deployment else None
    if condition is None or condition.get("status") != "True":
        return None
    return Failure(
        reason="PodsRefused",
        message=condition.get("message", "")[:MESSAGE_MAX_LENGTH],
        hint=hint_for("PodsRefused", ""),
        time=condition.get("lastTransitionTime"),
        waiting=True,
    )


def _why_unschedulable(message: str) -> str:
    if "persistentvolumeclaim" in message and "not found" in message:
        return "ClaimNotFound"
    if "unbound immediate PersistentVolumeClaims" in message:
        return "ClaimNotBound"
    if f"Insufficient {GPU_RESOURCE}" in message:
        return "GPUUnavailable"
    return "Unschedulable"


def _failure(pod: Object, reason: str, message: str, time: str | None) -> Failure:
    return Failure(
        reason=reason,
        message=message[:MESSAGE_MAX_LENGTH],
        hint=hint_for(reason, pod["metadata"]["name"]),
        pod=pod["metadata"]["name"],
        time=time,
        waiting=True,
    )
