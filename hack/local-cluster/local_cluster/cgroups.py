"""The control groups of the cluster's pods: made before the kubelet starts, emptied at the end.

Works on the unified hierarchy and on the older one with a folder for each controller.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from local_cluster.processes import end

ROOT = Path("/sys/fs/cgroup")
UNIFIED_CONTROLLERS = ("cpu", "cpuset", "memory", "pids", "io", "hugetlb")


def make(name: str) -> None:
    """Creates the group under each controller."""
    for hierarchy in hierarchies():
        group = hierarchy / name
        _delegate(hierarchy)
        group.mkdir(exist_ok=True)
        _delegate(group)
        _inherit_cpus(hierarchy, group)


def processes(name: str) -> list[int]:
    """Every process in the group or below it."""
    found: set[int] = set()
    for group in groups(name):
        with suppress(FileNotFoundError, OSError):
            found.update(int(pid) for pid in (group / "cgroup.procs").read_text().split())
    return sorted(found)


def kill(name: str, *, patience_s: float = 15) -> None:
    """Kills every process of the group, also those born meanwhile."""
    deadline = time.monotonic() + patience_s
    while (pids := processes(name)) and time.monotonic() < deadline:
        end(pids, signal.SIGKILL)
        time.sleep(0.05)


def remove(name: str, *, patience_s: float = 5) -> None:
    """Removes the empty group, the innermost first."""
    deadline = time.monotonic() + patience_s
    while left := list(groups(name)):
        for group in left:
            with suppress(OSError):
                group.rmdir()
        if time.monotonic() > deadline:
            return
        time.sleep(0.02)


def hierarchies() -> list[Path]:
    """The folder of each mounted hierarchy, one for several names of the same."""
    if (ROOT / "cgroup.controllers").exists():
        return [ROOT]
    folders = [entry for entry in ROOT.iterdir() if (entry / "cgroup.procs").exists()]
    return sorted({folder.resolve() for folder in folders})


def tops(name: str) -> list[Path]:
    """The group under each hierarchy that has it."""
    return [top for hierarchy in hierarchies() if (top := hierarchy / name).is_dir()]


def groups(name: str) -> Iterator[Path]:
    """The group and those below it, the innermost first."""
    for top in tops(name):
        # Groups vanish while they are walked: `os.walk` passes over what is gone.
        for folder, _, _ in os.walk(top, topdown=False):
            yield Path(folder)


def _delegate(group: Path) -> None:
    """On the unified hierarchy, gives the group's children each controller there is."""
    control = group / "cgroup.subtree_control"
    if not control.exists():
        return
    for controller in UNIFIED_CONTROLLERS:
        with suppress(OSError):
            control.write_text(f"+{controller}")


def _inherit_cpus(parent: Path, group: Path) -> None:
    """On the older hierarchy, a new group starts without processors."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        file = group / name
        if file.exists() and (parent / name).exists() and not file.read_text().strip():
            with suppress(OSError):
                file.write_text((parent / name).read_text())
