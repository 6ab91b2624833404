"""The demo waits for the Ready that counts, and says why it doesn't come."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from local_cluster.progress import Steps

import demo_wait
from demo_errors import DemoFailed
from support.fake_programs import FakePrograms


def service(phase: str, ready: str = "False", seen: int = 2, **status: Any) -> dict[str, Any]:
    """Return an InferenceService of generation 2 as the API server gives it."""
    condition = {"type": "Ready", "status": ready, "observedGeneration": seen}
    return {
        "metadata": {"generation": 2},
        "status": {"phase": phase, "conditions": [condition], **status},
    }


def wait(programs: FakePrograms, found: dict[str, Any], log: Path) -> str:
    """Wait for a service that stays as it is; return what the user saw."""
    programs.answer({"get kvs smollm2": json.dumps(found)})
    shown = io.StringIO()
    demo_wait.wait_ready(programs.kube(), "smollm2", Steps(shown), log, timeout_s=0)
    return shown.getvalue()


def test_ready_ends_the_wait(programs: FakePrograms, tmp_path: Path) -> None:
    assert "Ready" in wait(programs, service("Ready", "True"), tmp_path / "log")


def test_ready_of_an_older_generation_does_not_count(
    programs: FakePrograms, tmp_path: Path
) -> None:
    with pytest.raises(DemoFailed):
        wait(programs, service("Ready", "True", seen=1), tmp_path / "log")


def test_a_service_that_is_not_there_yet_is_pending(programs: FakePrograms, tmp_path: Path) -> None:
    with pytest.raises(DemoFailed, match="Pending"):
        wait(programs, {}, tmp_path / "log")


def test_a_failure_is_told_with_its_cause_its_hint_and_a_log(
    programs: FakePrograms, tmp_path: Path
) -> None:
    failure = {"container": "engine", "reason": "ModelNotFound", "hint": "check the path"}
    found = service("Failed", reason="ModelNotFound", lastFailure=failure)
    log = tmp_path / "log"
    with pytest.raises(DemoFailed) as caught:
        wait(programs, found, log)
    said = str(caught.value)
    assert "Failed: ModelNotFound" in said
    assert "hint: check the path" in said
    assert caught.value.log == log
    assert "$ kubectl logs --namespace=kvasir-system" in log.read_text()


def test_each_change_of_phase_is_told_once(
    programs: FakePrograms, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = [service("Starting"), service("Starting"), service("Ready", "True")]
    monkeypatch.setattr(demo_wait, "POLL_S", 0)
    kube = programs.kube()
    monkeypatch.setattr(type(kube), "find", lambda *_words: states.pop(0))
    shown = io.StringIO()
    demo_wait.wait_ready(kube, "smollm2", Steps(shown), tmp_path / "log", timeout_s=60)
    assert shown.getvalue().count("Starting") == 1
