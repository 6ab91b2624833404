"""Diagnosis: the children as observed in; what keeps a pod from serving, and a hint, out.

Pure: no client, no clock. Causes are looked for where Kubernetes puts them, nearest to the user's
fault first: a container that ended or waits, a pod no node takes, a volume that does not mount,
a Deployment that may not create pods.
"""

from __future__ import annotations

from kvasir_operator.diagnose.containers import container_failure
from kvasir_operator.diagnose.pods import mount_failure, pod_failure, refused_pods
from kvasir_operator.model.observed import Failure, Object, Observed, condition_of, labels_of
from kvasir_operator.names import LABEL_REVISION

__all__ = ["find_failure"]


def find_failure(observed: Observed, revision: str) -> Failure | None:
    """What keeps the pods of template `revision` from serving; None when nothing is known to."""
    for pod in _newest_first(observed.pods, revision):
        failure = (
            container_failure(pod)
            or pod_failure(pod)
            or mount_failure(pod, observed.mount_failures)
        )
        if failure is not None:
            return failure
    return refused_pods(observed.deployment)


def _newest_first(pods: tuple[Object, ...], revision: str) -> list[Object]:
    """Pods of the template that do not serve and are not on their way out."""
    troubled = [
        pod
        for pod in pods
        if labels_of(pod).get(LABEL_REVISION) == revision
        and not pod["metadata"].get("deletionTimestamp")
        and not _is_ready(pod)
    ]
    return sorted(
        troubled,
        key=lambda pod: (pod["metadata"].get("creationTimestamp", ""), pod["metadata"]["name"]),
        reverse=True,
    )


def _is_ready(pod: Object) -> bool:
    condition = condition_of(pod, "Ready")
    return condition is not None and condition.get("status") == "True"
