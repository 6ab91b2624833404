"""The few things this project asks of buildah: does an image exist, build, tag, push, forget."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from local_cluster.errors import BuildFailed
from local_cluster.shell import run, succeeds

BUILDAH = ("buildah",)
STAGE_LINE = re.compile(r"^(?:\[\d+/\d+\] )?STEP (\d+)/(\d+): (.*)")


@dataclass(frozen=True, slots=True)
class Build:
    """One build of one target of a Dockerfile."""

    context: Path
    target: str
    tag: str
    arguments: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, Path] = field(default_factory=dict)
    volumes: dict[Path, str] = field(default_factory=dict)

    def command(self) -> list[str]:
        """Return buildah's command line.

        chroot isolation builds where there are no user namespaces to give away; the docker format
        is the one with a place for HEALTHCHECK.
        """
        options = ["--layers", "--isolation", "chroot", "--format", "docker"]
        for name, value in self.arguments.items():
            options += ["--build-arg", f"{name}={value}"]
        for name, file in self.secrets.items():
            options += ["--secret", f"id={name},src={file}"]
        for folder, inside in self.volumes.items():
            options += ["--volume", f"{folder}:{inside}"]
        options += ["--target", self.target, "--tag", self.tag]
        return [*BUILDAH, "build", *options, str(self.context)]


def exists(image: str) -> bool:
    """Tell whether buildah's storage has the image."""
    return succeeds([*BUILDAH, "inspect", "--type", "image", "--format", "{{.FromImageID}}", image])


def build(order: Build, log: Path, on_instruction: Callable[[int, int, str], None]) -> None:
    """Build one target, its output in ``log``; tell each instruction's number, count and text."""
    run_logged(order.command(), log, lambda line: _tell(line, on_instruction))


def run_logged(command: Sequence[str], log: Path, on_line: Callable[[str], None]) -> None:
    """Run a long command, its output appended to ``log`` and told line by line.

    Raises:
        BuildFailed: the command ended with an error; the log says which.
    """
    with (
        log.open("a") as file,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            file.write(line)
            file.flush()
            on_line(line.rstrip())
    if process.returncode != 0:
        raise BuildFailed(f"`{' '.join(command[:2])}` ended with {process.returncode}", log=log)


def tag(image: str, other: str) -> None:
    """Give an image one more name."""
    run([*BUILDAH, "tag", image, other])


def push(image: str, to: str, log: Path) -> None:
    """Push an image to a registry; credentials are the ones ``buildah login`` keeps."""
    run_logged([*BUILDAH, "push", image, f"docker://{to}"], log, lambda _line: None)


def forget_other_tags(image: str) -> None:
    """Delete this repository's images of other content, with the layers only they use."""
    repository = image.rpartition(":")[0]
    listed = run([*BUILDAH, "images", "--noheading", "--format", "{{.Name}}:{{.Tag}}"])
    for other in listed.split():
        if other.rpartition(":")[0] == repository and other not in (image, f"{repository}:dev"):
            succeeds([*BUILDAH, "rmi", other], timeout_s=300)


def forget_older_stages(label: str, keep: int) -> None:
    """Delete unnamed images of this label but the newest: each build leaves its own behind."""
    filters = ["--filter", "dangling=true", "--filter", f"label={label}"]
    listed = run([*BUILDAH, "images", "--quiet", "--no-trunc", *filters])  # newest first
    for image in listed.split()[keep:]:
        succeeds([*BUILDAH, "rmi", image], timeout_s=300)


def _tell(line: str, on_instruction: Callable[[int, int, str], None]) -> None:
    if match := STAGE_LINE.match(line):
        on_instruction(int(match[1]), int(match[2]), match[3])
