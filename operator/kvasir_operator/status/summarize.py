"""Puts `status` together."""

from __future__ import annotations

from typing import Any

from kvasir_operator import names
from kvasir_operator.model.observed import Failure
from kvasir_operator.model.outcome import Outcome
from kvasir_operator.model.plan import Resolved
from kvasir_operator.status.conditions import conditions
from kvasir_operator.status.counts import count
from kvasir_operator.status.phase import state


def summarize(outcome: Outcome, now: str) -> dict[str, Any]:
    """The whole status at `now` (RFC 3339)."""
    counts = count(outcome)
    judged = state(outcome, counts)
    status: dict[str, Any] = {
        "observedGeneration": outcome.ref.generation,
        "phase": judged.phase,
        "reason": judged.reason,
        "replicas": counts.replicas,
        "readyReplicas": counts.ready,
        "updatedReplicas": counts.updated,
        "replicaSummary": f"{counts.ready_updated}/{counts.wanted}",
        "selector": ",".join(f"{k}={v}" for k, v in names.selector(outcome.ref.name).items()),
        "url": names.url(outcome.ref.namespace, outcome.ref.name),
        "conditions": conditions(outcome, counts, judged, now),
    }
    if outcome.resolved is not None:
        status["resolved"] = _resolved(outcome.resolved)
        status["startup"] = {"budgetSeconds": outcome.resolved.startup_timeout_s}
    failure = _last_failure(outcome)
    return {**status, "lastFailure": failure} if failure else status


def _resolved(resolved: Resolved) -> dict[str, Any]:
    values = {
        "tensor": resolved.tensor,
        "pipeline": resolved.pipeline,
        "maxModelLen": resolved.max_model_len,
        "maxNumBatchedTokens": resolved.max_num_batched_tokens,
        "quantization": resolved.quantization,
        "dtype": resolved.dtype,
    }
    return {key: value for key, value in values.items() if value is not None}


def _last_failure(outcome: Outcome) -> dict[str, Any] | None:
    """The failure there is, else the record of the last container that ended.

    A wait that is over (no node, no image) leaves nothing behind.
    """
    if outcome.failure is not None:
        return _failure(outcome.failure)
    before: dict[str, Any] | None = outcome.previous.get("lastFailure")
    return before if before and "exitCode" in before else None


def _failure(failure: Failure) -> dict[str, Any]:
    values = {
        "pod": failure.pod,
        "container": failure.container,
        "reason": failure.reason,
        "exitCode": failure.exit_code,
        "message": failure.message,
        "hint": failure.hint,
        "time": failure.time,
    }
    return {key: value for key, value in values.items() if value is not None}
