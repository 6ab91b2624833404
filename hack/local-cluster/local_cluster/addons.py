"""What every cluster has before its user comes: the pause image and the cluster's own DNS.

Both images are one static program on an empty base. Their names carry the program's hash, so that
a changed program is another image; once loaded, buildah's copy is removed.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from string import Template

from local_cluster.image_store import ImageStore
from local_cluster.locks import locked
from local_cluster.shell import run

MANIFESTS = Path(__file__).parent.parent / "manifests"
ONE_AT_A_TIME = Path("/run/kvasir-images.lock")
RECIPE = """FROM scratch
COPY {program} /{program}
USER 65532:65532
ENTRYPOINT ["/{program}"]
"""


@dataclass(frozen=True, slots=True)
class ProgramImage:
    """An image that holds one static program."""

    program: Path

    @property
    def name(self) -> str:
        """The image's name, with a tag made from the program's content."""
        digest = hashlib.sha256(RECIPE.encode() + self.program.read_bytes()).hexdigest()
        return f"localhost/kvasir-{self.program.name}:{digest[:12]}"

    def ensure(self, store: ImageStore, log: Path) -> str:
        """Builds and loads the image where the node lacks it; returns its name."""
        name = self.name
        # Another cluster's start may be at the same image, and remove it under our hands.
        with locked(ONE_AT_A_TIME):
            if not store.has(name):
                self._build(name)
                try:
                    store.load(name, log)
                finally:
                    run(["buildah", "rmi", name])
        return name

    def _build(self, name: str) -> None:
        program = self.program.resolve()
        build = ["buildah", "bud", "--isolation", "chroot", "--quiet", "--layers=false"]
        recipe = RECIPE.format(program=program.name)
        run([*build, "-t", name, "-f", "-", program.parent], input_text=recipe, timeout_s=300)


def dns_manifests(image: str, dns_service: str) -> str:
    """The objects of the cluster's DNS."""
    text = (MANIFESTS / "coredns.yaml").read_text()
    return Template(text).substitute(IMAGE=image, DNS_SERVICE=dns_service)
