"""The schema generator and the CRD it makes."""

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from kvasir_operator.model.crd import COLUMNS, crd
from kvasir_operator.model.schema import structural

Schema = dict[str, Any]

VERSION = crd()["spec"]["versions"][0]
SCHEMA: Schema = VERSION["schema"]["openAPIV3Schema"]


def nodes(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Every schema node with its path."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from nodes(schema["additionalProperties"], f"{path}{{}}")


SPEC_NODES = list(nodes(SCHEMA["properties"]["spec"], ".spec"))
STATUS_NODES = list(nodes(SCHEMA["properties"]["status"], ".status"))


@pytest.mark.parametrize(("path", "schema"), SPEC_NODES + STATUS_NODES)
def test_every_node_is_structural(path: str, schema: Schema) -> None:
    assert not {"$ref", "$defs", "title", "allOf", "oneOf"} & schema.keys(), path
    assert "type" in schema or schema.get("x-kubernetes-int-or-string"), path


@pytest.mark.parametrize(
    ("path", "schema"), [(p, s) for p, s in SPEC_NODES + STATUS_NODES if not p.endswith(("]", "}"))]
)
def test_every_field_is_documented(path: str, schema: Schema) -> None:
    assert len(schema.get("description", "")) > 8, path
    assert "\n" not in schema["description"]


@pytest.mark.parametrize(("path", "schema"), SPEC_NODES)
def test_everything_a_user_writes_is_bounded(path: str, schema: Schema) -> None:
    match schema.get("type"):
        case "string":
            assert "maxLength" in schema or "enum" in schema, path
        case "array":
            assert "maxItems" in schema, path
        case "integer" | "number":
            assert {"minimum", "maximum"} <= schema.keys() or "enum" in schema, path
        case "object":
            assert "properties" in schema or "maxProperties" in schema, path


def test_no_field_takes_unknown_keys() -> None:
    assert not [p for p, s in SPEC_NODES if s.get("x-kubernetes-preserve-unknown-fields")]


def test_only_replicas_and_device_are_written_into_stored_objects() -> None:
    assert {p: s["default"] for p, s in SPEC_NODES if "default" in s} == {
        ".spec.replicas": 1,
        ".spec.device": "cuda",
    }


def test_defaults_are_documented() -> None:
    engine = SCHEMA["properties"]["spec"]["properties"]["engine"]["properties"]
    assert engine["maxNumSeqs"]["description"].endswith("Default: 256.")
    assert engine["prefixCaching"]["description"].endswith("Default: true.")
    assert "Default" not in engine["maxModelLen"]["description"]


def test_units_keep_their_spelling() -> None:
    engine = SCHEMA["properties"]["spec"]["properties"]["engine"]["properties"]
    assert {"kvCacheGiB", "swapSpaceGiB"} <= engine.keys()
    assert engine["kvCacheGiB"]["exclusiveMinimum"] is True


def test_every_rule_has_a_message_for_the_user() -> None:
    rules = [
        rule
        for _, schema in [("", SCHEMA), *SPEC_NODES]
        for rule in schema.get("x-kubernetes-validations", [])
    ]
    assert len(rules) > 10
    assert all(len(rule["message"]) > 30 for rule in rules)


def test_columns_show_fields_that_exist() -> None:
    paths = {path for path, _ in SPEC_NODES + STATUS_NODES}
    for _, kind, path, _, _ in COLUMNS:
        assert path in paths or path == ".metadata.creationTimestamp"
        assert kind in ("string", "integer", "date")
    assert [c[0].upper() for c in COLUMNS if c[3] == 0] == [
        "MODEL", "TP", "QUANT", "READY", "PHASE", "REASON", "AGE",
    ]  # fmt: skip


def test_scale_subresource_reads_fields_that_exist() -> None:
    paths = {path for path, _ in SPEC_NODES + STATUS_NODES}
    assert set(VERSION["subresources"]["scale"].values()) <= paths


def test_unions_are_refused() -> None:
    class Either(BaseModel):
        value: int | list[int]

    with pytest.raises(ValueError, match="not structural"):
        structural(Either)
