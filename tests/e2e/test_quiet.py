"""The operator is quiet: few writes until Ready, and none when nothing changed."""

import re
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from kube import Kube
from support.inference_services import InferenceServices, Object, poll

MOST_WRITES = 8
OPERATORS_WRITES = {
    ("APPLY", "deployments"),
    ("APPLY", "services"),
    ("APPLY", "inferenceservices"),
    ("POST", "controllerrevisions"),
}


def versions(objects: list[Object]) -> set[str]:
    return {entry["metadata"]["resourceVersion"] for entry in objects}


def requests(kube: Kube) -> Counter[tuple[str, str]]:
    """Write requests that only the operator makes, as the API server counts them."""
    counted: Counter[tuple[str, str]] = Counter()
    for line in kube.kubectl("get", "--raw=/metrics").splitlines():
        if line.startswith("apiserver_request_total{"):
            label = dict(re.findall(r'(\w+)="([^"]*)"', line))
            if (label["verb"], label["resource"]) in OPERATORS_WRITES:
                counted[label["verb"], label["resource"]] += int(float(line.rsplit(" ", 1)[1]))
    return counted


@pytest.fixture
def quiet(services: InferenceServices) -> Iterator[str]:
    """The name of a service that is deleted afterwards."""
    yield "quiet"
    services.delete("quiet")


def test_few_writes_until_ready_and_none_afterwards(
    services: InferenceServices, kube: Kube, quiet: str, kill_operator: Callable[[], str]
) -> None:
    with services.watched("kvs", quiet) as seen:
        services.apply(quiet)
        services.wait_ready(quiet)
        poll("the watch has caught up", 10, lambda: seen and seen[-1] == services.get(quiet))
    statuses = len(versions(seen)) - 1  # the first version is the user's own
    [deployment] = services.children(quiet, "deployments")
    assert deployment["metadata"]["generation"] == 1
    children = services.children(quiet, "deployments,services,controllerrevisions")
    assert statuses + len(children) + len(services.events(quiet)) <= MOST_WRITES

    kinds = "services,controllerrevisions,deployments"
    before = versions([*services.children(quiet, kinds), services.get(quiet)])
    counted = requests(kube)
    kill_operator()
    await_restarted_operator(services)
    assert versions([*services.children(quiet, kinds), services.get(quiet)]) == before
    marker = requests(kube) - counted
    assert marker["APPLY", "inferenceservices"] == 1
    assert sum(marker.values()) == 1


def await_restarted_operator(services: InferenceServices) -> None:
    """Once a new service has got its status, the new operator has looked at all older ones.

    The marker is paused, so that its status is all that is written for it.
    """
    services.apply("marker", paused=True)
    services.wait_reason("marker", "Paused")
    services.delete("marker")


def test_children_come_quickly(services: InferenceServices, kube: Kube) -> None:
    services.apply("prompt", replicas=0)
    services.wait_reason("prompt", "ScaledToZero", timeout_s=5)
    services.delete("prompt")
