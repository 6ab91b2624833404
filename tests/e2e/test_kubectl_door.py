"""Bad manifests are refused by kubectl, with a message that says what to do."""

import re
from typing import Any

import pytest
from local_cluster.errors import CommandFailed

from kube import Kube
from support.inference_services import InferenceServices


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"turbo": True}, 'unknown field "spec.turbo"'),
        ({"engine": {"turbo": True}}, 'unknown field "spec.engine.turbo"'),
        ({"replicas": -1}, "greater than or equal to 0"),
        ({"device": "tpu"}, 'supported values: "cuda", "cpu"'),
        ({"model": {"uri": "/models/x"}}, "must start with hf://"),
        ({"model": {"uri": "s3://bucket/x"}}, "copy the model to a PersistentVolumeClaim"),
        ({"model": {"uri": "pvc://models/../x"}}, "must not contain"),
        ({"model": {"uri": "pvc://models/x", "revision": "main"}}, "goes with hf:// only"),
        ({"engine": {"extraArgs": ["--max-num-seqs", "9"]}}, "must not repeat a typed field"),
        ({"engine": {"extraArgs": ["--max_num_seqs=9"]}}, "must not repeat a typed field"),
        ({"engine": {"gpuMemoryUtilization": 1.5}}, "less than or equal to 0.98"),
        ({"engine": {"env": [{"name": "A"}]}}, "either value or valueFrom"),
        ({"device": "cuda", "engine": {"kvCacheGiB": 1}}, "is for device: cpu"),
        ({"podLabels": {"kvasir.dev/revision": "x"}}, "choose other keys"),
        ({"tolerations": [{"effect": "NoSchedule"}]}, "needs operator: Exists"),
        ({"resources": {"memory": "much"}}, "spec.resources.memory"),
    ],
)
def test_bad_field_is_refused(
    services: InferenceServices, spec: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(CommandFailed, match=re.escape(complaint)):
        services.apply("refused", **spec)
    assert services.get("refused") == {}


@pytest.mark.parametrize("name", ["9lives", "dotted.name", "trailing-", "x" * 41])
def test_name_that_is_no_label_is_refused(services: InferenceServices, name: str) -> None:
    with pytest.raises(CommandFailed, match=r"DNS label of at most 40|RFC 1123"):
        services.apply(name)


def test_longest_name_is_taken(services: InferenceServices) -> None:
    name = "n" * 40
    services.apply(name, replicas=0)
    services.wait_reason(name, "ScaledToZero")
    services.delete(name)


def test_explain_reads_like_documentation(kube: Kube, operator: str) -> None:
    text = kube.kubectl("explain", "kvs.spec.engine")
    assert "Most sequences that run in one step" in " ".join(text.split())
    assert "Default: 256." in text


def test_short_name_and_category(services: InferenceServices, kube: Kube, chat: str) -> None:
    rows = kube.kubectl("get", "inference", f"--namespace={services.namespace}")
    header, row = (line.split() for line in rows.splitlines() if line.startswith(("NAME", "chat ")))
    assert header == ["NAME", "MODEL", "TP", "QUANT", "READY", "PHASE", "REASON", "AGE"]
    assert row[:6] == ["chat", "pvc://models/smollm2", "1", "auto", "1/1", "Ready"]
