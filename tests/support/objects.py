"""Raw Kubernetes objects for the operator's tests, as the API server would return them."""

from typing import Any

from kvasir_operator import names
from kvasir_operator.model.service import InferenceService

Object = dict[str, Any]

T0 = "2026-01-01T00:00:00Z"
T1 = "2026-01-01T00:05:00Z"
SPEC = {"model": {"uri": "pvc://models/smollm2"}, "device": "cpu"}


def raw_service(name: str = "chat", generation: int = 1, **spec: Any) -> Object:
    """A stored InferenceService on cpu; keywords replace fields of its spec."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "generation": generation,
            "resourceVersion": "1",
        },
        "spec": {**SPEC, **spec},
    }


def service(name: str = "chat", generation: int = 1, **spec: Any) -> InferenceService:
    """The same, parsed."""
    return InferenceService.parse(raw_service(name, generation, **spec))


def condition(kind: str, status: str, **more: str) -> Object:
    """A condition of a pod or Deployment."""
    return {"type": kind, "status": status, "lastTransitionTime": T0, **more}


def pod(name: str = "chat-1", revision: str = "r1", **status: Any) -> Object:
    """A pod of the service `chat`; keywords are fields of its status."""
    labels = {**names.labels("chat"), names.LABEL_REVISION: revision}
    meta = {"name": name, "namespace": "team", "uid": f"uid-{name}", "labels": labels}
    meta |= {"creationTimestamp": T0, "resourceVersion": "1"}
    return {"kind": "Pod", "metadata": meta, "status": status}


def ready_pod(name: str = "chat-1", revision: str = "r1") -> Object:
    """A pod that serves."""
    return pod(
        name, revision, conditions=[condition("PodScheduled", "True"), condition("Ready", "True")]
    )


def container(**state: Any) -> list[Object]:
    """containerStatuses of the engine container."""
    return [{"name": names.CONTAINER, "image": "engine:1", "restartCount": 0, **state}]


def deployment(revision: str = "r1", replicas: int = 1, **status: Any) -> Object:
    """A Deployment of the service `chat` whose controller is up to date."""
    counts = {"observedGeneration": 1, "replicas": replicas, "updatedReplicas": replicas}
    return {
        "kind": "Deployment",
        "metadata": {
            "name": "chat",
            "namespace": "team",
            "uid": "uid-deployment",
            "generation": 1,
            "resourceVersion": "1",
            "labels": {**names.labels("chat"), names.LABEL_REVISION: revision},
        },
        "spec": {"replicas": replicas},
        "status": {**counts, **status},
    }
