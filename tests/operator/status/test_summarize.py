"""Status tells the truth: phases, Ready, conditions, the last failure."""

from dataclasses import replace
from typing import Any

import pytest

from kvasir_operator.model.observed import Failure, Observed
from kvasir_operator.model.outcome import Outcome
from kvasir_operator.model.plan import Refusal, Resolved
from kvasir_operator.model.service import Ref
from kvasir_operator.model.status import Status
from kvasir_operator.status import summarize
from support.objects import T0, T1, condition, deployment, pod, ready_pod

RESOLVED = Resolved("engine:1", "chat", 1, 1, "float32", "auto", 1.0, None, None, 600)
CRASH = Failure("ModelNotFound", "no model", "correct it", "chat-1", "engine", 1, T0)
WAIT = Failure("Unschedulable", "no node", "add one", "chat-1", waiting=True)


def outcome(observed: Observed, **more: Any) -> Outcome:
    base = Outcome(
        ref=Ref("team", "chat", "uid-chat", 1),
        previous={},
        observed=observed,
        replicas=1,
        revision="r1",
        resolved=RESOLVED,
    )
    return replace(base, **more)


def ready_status(status: dict[str, Any]) -> dict[str, Any]:
    return next(entry for entry in status["conditions"] if entry["type"] == "Ready")


NOTHING = Observed()
SERVING = Observed(deployment=deployment(readyReplicas=1), pods=(ready_pod(),))
SCHEDULED = pod(conditions=[condition("PodScheduled", "True"), condition("Ready", "False")])
STARTING = Observed(deployment=deployment(), pods=(SCHEDULED,))
ROLLING = Observed(
    deployment=deployment(replicas=1, updatedReplicas=1, readyReplicas=1)
    | {
        "status": {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 1, "readyReplicas": 1}
    },
    pods=(ready_pod("old", "r0"), SCHEDULED),
)


@pytest.mark.parametrize(
    ("case", "phase", "reason"),
    [
        (outcome(NOTHING), "Pending", "PodsPending"),
        (outcome(STARTING), "Starting", "PodsStarting"),
        (outcome(SERVING), "Ready", ""),
        (outcome(ROLLING), "Updating", "RollingOut"),
        (outcome(ROLLING, failure=CRASH), "Degraded", "ModelNotFound"),
        (outcome(STARTING, failure=CRASH), "Failed", "ModelNotFound"),
        (outcome(STARTING, failure=WAIT), "Pending", "Unschedulable"),
        (outcome(SERVING, paused=True), "Paused", "Paused"),
        (outcome(SERVING, refusal=Refusal("No", "because")), "Blocked", "No"),
        (
            outcome(Observed(deployment=deployment(replicas=0)), replicas=0),
            "Pending",
            "ScaledToZero",
        ),
    ],
)
def test_phase_and_reason(case: Outcome, phase: str, reason: str) -> None:
    status = summarize(case, T1)
    assert (status["phase"], status["reason"]) == (phase, reason)
    assert Status.model_validate(status)


def test_ready_once_the_generation_is_rolled_out_and_a_pod_answers() -> None:
    status = summarize(outcome(SERVING), T1)
    assert ready_status(status)["status"] == "True"
    assert status["replicaSummary"] == "1/1"
    assert status["url"] == "http://chat.team.svc:8000"
    assert status["selector"] == "kvasir.dev/inferenceservice=chat"


@pytest.mark.parametrize(
    "stale",
    [
        deployment(readyReplicas=1) | {"spec": {"replicas": 2}},
        deployment(revision="r0", readyReplicas=1),
        deployment(readyReplicas=1, observedGeneration=0),
        deployment(readyReplicas=1, replicas=1) | {
            "status": {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 1,
                       "readyReplicas": 2}
        },
    ],
    ids=["other scale", "other template", "controller lags", "old pod left"],
)  # fmt: skip
def test_not_ready_while_the_deployment_is_not_the_wanted_one(stale: dict[str, Any]) -> None:
    observed = Observed(deployment=stale, pods=(ready_pod(), ready_pod("old", "r0")))
    status = summarize(outcome(observed), T1)
    assert ready_status(status)["status"] == "False"
    assert status["phase"] == "Updating"


def test_not_ready_on_an_old_pods_answer_alone() -> None:
    observed = Observed(deployment=deployment(readyReplicas=1), pods=(ready_pod("old", "r0"),))
    assert ready_status(summarize(outcome(observed), T1))["status"] == "False"


def test_some_of_the_wanted_pods_answering_is_ready_but_degraded() -> None:
    observed = Observed(
        deployment=deployment(replicas=2, readyReplicas=1), pods=(ready_pod(), SCHEDULED)
    )
    status = summarize(outcome(observed, replicas=2), T1)
    assert ready_status(status)["status"] == "True"
    assert (status["phase"], status["replicaSummary"]) == ("Degraded", "1/2")


def test_start_that_takes_too_long_says_so() -> None:
    late = condition("Progressing", "False", reason="ProgressDeadlineExceeded")
    observed = Observed(deployment=deployment(conditions=[late]), pods=(SCHEDULED,))
    status = summarize(outcome(observed), T1)
    assert (status["phase"], status["reason"]) == ("Failed", "StartupTimedOut")


def test_same_outcome_gives_the_same_status_at_any_time() -> None:
    first = summarize(outcome(SERVING), T0)
    assert summarize(outcome(SERVING, previous=first), T1) == first


def test_condition_gets_a_new_time_only_when_its_status_changes() -> None:
    first = summarize(outcome(STARTING), T0)
    second = summarize(outcome(SERVING, previous=first), T1)
    times = {entry["type"]: entry["lastTransitionTime"] for entry in second["conditions"]}
    assert times == {
        "Ready": T1, "Available": T1, "Progressing": T1, "Accepted": T0, "Scheduled": T0,
    }  # fmt: skip


def test_end_of_a_container_stays_on_record_after_recovery() -> None:
    failed = summarize(outcome(STARTING, failure=CRASH), T0)
    recovered = summarize(outcome(SERVING, previous=failed), T1)
    assert recovered["reason"] == ""
    assert recovered["lastFailure"] == failed["lastFailure"]
    assert recovered["lastFailure"]["hint"] == "correct it"


def test_wait_that_is_over_leaves_no_record() -> None:
    waiting = summarize(outcome(STARTING, failure=WAIT), T0)
    assert waiting["lastFailure"]["reason"] == "Unschedulable"
    assert "lastFailure" not in summarize(outcome(SERVING, previous=waiting), T1)


def test_blocked_generation_leaves_what_runs_available() -> None:
    status = summarize(outcome(SERVING, refusal=Refusal("No", "because")), T1)
    conditions = {entry["type"]: entry["status"] for entry in status["conditions"]}
    assert (conditions["Accepted"], conditions["Available"]) == ("False", "True")
    assert conditions["Ready"] == "False"
