"""What one reconcile decided about a service, before it is said in status."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvasir_operator.model.observed import Failure, Observed
from kvasir_operator.model.plan import Refusal, Resolved
from kvasir_operator.model.service import Ref


@dataclass(frozen=True, slots=True)
class Outcome:
    """All that status is made of, together with the status written last."""

    ref: Ref
    previous: dict[str, Any]
    """`status` as it stands in the API server."""
    observed: Observed
    replicas: int = 0
    paused: bool = False
    revision: str = ""
    """Hash of the wanted template; empty where the spec cannot be read."""
    resolved: Resolved | None = None
    refusal: Refusal | None = None
    """Why nothing is made for this generation."""
    failure: Failure | None = None
    """What keeps the pods of the wanted template from serving."""
