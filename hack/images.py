"""Build the operator's and the runtime's image with buildah; each tag says what is in it.

Enters: the sources of this checkout. Leaves: ``localhost/kvasir-operator:KEY`` and
``localhost/kvasir-runtime:KEY`` in buildah's storage, tagged ``dev`` as well. An image whose key
is there is not built again, and those of older keys are deleted.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from local_cluster import disk, packages
from local_cluster.binaries import cache_root
from local_cluster.errors import ClusterError
from local_cluster.locks import locked
from local_cluster.progress import Steps

import base_image
import buildah
from content_key import content_key

CHECKOUT = Path(__file__).resolve().parent.parent
LOG_FOLDER = CHECKOUT / ".kvasir" / "log"
STORAGE = Path("/var/lib/containers")
BASE_GIB = 2.0
# Both hold the layer of dependencies twice while buildah commits it.
CPU_ONLY_GIB = 9.0
FULL_GIB = 14.0

STAGE_LABEL = "dev.kvasir.stage"  # the Dockerfile gives it to the stages that make wheels
SHARED_INPUTS = ("Dockerfile", ".dockerignore", "hack/image", "pyproject.toml", "uv.lock")
TARGET_INPUTS = {"operator": ("operator",), "runtime": ("runtime", "kernels")}


@dataclass(frozen=True, slots=True)
class Options:
    """What the images are to be: for machines without GPUs, on a base the user has."""

    cpu_only: bool = False
    base: str | None = None


@dataclass(frozen=True, slots=True)
class Images:
    """The names of the two images, with the tags that name their content."""

    operator: str
    runtime: str

    def as_list(self) -> list[str]:
        """Return both names."""
        return [self.operator, self.runtime]


def named(options: Options) -> Images:
    """Return the images that this checkout's sources make, built or not."""
    base = options.base or base_image.image()
    inputs = {target: [*SHARED_INPUTS, *own] for target, own in TARGET_INPUTS.items()}
    operator = content_key(CHECKOUT, inputs["operator"], base)
    runtime = content_key(CHECKOUT, inputs["runtime"], base, f"cpu_only={options.cpu_only}")
    return Images(f"localhost/kvasir-operator:{operator}", f"localhost/kvasir-runtime:{runtime}")


def ensure(steps: Steps, options: Options) -> Images:
    """Return both images, building what isn't there."""
    images = named(options)
    packages.ensure(steps)
    LOG_FOLDER.mkdir(parents=True, exist_ok=True)
    with locked(cache_root() / "images.lock"):
        missing = [image for image in images.as_list() if not buildah.exists(image)]
        if not missing:
            steps.info("Images: already built")
        else:
            disk.require(
                STORAGE, FULL_GIB if not options.cpu_only else CPU_ONLY_GIB, "building images"
            )
        base = options.base or (ensure_base(steps) if missing else "")
        for image in missing:
            _build(steps, image, base, options)
        for image in images.as_list():
            buildah.tag(image, f"{image.rpartition(':')[0]}:dev")
            buildah.forget_other_tags(image)
        buildah.forget_older_stages(STAGE_LABEL, keep=len(TARGET_INPUTS))
    return images


def ensure_base(steps: Steps) -> str:
    """Return the Debian base image, building it if it isn't there."""
    image = base_image.image()
    LOG_FOLDER.mkdir(parents=True, exist_ok=True)
    if not buildah.exists(image):
        disk.require(STORAGE, BASE_GIB, "building the base image")
        log = _fresh_log("image-base")
        with steps.step("Build the base image", log=log) as step:
            base_image.build(step, log)
        buildah.forget_other_tags(image)
    return image


def _build(steps: Steps, image: str, base: str, options: Options) -> None:
    target = image.rpartition(":")[0].rpartition("-")[2]
    log = _fresh_log(f"image-{target}")
    order = buildah.Build(
        context=CHECKOUT,
        target=target,
        tag=image,
        arguments={"BASE_IMAGE": base} | ({"CPU_ONLY": "1"} if options.cpu_only else {}),
        secrets=host_certificates(),
        volumes=host_cache(),
    )
    with steps.step(f"Build the {target} image", log=log) as step:

        def show(number: int, count: int, instruction: str) -> None:
            step.advance_to(number - 1, count)
            step.note(instruction.split(" --", 1)[0][:40])

        buildah.build(order, log, show)


def host_certificates() -> dict[str, Path]:
    """Return the CA bundle that this machine's user set for downloads, as a build secret."""
    for variable in ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE"):
        bundle = Path(os.environ.get(variable, ""))
        if bundle.is_file():
            return {"ca": bundle}
    return {}


def host_cache() -> dict[Path, str]:
    """Return uv's cache of downloads, so that a build reuses what ``make setup`` fetched."""
    asked = subprocess.run(
        [sys.executable, "-m", "uv", "cache", "dir"], capture_output=True, text=True, check=False
    )
    folder = Path(asked.stdout.strip())
    return {folder: "/host/uv-cache"} if asked.returncode == 0 and folder.is_dir() else {}


def _fresh_log(name: str) -> Path:
    log = LOG_FOLDER / f"{name}.log"
    log.write_text("")
    return log


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the images and print their names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu-only", action="store_true", help="leave out what only GPUs use")
    parser.add_argument("--base", help="base image; default: one made of Debian's packages")
    parsed = parser.parse_args(arguments)
    try:
        images = ensure(Steps(), Options(parsed.cpu_only, parsed.base or None))
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(images.as_list()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
