"""Schemas for kubeconform from the API server's own OpenAPI: no registry of schemas is needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Schema = dict[str, Any]

LOOSE = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": ["string", "integer"]},
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": ["string", "number"]},
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON": {},
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray": {},
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool": {},
}


def write_schemas(openapi: Schema, kinds: set[str], folder: Path) -> str:
    """Write a strict schema for each of `kinds`; kubeconform's -schema-location for them."""
    definitions = {name: _strict(one) for name, one in openapi["definitions"].items()} | LOOSE
    for name, definition in openapi["definitions"].items():
        for kind in definition.get("x-kubernetes-group-version-kind", []):
            if kind["kind"] not in kinds:
                continue
            schema = {"$ref": f"#/definitions/{name}", "definitions": definitions}
            (folder / _file(kind)).write_text(json.dumps(schema))
    return f"{folder}/{{{{.ResourceKind}}}}_{{{{.ResourceAPIVersion}}}}.json"


def _file(kind: dict[str, str]) -> str:
    return f"{kind['kind'].lower()}_{kind['version']}.json"


def _strict(definition: Schema) -> Schema:
    """Objects take the fields they name, and no others."""
    if "properties" not in definition:
        return definition
    return {**definition, "additionalProperties": False}
