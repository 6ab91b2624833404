"""Where each file of one cluster lies, seen from the machine and from inside the cluster.

Enters: the state folder. Leaves: paths and the cluster's short id. Inside the cluster's own mount
namespace the state folder is `/run/kvasir` whatever its path outside, so that no socket meets
the 108 characters a socket's path may have, and no rendered file names the folder.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from local_cluster.errors import ClusterError

INSIDE = Path("/run/kvasir")
CONTAINERD_SOCKET = Path("/run/containerd/containerd.sock")
KUBELET_ROOT = Path("/var/lib/kubelet")
CNI_CACHE = Path("/var/lib/cni")
NODE_NAME = "local"


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one cluster, all under `state`."""

    state: Path

    @classmethod
    def of(cls, state: Path) -> "Layout":
        """The layout of a state folder given in any form."""
        return cls(state.expanduser().resolve())

    @property
    def id(self) -> str:
        """Eight hex digits that no other state folder of this machine has."""
        return hashlib.sha256(str(self.state).encode()).hexdigest()[:8]

    @property
    def cgroup(self) -> str:
        """The name of the top control group of the cluster's pods."""
        return f"kvasir-{self.id}"

    @property
    def host_link(self) -> str:
        """The machine's end of the cable to the cluster: at most 15 characters."""
        return f"kvs{self.id}"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.state / "kubeconfig"

    @property
    def pids(self) -> Path:
        """One file for each running daemon."""
        return self.state / "pids"

    @property
    def logs(self) -> Path:
        """One file for each daemon."""
        return self.state / "log"

    @property
    def pki(self) -> Path:
        """Keys and certificates."""
        return self.state / "pki"

    @property
    def config(self) -> Path:
        """Rendered configuration files."""
        return self.state / "config"

    @property
    def network(self) -> Path:
        """The block of addresses the cluster was given."""
        return self.state / "network.json"

    @property
    def lock(self) -> Path:
        """Held by the one command that changes the cluster."""
        return self.state.with_name(self.state.name + ".lock")

    @property
    def fingerprint(self) -> Path:
        """What was started last."""
        return self.state / "fingerprint"

    def claim(self) -> None:
        """Makes the folder a cluster's; raises `ClusterError` where it is somebody else's."""
        if self.state.is_dir() and any(self.state.iterdir()):
            self.require_claimed()
        self.state.mkdir(parents=True, exist_ok=True)
        self._claim_file.touch()
        self._make_folders()

    def require_claimed(self) -> None:
        """Raises `ClusterError` for a folder that no cluster made."""
        if not self._claim_file.exists():
            raise ClusterError(
                f"{self.state} holds something else than a cluster's state: name another folder"
            )

    @property
    def _claim_file(self) -> Path:
        return self.state / "this-is-a-kvasir-cluster"

    def _make_folders(self) -> None:
        for folder in (self.pids, self.logs, self.config):
            folder.mkdir(parents=True, exist_ok=True)
        for name in ("etcd", "containerd", "kubelet"):
            (self.state / name).mkdir(mode=0o700, exist_ok=True)
        self.pki.mkdir(mode=0o700, exist_ok=True)


def inside(*parts: str) -> str:
    """The path of a file of the state folder as the daemons see it."""
    return str(INSIDE.joinpath(*parts))
