"""The words that never change on the wire: group, labels, annotations, ports, paths.

Constants only, so that every part of the operator spells them the same way.
"""

from __future__ import annotations

GROUP = "kvasir.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "InferenceService"
PLURAL = "inferenceservices"
SINGULAR = "inferenceservice"
SHORT_NAME = "kvs"
CATEGORY = "inference"

FIELD_MANAGER = "kvasir"
COMPONENT = "kvasir-operator"

LABEL_SERVICE = f"{GROUP}/inferenceservice"
LABEL_REVISION = f"{GROUP}/revision"
LABEL_NAME = "app.kubernetes.io/name"
LABEL_INSTANCE = "app.kubernetes.io/instance"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
ANNOTATION_APPLIED = f"{GROUP}/applied"

NAME_MAX_LENGTH = 40
PORT = 8000
PORT_NAME = "http"
CONTAINER = "engine"
GPU_RESOURCE = "nvidia.com/gpu"

MODELS_PATH = "/models"
CACHE_PATH = "/var/cache/kvasir"
REVISIONS_KEPT = 5


def labels(name: str) -> dict[str, str]:
    """Labels of every child of the InferenceService `name`."""
    return {
        LABEL_NAME: "kvasir",
        LABEL_INSTANCE: name,
        LABEL_MANAGED_BY: "kvasir",
        LABEL_SERVICE: name,
    }


def selector(name: str) -> dict[str, str]:
    """What selects the pods of the InferenceService `name`; immutable in a Deployment."""
    return {LABEL_SERVICE: name}


def url(namespace: str, name: str) -> str:
    """Where clients inside the cluster reach the model."""
    return f"http://{name}.{namespace}.svc:{PORT}"


def revision_name(name: str, revision: str) -> str:
    """Name of the ControllerRevision that keeps the template with hash `revision`."""
    return f"{name}-{revision}"
