"""A Kubernetes Event about an InferenceService."""

from __future__ import annotations

from typing import Any

from kvasir_operator import names
from kvasir_operator.model.service import Ref

MESSAGE_MAX_LENGTH = 1024


def event(ref: Ref, kind: str, reason: str, message: str, now: str) -> dict[str, Any]:
    """An Event of type `kind` (Normal or Warning) at the time `now` (RFC 3339)."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{ref.name}.", "namespace": ref.namespace},
        "involvedObject": {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "namespace": ref.namespace,
            "name": ref.name,
            "uid": ref.uid,
        },
        "type": kind,
        "reason": reason,
        "message": message[:MESSAGE_MAX_LENGTH],
        "source": {"component": names.COMPONENT},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
