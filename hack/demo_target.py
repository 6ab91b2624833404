"""The two places the demo can run in: the cluster of this checkout, or one that the user has.

They differ in how images and the model reach the nodes, and in what the user is told at the end.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from local_cluster import Cluster, binaries
from local_cluster.errors import MissingPackage
from local_cluster.layout import NODE_NAME
from local_cluster.progress import Steps

import buildah
import demo_chat
import demo_model_claim
import demo_objects as objects
from images import Images, Options
from kube import Kube, context_kube, local_kube

FOLLOW_UP = "make cluster-down"


@dataclass(frozen=True, slots=True)
class Farewell:
    """The lines that set up a shell for the cluster, and those that take the demo down."""

    setup: list[str]
    down: list[str]


class Target(Protocol):
    """Where the demo runs."""

    def image_options(self) -> Options:
        """Say which images it needs."""

    def connect(self, steps: Steps) -> Kube:
        """Return access to the cluster, started first where it is ours."""

    def bring_images(self, images: Images, steps: Steps, log: Path) -> Images:
        """Make the images available to the nodes; return their names there."""

    def bring_model(self, kube: Kube, folder: Path, images: Images, steps: Steps) -> None:
        """Make the model available in the demo's claim."""

    def ask_command(self, kube: Kube, service: str) -> str:
        """Return the command line that asks the service a question from the user's shell."""

    def farewell(self) -> Farewell:
        """Return what the user's shell needs from here on."""


@dataclass(frozen=True, slots=True)
class LocalTarget:
    """The one-node cluster that this checkout starts, without any registry."""

    cluster: Cluster
    cluster_down: str = FOLLOW_UP

    def image_options(self) -> Options:
        """Leave out what only GPUs use: the node is this machine's CPU."""
        return Options(cpu_only=True)

    def connect(self, steps: Steps) -> Kube:
        """Build the cluster's programs and start it, both only where needed."""
        binaries.ensure(steps)
        self.cluster.up(steps)
        return local_kube(self.cluster.bin, self.cluster.kubeconfig, self.cluster.env())

    def bring_images(self, images: Images, steps: Steps, log: Path) -> Images:
        """Hand the images to the node's containerd."""
        for image in images.as_list():
            with steps.step(f"Load {image} into the cluster", log=log) as step:
                if not self.cluster.load_image(image):
                    step.finish_as("already there")
        return images

    def bring_model(self, kube: Kube, folder: Path, images: Images, steps: Steps) -> None:
        """Bind the claim to the folder itself: the node is this machine."""
        with steps.step("Bind the claim to the model's folder"):
            demo_model_claim.bind_local_folder(kube, folder.parent, NODE_NAME)

    def ask_command(self, kube: Kube, service: str) -> str:
        """Return a curl to the Service's own address: this machine has a route to it."""
        found = kube.find("service", service, f"--namespace={objects.NAMESPACE}") or {}
        url = f"http://{found['spec']['clusterIP']}:{demo_chat.SERVICE_PORT}"
        body = json.dumps(demo_chat.request_body(service))
        json_type = "--header 'Content-Type: application/json'"
        return f"curl --noproxy '*' {url}{demo_chat.PATH} {json_type} --data '{body}'"

    def farewell(self) -> Farewell:
        """Return exports for this cluster, and how to stop it."""
        setup = [
            f"export KUBECONFIG={self.cluster.kubeconfig}",
            f"export PATH={self.cluster.bin}:$PATH",
        ]
        return Farewell(setup, [self.cluster_down])


@dataclass(frozen=True, slots=True)
class ExistingTarget:
    """A cluster of the user's kubeconfig, with a registry that its nodes pull from."""

    context: str
    registry: str
    base: str | None = None

    def image_options(self) -> Options:
        """Ask for whole images: they stay the cluster's default, and it may have GPUs."""
        return Options(cpu_only=False, base=self.base)

    def connect(self, steps: Steps) -> Kube:
        """Check that the cluster answers."""
        for program in ("kubectl", "helm"):
            if shutil.which(program) is None:
                raise MissingPackage(f"`{program}` is not on PATH: the demo needs it")
        kube = context_kube(self.context)
        with steps.step(f"Ask the cluster of context {self.context}"):
            kube.kubectl("version", "--request-timeout=15s")
        return kube

    def bring_images(self, images: Images, steps: Steps, log: Path) -> Images:
        """Push both images to the registry."""
        for image in images.as_list():
            remote = self.in_registry(image)
            with steps.step(f"Push {remote}", log=log):
                buildah.push(image, remote, log)
        return Images(self.in_registry(images.operator), self.in_registry(images.runtime))

    def bring_model(self, kube: Kube, folder: Path, images: Images, steps: Steps) -> None:
        """Fill a claim of the default StorageClass."""
        with steps.step("Copy the model into a claim") as step:
            demo_model_claim.load_into_claim(kube, folder, images.runtime, step)

    def in_registry(self, image: str) -> str:
        """Return the name of an image in the user's registry."""
        return f"{self.registry.rstrip('/')}/{image.partition('/')[2]}"

    def ask_command(self, kube: Kube, service: str) -> str:
        """Return a request through the API server, the one way in that every cluster has."""
        proxy = f"/api/v1/namespaces/{objects.NAMESPACE}/services/{service}:http/proxy"
        body = json.dumps(demo_chat.request_body(service))
        return f"echo '{body}' | kubectl create --raw {proxy}{demo_chat.PATH} --filename=-"

    def farewell(self) -> Farewell:
        """Return how to point kubectl there, and how to remove what the demo made."""
        setup = [f"kubectl config use-context {self.context}"]
        down = [
            f"kubectl delete namespace {objects.NAMESPACE}",
            f"helm uninstall kvasir --namespace={objects.SYSTEM_NAMESPACE}",
        ]
        return Farewell(setup, down)
