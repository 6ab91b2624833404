"""A real cluster with the chart installed, and a namespace with models: made once a session."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from local_cluster import Cluster
from local_cluster.layout import NODE_NAME
from local_cluster.progress import Steps

import demo_objects
import images
from kube import Kube, local_kube
from support import e2e_models
from support.clusters import CHECKOUT, state_folder
from support.inference_services import InferenceServices
from support.tiny_models import TinyModels

HERE = Path(__file__).parent
NAMESPACE = "kvasir-e2e"
SYSTEM = "kvasir-system"
CHART = CHECKOUT / "charts" / "kvasir"
MODELS = CHECKOUT / ".kvasir" / "e2e-models"
VOLUME = "kvasir-e2e-models"
TEST_TIMEOUT_S = 300


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here needs the cluster; only its own time counts, not the cluster's start."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(TEST_TIMEOUT_S, func_only=True))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The tests' cluster; one that ran before goes on running."""
    cluster = Cluster(state_folder())
    was_up = cluster.is_up()
    cluster.up(Steps())
    yield cluster
    if not was_up:
        cluster.destroy()


@pytest.fixture(scope="session")
def kube(cluster: Cluster) -> Kube:
    """kubectl and helm for it."""
    return local_kube(cluster.bin, cluster.kubeconfig, cluster.env())


@pytest.fixture(scope="session")
def built(cluster: Cluster) -> images.Images:
    """This checkout's images, on the node."""
    built = images.ensure(Steps(), images.Options(cpu_only=True))
    for image in built.as_list():
        cluster.load_image(image)
    return built


@pytest.fixture(scope="session")
def chart_values(built: images.Images) -> list[str]:
    """Helm's words for this checkout's images."""
    words: list[str] = []
    for value, image in (("operator", built.operator), ("runtime", built.runtime)):
        repository, _, tag = image.rpartition(":")
        words += ["--set-string", f"{value}.image.repository={repository}"]
        words += ["--set-string", f"{value}.image.tag={tag}"]
    return words


@pytest.fixture(scope="session")
def operator(kube: Kube, chart_values: list[str]) -> str:
    """The operator, installed by its chart in a namespace of the restricted standard; its name."""
    kube.apply(demo_objects.namespace(SYSTEM))
    where = [f"--namespace={SYSTEM}", "--wait", "--timeout=3m"]
    kube.helm("upgrade", "--install", "kvasir", str(CHART), *where, *chart_values)
    return "kvasir-operator"


@pytest.fixture(scope="session")
def models(kube: Kube, demo_model: Path, tiny_models: TinyModels) -> Iterator[None]:
    """A namespace of the restricted standard with the claim `models`."""
    e2e_models.fill(MODELS, demo_model, tiny_models)
    kube.kubectl("delete", "persistentvolume", VOLUME, "--ignore-not-found", "--wait=false")
    volume = demo_objects.local_volume(MODELS, NODE_NAME)
    volume["metadata"]["name"] = VOLUME
    volume["spec"]["claimRef"]["namespace"] = NAMESPACE
    claim = demo_objects.claim(demo_objects.STORAGE_CLASS)
    claim["metadata"]["namespace"] = NAMESPACE
    kube.apply(demo_objects.namespace(NAMESPACE), demo_objects.local_class(), volume, claim)
    yield
    kube.kubectl("delete", "namespace", NAMESPACE, timeout_s=120)
    kube.kubectl("delete", "persistentvolume", VOLUME)
    shutil.rmtree(MODELS)


@pytest.fixture(scope="session")
def services(kube: Kube, operator: str, models: None) -> InferenceServices:
    """The InferenceServices of the tests' namespace."""
    return InferenceServices(kube, NAMESPACE)


@pytest.fixture(scope="session")
def chat(services: InferenceServices) -> str:
    """SmolLM2, serving; its name."""
    services.apply(
        "chat",
        model={"uri": "pvc://models/smollm2"},
        engine={"kvCacheGiB": 0.5, "maxNumSeqs": 32},
    )
    services.wait_ready("chat", timeout_s=180)
    return "chat"


@pytest.fixture(scope="module")
def rolling(services: InferenceServices) -> Iterator[str]:
    """A tiny model, serving, for tests that change it; its name."""
    # Long enough for kube-proxy, which syncs about once a second, to take the pod out.
    services.apply("rolling", lifecycle={"preStopSeconds": 4, "drainSeconds": 5})
    services.wait_ready("rolling")
    yield "rolling"
    services.delete("rolling")


@pytest.fixture
def kill_operator(kube: Kube, operator: str) -> Callable[[], str]:
    """Kill the operator without warning; its Deployment brings another."""
    words = [f"--namespace={SYSTEM}", "--selector=app.kubernetes.io/instance=kvasir"]
    return lambda: kube.kubectl("delete", "pods", *words, "--grace-period=0", "--force")


@pytest.fixture(scope="session")
def openapi(kube: Kube) -> dict[str, object]:
    """The API server's own description of every kind."""
    described: dict[str, object] = json.loads(kube.kubectl("get", "--raw=/openapi/v2"))
    return described
