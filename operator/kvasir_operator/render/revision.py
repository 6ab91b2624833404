"""The ControllerRevision that keeps a rendered template for as long as its hash is wanted."""

from __future__ import annotations

from typing import Any

from kvasir_operator import names
from kvasir_operator.model.service import InferenceService
from kvasir_operator.render.metadata import metadata


def controller_revision(
    service: InferenceService, template: dict[str, Any], number: int
) -> dict[str, Any]:
    """Revision `number` of the service: its template, as it was rendered the first time."""
    ref, revision = service.ref, service.revision
    name = names.revision_name(ref.name, revision)
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": metadata(ref, name, {names.LABEL_REVISION: revision}),
        "revision": number,
        "data": {"template": template},
    }
