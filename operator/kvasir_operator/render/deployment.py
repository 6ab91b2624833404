"""The Deployment around a pod template."""

from __future__ import annotations

from typing import Any

from kvasir_operator import names
from kvasir_operator.model.plan import Resolved
from kvasir_operator.model.service import InferenceService
from kvasir_operator.render.metadata import marked, metadata

PROGRESS_MARGIN_S = 120


def deployment(
    service: InferenceService, resolved: Resolved, template: dict[str, Any]
) -> dict[str, Any]:
    """The Deployment that runs `template`, which may be a kept one."""
    ref, spec = service.ref, service.spec
    return marked(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata(ref, ref.name, {names.LABEL_REVISION: service.revision}),
            "spec": {
                "replicas": spec.replicas,
                "revisionHistoryLimit": 2,
                "progressDeadlineSeconds": resolved.startup_timeout_s + PROGRESS_MARGIN_S,
                "selector": {"matchLabels": names.selector(ref.name)},
                "strategy": _strategy(spec.device),
                "template": template,
            },
        }
    )


def _strategy(device: str) -> dict[str, Any]:
    """How pods are replaced.

    On cpu a new pod comes up beside the old one. On cuda the old one goes first: on a cluster
    whose GPUs are all taken a surge pod waits for the very GPU that the old pod holds, forever.
    """
    surge, unavailable = (1, 0) if device == "cpu" else (0, 1)
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {"type": "RollingUpdate", "rollingUpdate": rolling}
