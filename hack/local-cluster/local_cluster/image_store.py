"""The node's images: moved from buildah's storage into containerd through a pipe.

The pipe spares the archive on disk, and once a layer is unpacked its packed form is removed from
containerd: of each image the machine keeps buildah's copy and the unpacked one, no third.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from local_cluster import disk, image_pipe
from local_cluster.layout import CONTAINERD_SOCKET
from local_cluster.shell import run

SOURCE_LABEL = "kvasir.dev/source"
NAMESPACE = "k8s.io"
# While an image comes in: buildah's largest layer on its way, the packed layers, the unpacked.
DISK_FACTOR = 3

OnProgress = Callable[[float, float], None]


@dataclass(frozen=True, slots=True)
class ImageStore:
    """containerd's images; `enter` is what makes a command run inside the cluster."""

    enter: Sequence[str]

    def load(self, name: str, log: Path, on_progress: OnProgress | None = None) -> bool:
        """Brings an image of buildah's storage in; False where this very image is there.

        `on_progress` hears the bytes done and their total.
        """
        source = buildah_id(name)
        if self.source_of(name) == source:
            return False
        if same := self._named_otherwise(source):
            self._ctr("images", "tag", "--force", same, name)
        else:
            self._import(name, log, on_progress or _say_nothing)
        self._ctr("images", "label", name, f"{SOURCE_LABEL}={source}")
        return True

    def has(self, name: str) -> bool:
        """Whether an image of that name is there."""
        return name in self._ctr("images", "ls", "-q", f"name=={name}").split()

    def source_of(self, name: str) -> str | None:
        """The id that the image had in buildah's storage, or None."""
        listing = self._ctr("images", "ls", f"name=={name}")
        for word in listing.replace(",", " ").split():
            if word.startswith(f"{SOURCE_LABEL}="):
                return word.partition("=")[2]
        return None

    def remove_containers(self) -> None:
        """Removes every container and what it wrote; their processes have ended before."""
        if tasks := self._ctr("tasks", "ls", "-q").split():
            self._ctr("tasks", "rm", "-f", *tasks)
        if containers := self._ctr("containers", "ls", "-q").split():
            self._ctr("containers", "rm", *containers)

    def _named_otherwise(self, source: str) -> str | None:
        names = self._ctr("images", "ls", "-q", f'labels."{SOURCE_LABEL}"=="{source}"').split()
        return names[0] if names else None

    def _import(self, name: str, log: Path, tell: OnProgress) -> None:
        total = image_pipe.size_bytes(name)
        disk.require(log, DISK_FACTOR * total / disk.GIB, f"Loading {name}")
        importer = self._command("images", "import", "-")
        image_pipe.stream(name, importer, log, lambda done: tell(done, total))
        self._drop_packed_layers(name)

    def _drop_packed_layers(self, name: str) -> None:
        """The snapshots hold the layers' files; the manifest and the configuration stay."""
        fields = self._ctr("images", "ls", f"name=={name}").splitlines()[1].split()
        digest = next(field for field in fields if field.startswith("sha256:"))
        manifest = json.loads(self._ctr("content", "get", digest))
        self._ctr("content", "rm", *(layer["digest"] for layer in manifest["layers"]))

    def _ctr(self, *words: str) -> str:
        return run(self._command(*words))

    def _command(self, *words: str) -> list[str]:
        return [*self.enter, "ctr", "-a", str(CONTAINERD_SOCKET), "-n", NAMESPACE, *words]


def buildah_id(name: str) -> str:
    """The id of an image in buildah's storage; raises `CommandFailed` where there is none."""
    ids = run(["buildah", "images", "--quiet", "--no-trunc", name]).split()
    return ids[0]


def _say_nothing(done: float, total: float) -> None:
    """For who shows no progress."""
