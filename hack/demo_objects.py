"""The demo's Kubernetes objects beside its InferenceService: namespaces, the model's claim.

Pure: names and paths come in, manifests leave.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

NAMESPACE = "kvasir-demo"
SYSTEM_NAMESPACE = "kvasir-system"
CLAIM = "models"
VOLUME = "kvasir-demo-models"
STORAGE_CLASS = "local"
MODELS_SIZE = "2Gi"
LOADER = "model-loader"
LOADED_ANNOTATION = "kvasir.dev/demo-model"
MODELS_PATH = "/models"
USER = 65532

Manifest = dict[str, Any]


def namespace(name: str) -> Manifest:
    """Return a namespace that admits only pods of the restricted standard."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def claim(storage_class: str | None, annotations: dict[str, str] | None = None) -> Manifest:
    """Return the claim that the example's model lies in; None is the default StorageClass."""
    spec: Manifest = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": MODELS_SIZE}},
    }
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    metadata: Manifest = {"name": CLAIM, "namespace": NAMESPACE}
    if annotations:
        metadata["annotations"] = annotations
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": spec,
    }


def local_class() -> Manifest:
    """Return the class of volumes that are folders of one node."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": STORAGE_CLASS},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def local_volume(folder: Path, node: str) -> Manifest:
    """Return a volume that is this folder of this node, reserved for the demo's claim."""
    on_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": VOLUME},
        "spec": {
            "capacity": {"storage": MODELS_SIZE},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": STORAGE_CLASS,
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": NAMESPACE,
                "name": CLAIM,
            },
            "local": {"path": str(folder)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
        },
    }


def loader_pod(image: str) -> Manifest:
    """Return a pod that mounts the claim and waits to be handed the model."""
    container = {
        "name": "loader",
        "image": image,
        "command": ["sleep", "3600"],
        "volumeMounts": [{"name": "models", "mountPath": MODELS_PATH}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": LOADER, "namespace": NAMESPACE},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "runAsGroup": USER,
                "fsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": [{"name": "models", "persistentVolumeClaim": {"claimName": CLAIM}}],
        },
    }
