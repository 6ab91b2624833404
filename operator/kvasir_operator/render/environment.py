"""The engine container's environment.

HOME and USER are set because the pod's user has no passwd entry: without them getpwuid fails deep
inside libraries.
"""

from __future__ import annotations

from typing import Any

from kvasir_operator import names
from kvasir_operator.model.engine import EnvVar
from kvasir_operator.model.source import KeyRef
from kvasir_operator.model.spec import Spec

FIXED = {
    "HOME": "/tmp",
    "USER": "kvasir",
    "HF_HOME": f"{names.CACHE_PATH}/huggingface",
    "TORCHINDUCTOR_CACHE_DIR": f"{names.CACHE_PATH}/inductor",
    "TRITON_CACHE_DIR": f"{names.CACHE_PATH}/triton",
}


def environment(spec: Spec) -> list[dict[str, Any]]:
    """`env:` of the container; what the user sets wins over what is fixed."""
    user = [_variable(variable) for variable in spec.engine.env]
    taken = {variable["name"] for variable in user}
    fixed = [{"name": name, "value": value} for name, value in FIXED.items()]
    own = [*fixed, _pod_name(), *_token(spec.model.token_secret_ref)]
    return [*(variable for variable in own if variable["name"] not in taken), *user]


def _pod_name() -> dict[str, Any]:
    field = {"apiVersion": "v1", "fieldPath": "metadata.name"}
    return {"name": "POD_NAME", "valueFrom": {"fieldRef": field}}


def _token(ref: KeyRef | None) -> list[dict[str, Any]]:
    if ref is None:
        return []
    return [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": ref.model_dump(by_alias=True)}}]


def _variable(variable: EnvVar) -> dict[str, Any]:
    return variable.model_dump(by_alias=True, exclude_none=True)
