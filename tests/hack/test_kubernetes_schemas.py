"""The schemas made from Kubernetes' API description know its kinds, and refuse what it lacks."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kubernetes_schemas import file_name, write_schemas

SWAGGER = {
    "definitions": {
        "apps.Deployment": {
            "properties": {
                "kind": {"type": "string"},
                "spec": {"$ref": "#/definitions/apps.Spec"},
            },
            "x-kubernetes-group-version-kind": [
                {"group": "apps", "version": "v1", "kind": "Deployment"}
            ],
        },
        "apps.Spec": {
            "properties": {
                "port": {"$ref": "#/definitions/IntOrString"},
                "labels": {"additionalProperties": {"type": "string"}, "type": "object"},
                "nested": {"$ref": "#/definitions/apps.Spec"},
            },
            "type": "object",
        },
        "IntOrString": {"type": "string", "format": "int-or-string"},
        "unused": {"type": "object"},
    }
}


@pytest.fixture
def schema(tmp_path: Path) -> dict[str, Any]:
    """The schema of the Deployment."""
    swagger = tmp_path / "swagger.json"
    swagger.write_text(json.dumps(SWAGGER))
    write_schemas(swagger, tmp_path / "schemas", ["deployment"])
    return dict(json.loads((tmp_path / "schemas" / "deployment-apps-v1.json").read_text()))


@pytest.mark.parametrize("port", [8000, "http"])
def test_what_the_api_takes_is_valid(schema: dict[str, Any], port: object) -> None:
    spec = {"port": port, "labels": {"any": "name"}, "nested": {"port": 1}}
    jsonschema.validate({"kind": "Deployment", "spec": spec}, schema)


@pytest.mark.parametrize(
    "spec", [{"prot": 8000}, {"nested": {"prot": 1}}, {"labels": {"a": 1}}, {"port": {}}]
)
def test_an_unknown_field_or_a_wrong_type_is_an_error(
    schema: dict[str, Any], spec: dict[str, Any]
) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"kind": "Deployment", "spec": spec}, schema)


def test_only_what_a_kind_refers_to_lies_beside_it(schema: dict[str, Any]) -> None:
    assert "unused" not in schema["definitions"]


@pytest.mark.parametrize(
    ("group", "expected"),
    [("", "pod-v1.json"), ("rbac.authorization.k8s.io", "pod-rbac-v1.json")],
)
def test_a_file_is_named_as_kubeconform_looks_for_it(group: str, expected: str) -> None:
    assert file_name({"group": group, "version": "v1", "kind": "Pod"}) == expected
