"""What a cluster could leave on the machine, seen without the cluster's own code."""

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Machine:
    """A picture of the machine: two are equal when nothing was left or taken.

    What other programs do meanwhile is left out of it: of mounts, interfaces, routes and control
    groups it shows those that one cluster's id or folder names.
    """

    named: frozenset[str]
    packet_rules: str
    folders: frozenset[str]

    @classmethod
    def seen_now(cls, *names: str) -> "Machine":
        """The picture at this moment of what any of `names` is part of."""
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        lines = [*mounts, *_say("ip", "link").splitlines(), *_say("ip", "route").splitlines()]
        lines += [str(group) for group in _control_groups()]
        rules = [line for line in _say("iptables-save").splitlines() if line.startswith("-A")]
        return cls(
            named=frozenset(line for line in lines if any(name in line for name in names)),
            packet_rules="\n".join(rules),
            folders=frozenset(str(one) for one in _shared_folders()),
        )


def processes_naming(text: str) -> list[str]:
    """The command lines of the machine's processes that contain `text`."""
    lines = _say("ps", "-ww", "-eo", "args").splitlines()
    return [line for line in lines if text in line]


def _control_groups() -> list[Path]:
    root = Path("/sys/fs/cgroup")
    return [*root.glob("kvasir-*"), *root.glob("*/kvasir-*")]


def _shared_folders() -> list[Path]:
    shared = ("/run/netns", "/run/containerd", "/var/lib/cni", "/var/lib/kubelet")
    return [file for folder in shared for file in Path(folder).glob("**/*")]


def _say(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
