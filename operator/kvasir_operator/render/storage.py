"""Where a pod finds the model, and where it may write: volumes and mounts.

The root file system is read-only. What the engine writes goes to /tmp, to the cache folder
(downloaded weights, compiled kernels: it has to be executable) and to /dev/shm.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from kvasir_operator import names
from kvasir_operator.model.source import ModelSpec
from kvasir_operator.model.spec import Spec

SHM_SIZE = "1Gi"

Part = dict[str, Any]


def model_argument(uri: str) -> str:
    """What `--model` is given: a folder in the pod, or the hub's ORG/NAME."""
    scheme, _, rest = uri.partition("://")
    if scheme == "hf":
        return rest
    if scheme == "pvc":
        _, _, path = rest.partition("/")
        return str(PurePosixPath(names.MODELS_PATH, path))
    return str(PurePosixPath(names.MODELS_PATH, PurePosixPath(rest).name))


def volumes(spec: Spec) -> list[Part]:
    """The pod's volumes."""
    shm = {"medium": "Memory", "sizeLimit": spec.resources.shm_size or SHM_SIZE}
    return [
        {"name": "shm", "emptyDir": shm},
        {"name": "tmp", "emptyDir": {}},
        {"name": "cache", "emptyDir": _cache(spec.model)},
        *_model_volume(spec.model.uri),
    ]


def mounts(spec: Spec) -> list[Part]:
    """The engine container's mounts."""
    fixed = [
        {"name": "shm", "mountPath": "/dev/shm"},
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": "cache", "mountPath": names.CACHE_PATH},
    ]
    if spec.model.uri.startswith("hf://"):
        return fixed
    path = (
        names.MODELS_PATH if spec.model.uri.startswith("pvc://") else model_argument(spec.model.uri)
    )
    return [*fixed, {"name": "model", "mountPath": path, "readOnly": True}]


def _cache(model: ModelSpec) -> Part:
    return {"sizeLimit": model.cache.size} if model.cache and model.cache.size else {}


def _model_volume(uri: str) -> list[Part]:
    scheme, _, rest = uri.partition("://")
    if scheme == "pvc":
        claim = {"claimName": rest.partition("/")[0], "readOnly": True}
        return [{"name": "model", "persistentVolumeClaim": claim}]
    if scheme == "file":
        # Directory: a path that is missing must not be made, empty, on the node.
        return [{"name": "model", "hostPath": {"path": rest, "type": "Directory"}}]
    return []
