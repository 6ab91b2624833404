"""The Service in front of the pods."""

from __future__ import annotations

from typing import Any

from kvasir_operator import names
from kvasir_operator.model.service import Ref
from kvasir_operator.render.metadata import marked, metadata


def service(ref: Ref) -> dict[str, Any]:
    """A ClusterIP Service on port 8000."""
    port = {
        "name": names.PORT_NAME,
        "port": names.PORT,
        "targetPort": names.PORT_NAME,
        "protocol": "TCP",
    }
    return marked(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata(ref, ref.name),
            "spec": {"type": "ClusterIP", "selector": names.selector(ref.name), "ports": [port]},
        }
    )
