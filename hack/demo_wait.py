"""Wait until an InferenceService is Ready, and tell how it gets there or why it doesn't.

Enters: the object as the API server gives it, again and again. Leaves: lines for the user.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local_cluster.progress import Step, Steps

import demo_objects as objects
from demo_errors import DemoFailed
from kube import Kube

POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class Progress:
    """What an InferenceService's status says at one moment."""

    ready: bool
    phase: str
    reason: str
    stage: str
    percent: float | None

    @classmethod
    def of(cls, service: dict[str, Any]) -> Progress:
        """Read a service; Ready counts only for the generation that the user asked for."""
        status = service.get("status", {})
        startup = status.get("startup", {})
        return cls(
            ready=_is_ready(service),
            phase=status.get("phase", "Pending"),
            reason=status.get("reason", ""),
            stage=startup.get("stage", ""),
            percent=startup.get("percent"),
        )

    def sentence(self) -> str:
        """Say phase and reason."""
        return f"{self.phase}: {self.reason}" if self.reason else self.phase


def wait_ready(kube: Kube, name: str, steps: Steps, log: Path, timeout_s: float) -> None:
    """Return once the service is Ready.

    Raises:
        DemoFailed: it failed, or the time is over; ``log`` then holds all that helps.
    """
    deadline = time.monotonic() + timeout_s
    with steps.step(f"Wait for {name} to be Ready", log=log) as step:
        told = ""
        while True:
            service = kube.find("kvs", name, f"--namespace={objects.NAMESPACE}") or {}
            now = Progress.of(service)
            told = _tell(now, told, step, steps)
            if now.ready:
                return
            if now.phase == "Failed" or time.monotonic() > deadline:
                log.write_text(report(kube, name))
                raise DemoFailed(explain(name, service), log=log)
            time.sleep(POLL_S)


def explain(name: str, service: dict[str, Any]) -> str:
    """Say why a service isn't Ready, with what its status advises."""
    lines = [f"{name} is not Ready ({Progress.of(service).sentence()})"]
    failure = service.get("status", {}).get("lastFailure", {})
    for field in ("pod", "container", "reason", "exitCode", "message", "hint"):
        if field in failure:
            lines.append(f"  {field}: {failure[field]}")
    return "\n".join(lines)


def report(kube: Kube, name: str) -> str:
    """Return all that the cluster says about a service, its pods and the operator."""
    demo, system = f"--namespace={objects.NAMESPACE}", f"--namespace={objects.SYSTEM_NAMESPACE}"
    questions = [
        ("get", "kvs", name, demo, "--output=yaml"),
        ("get", "pods", demo, "--output=wide"),
        ("get", "events", demo, "--sort-by=.lastTimestamp"),
        ("describe", "pods", demo),
        ("logs", demo, f"--selector=kvasir.dev/inferenceservice={name}", "--tail=200"),
        ("get", "pods", system, "--output=wide"),
        ("get", "events", system, "--sort-by=.lastTimestamp"),
        ("logs", system, "--selector=app.kubernetes.io/name=kvasir", "--tail=200"),
    ]
    return "\n".join(f"$ kubectl {' '.join(words)}\n{kube.said(*words)}" for words in questions)


def _is_ready(service: dict[str, Any]) -> bool:
    generation = service.get("metadata", {}).get("generation")
    for condition in service.get("status", {}).get("conditions", []):
        if condition.get("type") == "Ready":
            current = bool(condition.get("observedGeneration") == generation)
            return current and condition.get("status") == "True"
    return False


def _tell(now: Progress, told: str, step: Step, steps: Steps) -> str:
    step.note(now.stage or now.sentence())
    if now.percent is not None:
        step.advance_to(now.percent, 100)
    sentence = now.sentence()
    if sentence != told:
        steps.info(f"  {sentence}")
    return sentence
