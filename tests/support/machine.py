"""What a cluster could leave on the machine, seen without the cluster's own code."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Machine:
    """A picture of the machine: two are equal when nothing was left or taken."""

    mounts: frozenset[str]
    links: frozenset[str]
    routes: frozenset[str]
    packet_rules: str
    control_groups: frozenset[str]
    folders: frozenset[str]

    @classmethod
    def seen_now(cls) -> "Machine":
        """The picture at this moment."""
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        links = re.findall(r"^\d+: ([^:@]+)", _say("ip", "link"), re.MULTILINE)
        rules = [line for line in _say("iptables-save").splitlines() if line.startswith("-A")]
        return cls(
            mounts=frozenset(line.split(" ")[4] for line in mounts),
            links=frozenset(links),
            routes=frozenset(_say("ip", "route").splitlines()),
            packet_rules="\n".join(rules),
            control_groups=frozenset(str(one) for one in _control_groups()),
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
