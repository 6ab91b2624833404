"""Planning: a service and the operator's settings in; values to run it with, or a refusal, out.

Pure: no client, no clock. Every refusal says what to do.
"""

from __future__ import annotations

from kvasir_operator.model.plan import Refusal, Resolved
from kvasir_operator.model.service import InferenceService
from kvasir_operator.plan.resolve import resolve
from kvasir_operator.plan.supported import first_refusal
from kvasir_operator.settings import Settings

__all__ = ["plan"]


def plan(service: InferenceService, settings: Settings) -> Resolved | Refusal:
    """Work out how `service` runs, or why it cannot."""
    return first_refusal(service.spec, settings) or resolve(service, settings)
