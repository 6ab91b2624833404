"""The Debian packages that the cluster needs beside its own programs, installed where missing."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from local_cluster.errors import CommandFailed, MissingPackage, NeedsRoot
from local_cluster.progress import Steps
from local_cluster.shell import run, system_path

# A file that each package brings: asking for the file works where there is no dpkg.
PACKAGES: Mapping[str, str] = {
    "containerd": "containerd",
    "runc": "runc",
    "containernetworking-plugins": "/usr/lib/cni/ptp",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "iptables": "iptables",
    "iproute2": "ip",
    "util-linux": "nsenter",
}


def missing() -> list[str]:
    """The packages whose file is not there."""
    return [package for package, file in PACKAGES.items() if not _is_there(file)]


def require_root() -> None:
    """Raises `NeedsRoot` for a plain user."""
    if os.geteuid() != 0:
        raise NeedsRoot(
            "a cluster needs root (it makes namespaces, mounts and control groups): "
            "run the same command as root"
        )


def ensure(steps: Steps) -> None:
    """Installs what is missing through apt-get; raises `MissingPackage` where it cannot."""
    wanted = missing()
    if not wanted:
        return
    names = " ".join(wanted)
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise MissingPackage(f"not installed: {names}. On Debian, as root: apt-get install {names}")
    with steps.step(f"Install {names}"):
        _install(wanted)
    if left := missing():
        raise MissingPackage(f"installed, and yet not found: {', '.join(left)}")


def _install(packages: list[str]) -> None:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "PATH": system_path()}
    apt = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=120"]
    try:
        run([*apt, "update"], env=env, timeout_s=600)
        install = [*apt, "install", "-y", "--no-install-recommends", *packages]
        run(install, env=env, timeout_s=1800)
    except CommandFailed as error:
        raise MissingPackage(
            f"{error}\nInstall them by hand: apt-get install {' '.join(packages)}"
        ) from error


def _is_there(file: str) -> bool:
    if file.startswith("/"):
        return Path(file).exists()
    return shutil.which(file, path=system_path()) is not None
