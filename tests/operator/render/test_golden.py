"""Rendered manifests, held by golden files: a change here restarts users' pods.

KVASIR_UPDATE_GOLDEN=1 writes them anew; read the difference before you commit it.
"""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvasir_operator import render
from kvasir_operator.model.plan import Resolved
from kvasir_operator.model.service import InferenceService
from kvasir_operator.plan import plan
from kvasir_operator.settings import Settings
from support.objects import service

GOLDEN = Path(__file__).parent / "golden"
SETTINGS = Settings(default_image="registry.example/kvasir-runtime:1.0")

EVERYTHING: dict[str, Any] = {
    "model": {
        "uri": "hf://Qwen/Qwen2.5-7B-Instruct",
        "revision": "main",
        "servedName": "qwen",
        "tokenSecretRef": {"name": "hub", "key": "token"},
        "cache": {"size": "40Gi"},
    },
    "device": "cuda",
    "engine": {
        "image": "registry.example/mine:2",
        "dtype": "bfloat16",
        "quantization": "none",
        "gpuMemoryUtilization": 0.85,
        "maxNumSeqs": 64,
        "maxNumBatchedTokens": 4096,
        "maxModelLen": 8192,
        "blockSize": 32,
        "prefixCaching": False,
        "swapSpaceGiB": 0,
        "enforceEager": True,
        "extraArgs": ["--seed", "7"],
        "env": [
            {"name": "HOME", "value": "/home/me"},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        ],
    },
    "parallelism": {"tensor": 1, "pipeline": 1},
    "replicas": 3,
    "resources": {"cpu": 4, "memory": "32Gi", "shmSize": "2Gi"},
    "lifecycle": {"startupTimeoutSeconds": 901, "preStopSeconds": 0, "drainSeconds": 30},
    "nodeSelector": {"gpu": "h100"},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "imagePullSecrets": [{"name": "registry"}],
    "serviceAccountName": "runner",
    "priorityClassName": "serving",
    "podLabels": {"team": "nlp"},
    "podAnnotations": {"note": "x"},
}

CASES = {
    "cpu": service(),
    "cuda": service(device="cuda"),
    "file": service(model={"uri": "file:///srv/models/llama"}),
    "everything": service(**EVERYTHING),
}


def rendered(wanted: InferenceService) -> str:
    resolved = plan(wanted, SETTINGS)
    assert isinstance(resolved, Resolved)
    template = render.pod_template(wanted, resolved)
    objects = [
        render.controller_revision(wanted, template, 1),
        render.deployment(wanted, resolved, template),
        render.service(wanted.ref),
    ]
    return yaml.dump_all(objects, Dumper=_Plain, sort_keys=False)


class _Plain(yaml.SafeDumper):
    """No anchors: the template is written out twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


@pytest.mark.parametrize("name", CASES)
def test_rendered_objects_are_the_golden_ones(name: str) -> None:
    path = GOLDEN / f"{name}.yaml"
    if os.environ.get("KVASIR_UPDATE_GOLDEN"):
        path.write_text(rendered(CASES[name]))
    assert rendered(CASES[name]) == path.read_text()
