"""The CustomResourceDefinition of InferenceService, as a plain dict."""

from __future__ import annotations

from typing import Any

from kvasir_operator import names
from kvasir_operator.model.base import rules
from kvasir_operator.model.schema import structural
from kvasir_operator.model.spec import Spec
from kvasir_operator.model.status import Status

NAME_PATTERN = f"^[a-z]([-a-z0-9]{{0,{names.NAME_MAX_LENGTH - 2}}}[a-z0-9])?$"

NAME_RULES = rules(
    (
        f"self.metadata.name.matches('{NAME_PATTERN}')",
        "metadata.name must be a DNS label of at most 40 characters: lower-case letters, digits "
        "and '-', starting with a letter and not ending with '-' (it names the Service)",
    ),
)

COLUMNS = (
    # name, type, path, priority (1: -o wide only), description
    ("Model", "string", ".spec.model.uri", 0, "where the weights are"),
    ("TP", "integer", ".status.resolved.tensor", 0, "devices that share each layer"),
    ("Quant", "string", ".status.resolved.quantization", 0, "how the weights are quantized"),
    ("Ready", "string", ".status.replicaSummary", 0, "pods that answer / pods wanted"),
    ("Phase", "string", ".status.phase", 0, "the state in one word"),
    ("Reason", "string", ".status.reason", 0, "why it is not Ready"),
    ("Age", "date", ".metadata.creationTimestamp", 0, ""),
    ("URL", "string", ".status.url", 1, "where clients inside the cluster reach it"),
)


def crd() -> dict[str, Any]:
    """The whole definition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names.PLURAL}.{names.GROUP}"},
        "spec": {
            "group": names.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": names.KIND,
                "listKind": f"{names.KIND}List",
                "plural": names.PLURAL,
                "singular": names.SINGULAR,
                "shortNames": [names.SHORT_NAME],
                "categories": [names.CATEGORY],
            },
            "versions": [_version()],
        },
    }


def _version() -> dict[str, Any]:
    return {
        "name": names.VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [_column(*column) for column in COLUMNS],
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "schema": {"openAPIV3Schema": _schema()},
    }


def _column(name: str, kind: str, path: str, priority: int, description: str) -> dict[str, Any]:
    column = {"name": name, "type": kind, "jsonPath": path, "priority": priority}
    return {**column, "description": description} if description else column


def _schema() -> dict[str, Any]:
    return {
        "type": "object",
        "description": "A large language model served on an OpenAI-compatible endpoint.",
        "required": ["spec"],
        "x-kubernetes-validations": NAME_RULES,
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": structural(Spec),
            "status": structural(Status),
        },
    }
