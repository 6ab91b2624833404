"""Which changes of status are urgent, and which deserve an Event."""

from typing import Any

from kvasir_operator.status import Notice, is_urgent, notices


def status(phase: str, reason: str = "", ready: str = "False", **more: Any) -> dict[str, Any]:
    return {
        "observedGeneration": 1,
        "phase": phase,
        "reason": reason,
        "url": "http://chat",
        "conditions": [{"type": "Ready", "status": ready, "message": "why"}],
        **more,
    }


STARTING = status("Starting", "PodsStarting")
READY = status("Ready", ready="True")
CRASHED = status("Failed", "ModelNotFound", lastFailure={"reason": "ModelNotFound"})


def test_becoming_ready_is_urgent_and_an_event() -> None:
    assert is_urgent(STARTING, READY)
    assert notices(STARTING, READY) == [Notice("Normal", "Ready", "serving at http://chat")]


def test_staying_ready_is_neither() -> None:
    assert not is_urgent(READY, {**READY, "replicas": 2})
    assert notices(READY, {**READY, "replicas": 2}) == []


def test_another_generation_is_urgent() -> None:
    assert is_urgent(STARTING, {**STARTING, "observedGeneration": 2})


def test_first_status_is_urgent_and_no_event() -> None:
    assert is_urgent({}, STARTING)
    assert notices({}, STARTING) == []


def test_new_failure_is_an_event_once() -> None:
    assert notices(STARTING, CRASHED) == [Notice("Warning", "ModelNotFound", "why")]
    assert notices(CRASHED, {**CRASHED, "replicas": 1}) == []


def test_blocked_is_an_event() -> None:
    blocked = status("Blocked", "ParallelismUnsupported")
    assert notices({}, blocked) == [Notice("Warning", "ParallelismUnsupported", "why")]
