"""The cause of a pod that does not serve, as users find it in status.lastFailure."""

import json
from typing import Any

import pytest

from kvasir_operator.diagnose import find_failure
from kvasir_operator.model.observed import Failure, Observed
from support.objects import T0, T1, condition, container, deployment, pod, ready_pod

SAID = json.dumps({"reason": "ModelNotFound", "message": "no /models/x", "hint": "correct it"})


def failure(*pods: dict[str, Any], **observed: Any) -> Failure:
    found = find_failure(Observed(pods=pods, **observed), "r1")
    assert found is not None
    return found


def ended(message: str = "", reason: str = "Error", code: int = 1) -> dict[str, Any]:
    return {
        "terminated": {
            "reason": reason, "exitCode": code, "message": message, "finishedAt": T1,
        }
    }  # fmt: skip


def test_healthy_pods_have_no_failure() -> None:
    assert find_failure(Observed(pods=(ready_pod(),), deployment=deployment()), "r1") is None


def test_engine_says_itself_why_it_ended() -> None:
    said = failure(pod(containerStatuses=container(state=ended(SAID))))
    assert said == Failure(
        reason="ModelNotFound",
        message="no /models/x",
        hint="correct it",
        pod="chat-1",
        container="engine",
        exit_code=1,
        time=T1,
    )


def test_cause_stays_while_the_container_waits_for_its_restart() -> None:
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    said = failure(pod(containerStatuses=container(state=waiting, lastState=ended(SAID))))
    assert said.reason == "ModelNotFound"


def test_cause_stays_while_the_container_starts_again() -> None:
    running = {"running": {"startedAt": T1}}
    said = failure(
        pod(
            containerStatuses=container(state=running, lastState=ended(SAID)),
            conditions=[condition("Ready", "False")],
        )
    )
    assert said.reason == "ModelNotFound"


def test_end_that_was_recovered_from_is_no_cause_any_more() -> None:
    served = condition("Ready", "False") | {"lastTransitionTime": T1}
    unready = pod(
        containerStatuses=container(state={"running": {"startedAt": T0}}, lastState=ended(SAID)),
        conditions=[served],
    )
    assert find_failure(Observed(pods=(unready,)), "r1") is None


def test_out_of_memory_outranks_what_the_log_said() -> None:
    said = failure(
        pod(containerStatuses=container(state=ended("bye", reason="OOMKilled", code=137)))
    )
    assert said.reason == "OOMKilled"
    assert "resources.memory" in said.hint


def test_traceback_is_told_by_its_last_line() -> None:
    text = "Traceback (most recent call last):\n  File ...\nValueError: bad thing\n"
    said = failure(pod(containerStatuses=container(state=ended(text))))
    assert (said.reason, said.message) == ("ContainerExited", "ValueError: bad thing")
    assert "kubectl logs chat-1 -c engine --previous" in said.hint


def test_silent_end_is_told_by_its_exit_code() -> None:
    said = failure(pod(containerStatuses=container(state=ended("", code=137))))
    assert said.message == "the container ended with exit code 137"
    assert "startupTimeoutSeconds" in said.hint


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("ErrImagePull", "not found: engine:1"),
        (
            "ImagePullBackOff",
            'Back-off pulling image "engine:1": ErrImagePull: not found: engine:1',
        ),
    ],
)
def test_image_that_cannot_be_pulled_is_said_in_the_same_words_at_every_attempt(
    reason: str, message: str
) -> None:
    waiting = {"waiting": {"reason": reason, "message": message}}
    said = failure(pod(containerStatuses=container(state=waiting)))
    assert said.reason == "ImagePullBackOff"
    assert said.message == "image engine:1 cannot be pulled: not found: engine:1"
    assert said.waiting


def test_missing_secret_is_a_failure() -> None:
    waiting = {
        "waiting": {"reason": "CreateContainerConfigError", "message": 'secret "hub" not found'}
    }
    said = failure(pod(containerStatuses=container(state=waiting)))
    assert (said.reason, said.message) == ("CreateContainerConfigError", 'secret "hub" not found')


def test_container_that_is_being_created_is_none() -> None:
    creating = pod(containerStatuses=container(state={"waiting": {"reason": "ContainerCreating"}}))
    assert find_failure(Observed(pods=(creating,)), "r1") is None


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ('0/1 nodes are available: persistentvolumeclaim "m" not found.', "ClaimNotFound"),
        ("0/1 nodes: pod has unbound immediate PersistentVolumeClaims.", "ClaimNotBound"),
        ("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.", "GPUUnavailable"),
        ("0/1 nodes are available: 1 Insufficient cpu.", "Unschedulable"),
    ],
)
def test_pod_that_no_node_takes(message: str, reason: str) -> None:
    waiting = condition("PodScheduled", "False", reason="Unschedulable", message=message)
    said = failure(pod(conditions=[waiting]))
    assert (said.reason, said.message, said.time) == (reason, message, T0)
    assert said.hint


def test_evicted_pod() -> None:
    said = failure(pod(phase="Failed", reason="Evicted", message="low on memory"))
    assert (said.reason, said.message) == ("Evicted", "low on memory")


def test_volume_that_does_not_mount() -> None:
    said = failure(pod(), mount_failures={"chat-1": "hostPath type check failed"})
    assert (said.reason, said.message) == ("VolumeMountFailed", "hostPath type check failed")


def test_deployment_that_may_not_create_pods() -> None:
    refused = condition("ReplicaFailure", "True", message="exceeded quota")
    said = failure(deployment=deployment(conditions=[refused]))
    assert (said.reason, said.message) == ("PodsRefused", "exceeded quota")


def test_pods_of_an_older_template_are_not_the_cause() -> None:
    old = pod(revision="r0", containerStatuses=container(state=ended(SAID)))
    assert find_failure(Observed(pods=(old,)), "r1") is None


def test_pods_on_their_way_out_are_not_the_cause() -> None:
    leaving = pod(containerStatuses=container(state=ended(SAID)))
    leaving["metadata"]["deletionTimestamp"] = T1
    assert find_failure(Observed(pods=(leaving,)), "r1") is None
