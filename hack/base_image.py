"""The base image of machines that reach no image registry, made of Debian's own packages.

Enters: the package archive that this machine's apt uses. Leaves: ``localhost/kvasir-base:KEY`` in
buildah's storage, where KEY names what it is made from. It has all that the Dockerfile would
otherwise install, so that a build needs no package archive.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from local_cluster.progress import Step
from local_cluster.shell import run, succeeds

import buildah

SUITE = "bookworm"
ARCHIVE = "http://deb.debian.org/debian"
PACKAGES = (
    "ca-certificates",
    "curl",
    "gcc",
    "libc6-dev",
    "python3",
    "python3-dev",
    "python3-venv",
)
PACKAGES_TO_FETCH = 175  # about; for the progress bar
WORKING_CONTAINER = "kvasir-base-building"


def image() -> str:
    """Return the image's name; another list of packages gives another name."""
    recipe = " ".join([SUITE, *PACKAGES])
    return f"localhost/kvasir-base:{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


def build(step: Step, log: Path) -> str:
    """Make the base image straight in buildah's storage, so that no second copy is made."""
    succeeds([*buildah.BUILDAH, "rm", WORKING_CONTAINER])  # left by an interrupted build
    run([*buildah.BUILDAH, "from", "--name", WORKING_CONTAINER, "scratch"])
    try:
        root = Path(run([*buildah.BUILDAH, "mount", WORKING_CONTAINER]).strip())
        _bootstrap(root, step, log)
        run([*buildah.BUILDAH, "umount", WORKING_CONTAINER])
        run([*buildah.BUILDAH, "config", "--cmd", "/bin/sh", WORKING_CONTAINER])
        run([*buildah.BUILDAH, "commit", "--quiet", WORKING_CONTAINER, image()], timeout_s=600)
    finally:
        succeeds([*buildah.BUILDAH, "rm", WORKING_CONTAINER])
    return image()


def _bootstrap(root: Path, step: Step, log: Path) -> None:
    seen = 0

    def show(line: str) -> None:
        nonlocal seen
        if line.startswith(("I: Validating ", "I: Unpacking ", "I: Configuring ")):
            seen += 1
            step.advance_to(seen, 3 * PACKAGES_TO_FETCH)
            step.note(line.removeprefix("I: "))

    packages = ",".join(PACKAGES)
    options = ["--variant=minbase", f"--include={packages}"]
    buildah.run_logged(["debootstrap", *options, SUITE, str(root), ARCHIVE], log, show)
    for leftover in ("var/cache/apt/archives", "var/lib/apt/lists"):
        shutil.rmtree(root / leftover, ignore_errors=True)
        (root / leftover / "partial").mkdir(parents=True)
