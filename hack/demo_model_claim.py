"""Give the demo's model to a cluster through a PersistentVolumeClaim.

On the local cluster the claim is this machine's own folder, so nothing is copied. On a cluster
that the user has, it is a claim of the default StorageClass, which a pod fills once.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from local_cluster.progress import Step

import demo_model
import demo_objects as objects
from kube import Kube

LOADER_TIMEOUT = "300s"


def bind_local_folder(kube: Kube, models: Path, node: str) -> None:
    """Bind the claim to the folder of models on the node that is this machine."""
    volume = kube.find("persistentvolume", objects.VOLUME)
    if volume is not None and volume.get("status", {}).get("phase") in ("Released", "Failed"):
        kube.kubectl("delete", "persistentvolume", objects.VOLUME)  # its claim is gone for good
    kube.apply(
        objects.local_class(),
        objects.local_volume(models, node),
        objects.claim(objects.STORAGE_CLASS),
    )


def load_into_claim(kube: Kube, folder: Path, image: str, step: Step) -> None:
    """Fill a claim of the default StorageClass with the model, unless it holds it already."""
    wanted = loaded_mark()
    if _mark_of_claim(kube) == wanted:
        step.finish_as("already there")
        return
    kube.apply(objects.claim(None))
    _delete_loader(kube)
    kube.apply(objects.loader_pod(image))
    try:
        _wait_for_loader(kube)
        _copy(kube, folder)
    finally:
        _delete_loader(kube)
    kube.apply(objects.claim(None, {objects.LOADED_ANNOTATION: wanted}))


def loaded_mark() -> str:
    """Return the value that says which model a claim was filled with."""
    return hashlib.sha256(demo_model.recipe().encode()).hexdigest()[:12]


def unpack_command(folder_name: str) -> list[str]:
    """Return the shell command that unpacks an archive and puts it in its place at once."""
    incoming, place = f"{objects.MODELS_PATH}/.incoming", f"{objects.MODELS_PATH}/{folder_name}"
    script = (
        f"rm -rf {incoming} && mkdir {incoming} && tar -xf - -C {incoming} --no-same-owner"
        f" && rm -rf {place} && mv {incoming}/{folder_name} {place} && rmdir {incoming}"
    )
    return ["sh", "-euc", script]


def _mark_of_claim(kube: Kube) -> str | None:
    found = kube.find("persistentvolumeclaim", objects.CLAIM, f"--namespace={objects.NAMESPACE}")
    annotations = (found or {}).get("metadata", {}).get("annotations", {})
    mark = annotations.get(objects.LOADED_ANNOTATION)
    return None if mark is None else str(mark)


def _wait_for_loader(kube: Kube) -> None:
    namespace = f"--namespace={objects.NAMESPACE}"
    words = ["--for=condition=Ready", f"--timeout={LOADER_TIMEOUT}", f"pod/{objects.LOADER}"]
    kube.kubectl("wait", namespace, *words, timeout_s=330)


def _copy(kube: Kube, folder: Path) -> None:
    archive = ["tar", "-cf", "-", "-C", str(folder.parent), folder.name]
    into = ["exec", "--stdin", f"--namespace={objects.NAMESPACE}", objects.LOADER, "--"]
    kube.feed(archive, *into, *unpack_command(folder.name))


def _delete_loader(kube: Kube) -> None:
    words = ["--ignore-not-found", "--grace-period=0", "--force"]
    kube.kubectl("delete", "pod", objects.LOADER, f"--namespace={objects.NAMESPACE}", *words)
