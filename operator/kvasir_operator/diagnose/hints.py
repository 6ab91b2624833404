"""What to do about a failure when the engine did not say it itself."""

from __future__ import annotations

GENERIC = "read the container's log: kubectl logs {pod} -c engine --previous"

BY_REASON = {
    "OOMKilled": "the container used more memory than its limit: raise resources.memory, or make "
    "engine.kvCacheGiB or engine.maxNumSeqs smaller",
    "ImagePullBackOff": "check engine.image (or the operator's --default-image), the registry's "
    "reachability and imagePullSecrets",
    "InvalidImageName": "engine.image is no image reference: write REGISTRY/NAME:TAG",
    "CreateContainerConfigError": "a Secret or ConfigMap that engine.env or model.tokenSecretRef "
    "names is missing in this namespace, or lacks the key",
    "CreateContainerError": "the node's container runtime refused the container; the message says "
    "why",
    "ContainerCannotRun": "the image could not be started: check that engine.image is an engine "
    "image for this node's architecture",
    "StartError": "the image could not be started: check that engine.image is an engine image for "
    "this node's architecture",
    "Evicted": "the node ran short of memory or disk: set resources.memory or model.cache.size, or "
    "use a larger node",
    "Unschedulable": "compare what the pod asks for with what nodes have: resources, nodeSelector, "
    "tolerations; `kubectl describe pod` and `kubectl describe node` show both",
    "GPUUnavailable": "no node has a free nvidia.com/gpu: add a GPU node (with NVIDIA's device "
    "plugin), free one, or set device: cpu for a small model",
    "ClaimNotFound": "create the PersistentVolumeClaim that model.uri names in this namespace, or "
    "correct the name after pvc://",
    "ClaimNotBound": "the PersistentVolumeClaim has no volume yet: `kubectl describe pvc` says why "
    "(no StorageClass, no matching volume)",
    "VolumeMountFailed": "the model's volume does not mount: check the claim, or with file:// that "
    "the folder exists on the node",
    "PodsRefused": "the namespace does not let the pod be created: read the message (a quota, a "
    "pod security standard: file:// needs one that allows hostPath)",
}

BY_EXIT_CODE = {
    137: "the container was killed: the node ran out of memory, or a probe failed for too long "
    "(lifecycle.startupTimeoutSeconds); " + GENERIC,
    143: "the container was told to stop, by a failed probe for instance: a slow start needs a "
    "larger lifecycle.startupTimeoutSeconds; " + GENERIC,
}


def hint_for(reason: str, pod: str, exit_code: int | None = None) -> str:
    """The best hint known for a reason, then for an exit code, then the generic one."""
    if reason in BY_REASON:
        return BY_REASON[reason]
    hint = BY_EXIT_CODE.get(exit_code, GENERIC) if exit_code is not None else GENERIC
    return hint.format(pod=pod)
