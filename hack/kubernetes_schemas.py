"""JSON schemas of Kubernetes' own kinds, for kubeconform, from the API description that Kubernetes
publishes with its source: no schema is fetched from anywhere.

Enters: ``swagger.json``. Leaves: one self-contained file a kind, strict: a field that the API does
not know is an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Schema = dict[str, Any]

REFERENCE = "#/definitions/"
LOCATION = "{{.ResourceKind}}{{.KindSuffix}}.json"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
KINDS_KEY = "x-kubernetes-group-version-kind"
NUMBER_OR_TEXT: Schema = {"oneOf": [{"type": "string"}, {"type": "number"}]}


def write_schemas(swagger: Path, folder: Path, kinds: Iterable[str]) -> None:
    """Write the schemas of these kinds (lower case), in every group and version."""
    definitions: dict[str, Schema] = json.loads(swagger.read_text())["definitions"]
    wanted = set(kinds)
    folder.mkdir(parents=True, exist_ok=True)
    for name, definition in definitions.items():
        for kind in definition.get(KINDS_KEY, []):
            if kind["kind"].lower() in wanted:
                schema = self_contained(name, definitions)
                (folder / file_name(kind)).write_text(json.dumps(schema))


def file_name(kind: dict[str, str]) -> str:
    """Return the name under which kubeconform looks for a kind: group's first word, version."""
    group = kind["group"].partition(".")[0]
    return (
        "-".join(part for part in (kind["kind"].lower(), group, kind["version"]) if part) + ".json"
    )


def self_contained(name: str, definitions: dict[str, Schema]) -> Schema:
    """Return a schema with all that it refers to, and nothing else, beside it."""
    reached: dict[str, Schema] = {}
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current not in reached:
            reached[current] = strict(current, definitions[current])
            waiting += references(definitions[current])
    return {"$ref": f"{REFERENCE}{name}", "definitions": reached}


def references(schema: object) -> Iterator[str]:
    """Give the name of each definition that a schema refers to."""
    if isinstance(schema, dict):
        target = schema.get("$ref")
        if isinstance(target, str):
            yield target.removeprefix(REFERENCE)
        for value in schema.values():
            yield from references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from references(value)


def strict(name: str, definition: Schema) -> Schema:
    """Return a definition that refuses unknown fields, and takes numbers where the API does."""
    if name == QUANTITY or definition.get("format") == "int-or-string":
        return NUMBER_OR_TEXT
    if "properties" in definition and "additionalProperties" not in definition:
        return definition | {"additionalProperties": False}
    return definition
