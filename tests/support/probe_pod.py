"""A pod that serves its own name behind a Service, for tests of a cluster's network."""

import os
import subprocess
from pathlib import Path

import yaml
from local_cluster import Cluster
from local_cluster.shell import run

IMAGE = "localhost/kvasir-test-probe:1"
NAME = "probe"
SERVICE = "probe-service"  # in the pod, the pod's own name is its own address
SOURCE = Path(__file__).parent / "probe" / "main.go"
RECIPE = 'FROM scratch\nCOPY probe /probe\nUSER 65532:65532\nENTRYPOINT ["/probe"]\n'


def build_image(folder: Path) -> str:
    """Builds the image into buildah's storage, by way of `folder`."""
    path = f"{os.environ['PATH']}:/usr/local/go/bin"
    env = {**os.environ, "CGO_ENABLED": "0", "PATH": path}
    build = ["env", "go", "build", "-o", str(folder / "probe"), str(SOURCE)]
    subprocess.run(build, env=env, check=True)
    bud = ["buildah", "bud", "--isolation", "chroot", "--quiet"]
    run([*bud, "-t", IMAGE, "-f", "-", folder], input_text=RECIPE)
    return IMAGE


def start(cluster: Cluster) -> None:
    """Applies the pod and its Service, and waits for the pod."""
    cluster.load_image(IMAGE)
    cluster.kubectl.apply(yaml.safe_dump_all([_pod(), _service()]))
    wait_ready(cluster)


def wait_ready(cluster: Cluster) -> None:
    """Waits until the pod is Ready."""
    cluster.kubectl("wait", "--for=condition=Ready", f"pod/{NAME}", "--timeout=60s", timeout_s=65)


def service_address(cluster: Cluster) -> str:
    """The Service's address."""
    return cluster.kubectl("get", "service", SERVICE, "-o", "jsonpath={.spec.clusterIP}").strip()


def ask_from_pod(cluster: Cluster, url: str) -> str:
    """What a pod of the cluster gets from a URL."""
    return cluster.kubectl("exec", NAME, "--", "/probe", "get", url)


def _pod() -> dict[str, object]:
    container = {
        "name": NAME,
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "args": ["serve"],
        "readinessProbe": {"httpGet": {"path": "/", "port": 8000}, "periodSeconds": 1},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": NAME, "namespace": "default", "labels": {"app": NAME}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }


def _service() -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": "default"},
        "spec": {"selector": {"app": NAME}, "ports": [{"port": 80, "targetPort": 8000}]},
    }
