"""Failures of the containers in a pod: one that ended, or one that cannot be started."""

from __future__ import annotations

import re

from kvasir_operator.diagnose.hints import hint_for
from kvasir_operator.diagnose.termination import MESSAGE_MAX_LENGTH, read_termination
from kvasir_operator.model.observed import Failure, Object, condition_of

HARMLESS_WAITS = {"ContainerCreating", "PodInitializing", "CrashLoopBackOff"}
PULL_REASONS = {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "RegistryUnavailable"}
BACK_OFF = re.compile(r'^Back-off pulling image "[^"]*"(: ErrImagePull)?:? *')
KUBELET_WORDS = {"Error", "Completed"}


def container_failure(pod: Object) -> Failure | None:
    """What ended, or keeps from starting, a container of `pod`."""
    for container in (pod.get("status") or {}).get("containerStatuses") or []:
        failure = _waiting(pod, container) or _ended(pod, container)
        if failure is not None:
            return failure
    return None


def _waiting(pod: Object, container: Object) -> Failure | None:
    waiting = (container.get("state") or {}).get("waiting") or {}
    reason = waiting.get("reason")
    if not reason or reason in HARMLESS_WAITS:
        return None
    message = waiting.get("message", "")
    if reason == "RunContainerError":
        reason = "StartError"  # what the kubelet calls it a moment later
    if reason in PULL_REASONS:
        reason, message = "ImagePullBackOff", _pull_message(container, message)
    return Failure(
        reason=reason,
        message=message[:MESSAGE_MAX_LENGTH],
        hint=hint_for(reason, pod["metadata"]["name"]),
        pod=pod["metadata"]["name"],
        container=container["name"],
        waiting=True,
    )


def _pull_message(container: Object, message: str) -> str:
    """The kubelet alternates between two reasons for one fault: say it in the same words."""
    detail = BACK_OFF.sub("", message)
    image = container.get("image", "")
    return (
        f"image {image} cannot be pulled: {detail}" if detail else f"image {image} cannot be pulled"
    )


def _ended(pod: Object, container: Object) -> Failure | None:
    """The container's end: now, or before the restart that has not served yet."""
    now = (container.get("state") or {}).get("terminated")
    if now:
        return _termination(pod, container, now)
    before = (container.get("lastState") or {}).get("terminated")
    if before and not _served_since_restart(pod, container):
        return _termination(pod, container, before)
    return None


def _served_since_restart(pod: Object, container: Object) -> bool:
    """The pod left Ready after the container's last start, so it had been Ready in between."""
    started = ((container.get("state") or {}).get("running") or {}).get("startedAt", "")
    left_ready = (condition_of(pod, "Ready") or {}).get("lastTransitionTime", "")
    return bool(started) and str(left_ready) > str(started)


def _termination(pod: Object, container: Object, terminated: Object) -> Failure:
    said = read_termination(terminated.get("message") or "")
    code = terminated.get("exitCode")
    reason = _reason(said.reason, terminated.get("reason") or "")
    return Failure(
        reason=reason,
        message=said.message or f"the container ended with exit code {code}",
        hint=said.hint or hint_for(reason, pod["metadata"]["name"], code),
        pod=pod["metadata"]["name"],
        container=container["name"],
        exit_code=code,
        time=terminated.get("finishedAt"),
    )


def _reason(said: str | None, kubelet: str) -> str:
    """The engine's word, unless the kernel ended it; the kubelet's vaguest words get a better."""
    if kubelet == "OOMKilled":
        return kubelet
    if said:
        return said
    return "ContainerExited" if kubelet in KUBELET_WORDS or not kubelet else kubelet
