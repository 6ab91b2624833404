"""Parsing a stored object, and the hash that decides whether pods restart."""

from typing import Any

import pytest

from kvasir_operator.errors import InvalidSpec
from kvasir_operator.model.service import InferenceService
from support.objects import raw_service, service


def test_parses_names_as_users_write_them() -> None:
    spec = service(engine={"kvCacheGiB": 2, "maxNumSeqs": 8}, nodeSelector={"a": "b"}).spec
    assert (spec.engine.kv_cache_gib, spec.engine.max_num_seqs) == (2, 8)
    assert spec.node_selector == {"a": "b"}


def test_unknown_field_is_named() -> None:
    with pytest.raises(InvalidSpec, match=r"spec\.engine\.turbo"):
        InferenceService.parse(raw_service(engine={"turbo": True}))


def test_quantities_may_be_numbers() -> None:
    assert service(resources={"cpu": 2}).spec.resources.cpu == "2"


@pytest.mark.parametrize(
    "spec", [{"replicas": 5}, {"paused": True}, {"engine": {"maxNumSeqs": 256}}, {"engine": {}},
             {"parallelism": {}}, {"podLabels": {}}, {"tolerations": []}]
)  # fmt: skip
def test_what_a_template_does_not_depend_on_keeps_the_revision(spec: dict[str, Any]) -> None:
    assert service(**spec).revision == service().revision


@pytest.mark.parametrize(
    "spec", [{"engine": {"maxNumSeqs": 8}}, {"device": "cuda"}, {"podLabels": {"a": "b"}},
             {"lifecycle": {"drainSeconds": 1}}, {"model": {"uri": "pvc://models/other"}}]
)  # fmt: skip
def test_what_a_template_depends_on_changes_the_revision(spec: dict[str, Any]) -> None:
    assert service(**spec).revision != service().revision


def test_revision_never_changes_by_itself() -> None:
    """Fails when a change here would restart every pod that runs: think twice."""
    assert service().revision == "bdf1bbfec3"
