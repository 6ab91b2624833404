"""Turns a pydantic model into a structural OpenAPI v3 schema, as a CRD needs it.

In: a model class. Out: a schema without `$ref`, `title` or null types. A default is written into
the description and not into the schema, so that stored objects stay as short as the user wrote
them; fields marked `x-kvasir-default` get it in the schema too.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]

DROPPED = ("title", "default", "additionalProperties", "x-kvasir-default", "const")


def structural(model: type[BaseModel]) -> Schema:
    """The structural schema of `model`, its camelCase names included."""
    raw = model.model_json_schema(by_alias=True, mode="validation")
    return _convert(raw, raw.get("$defs", {}))


def _convert(node: Schema, defs: Schema) -> Schema:
    node = _resolve(_without_null(_resolve(node, defs)), defs)
    out = {key: value for key, value in node.items() if key not in (*DROPPED, "$defs")}
    if "properties" in node:
        out["properties"] = {
            name: _with_default(_convert(child, defs), child)
            for name, child in node["properties"].items()
        }
    elif isinstance(node.get("additionalProperties"), dict):
        out["additionalProperties"] = _convert(node["additionalProperties"], defs)
    if "items" in node:
        out["items"] = _convert(node["items"], defs)
    if "const" in node:
        out["enum"] = [node["const"]]
    if "exclusiveMinimum" in out:
        out["minimum"], out["exclusiveMinimum"] = out["exclusiveMinimum"], True
    return _one_line(out)


def _resolve(node: Schema, defs: Schema) -> Schema:
    while "$ref" in node:
        target = defs[node["$ref"].rsplit("/", 1)[1]]
        node = {**target, **{key: value for key, value in node.items() if key != "$ref"}}
    return node


def _without_null(node: Schema) -> Schema:
    """`X | None` is an optional X: absence says null."""
    if "x-kubernetes-int-or-string" in node or "anyOf" not in node:
        return node
    options = [option for option in node["anyOf"] if option.get("type") != "null"]
    if len(options) != 1:
        raise ValueError(f"a union is not structural: {options}")
    rest = {key: value for key, value in node.items() if key != "anyOf"}
    return {**options[0], **rest}


def _with_default(schema: Schema, field: Schema) -> Schema:
    default = field.get("default")
    if default is None or isinstance(default, dict | list):
        return schema
    if field.get("x-kvasir-default"):
        schema["default"] = default
    shown = str(default).lower() if isinstance(default, bool) else default
    schema["description"] = f"{schema['description']} Default: {shown}."
    return schema


def _one_line(schema: Schema) -> Schema:
    if isinstance(schema.get("description"), str):
        schema["description"] = " ".join(schema["description"].split())
    return schema
