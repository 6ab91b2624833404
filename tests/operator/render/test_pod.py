"""Properties of the pod that hold whatever the spec says."""

from typing import Any

import pytest

from kvasir_operator import names, render
from kvasir_operator.model.plan import Resolved
from kvasir_operator.plan import plan
from kvasir_operator.settings import Settings
from support.objects import service

SETTINGS = Settings(default_image="engine:1")


def template(**spec: Any) -> dict[str, Any]:
    wanted = service(**spec)
    resolved = plan(wanted, SETTINGS)
    assert isinstance(resolved, Resolved)
    return render.pod_template(wanted, resolved)


def engine(**spec: Any) -> dict[str, Any]:
    container: dict[str, Any] = template(**spec)["spec"]["containers"][0]
    return container


def test_template_carries_what_the_selector_wants() -> None:
    labels = template(podLabels={"team": "nlp"})["metadata"]["labels"]
    assert names.selector("chat").items() <= labels.items()
    assert labels["team"] == "nlp"


def test_scale_and_pause_leave_the_template_as_it_is() -> None:
    assert template(replicas=7, paused=True) == template()


def test_grace_outlasts_sleep_and_drain() -> None:
    spec = template(lifecycle={"preStopSeconds": 7, "drainSeconds": 33})["spec"]
    assert spec["terminationGracePeriodSeconds"] == 50
    assert spec["containers"][0]["lifecycle"]["preStop"] == {"sleep": {"seconds": 7}}


def test_startup_probe_allows_the_whole_timeout() -> None:
    probe = engine(lifecycle={"startupTimeoutSeconds": 901})["startupProbe"]
    assert probe["failureThreshold"] * probe["periodSeconds"] >= 901


def test_file_uri_never_makes_a_missing_folder() -> None:
    volumes = template(model={"uri": "file:///srv/llama"})["spec"]["volumes"]
    assert volumes[-1]["hostPath"] == {"path": "/srv/llama", "type": "Directory"}


@pytest.mark.parametrize(
    ("uri", "argument"),
    [
        ("pvc://claim", "/models"),
        ("pvc://claim/a/b/", "/models/a/b"),
        ("file:///srv/models/llama", "/models/llama"),
        ("hf://org/name", "org/name"),
    ],
)
def test_model_argument_is_where_the_model_is_in_the_pod(uri: str, argument: str) -> None:
    args = engine(model={"uri": uri})["args"]
    assert args[args.index("--model") + 1] == argument


def test_memory_limit_only_where_the_user_gave_a_figure() -> None:
    assert "limits" not in engine()["resources"]
    assert engine(resources={"memory": "3Gi"})["resources"]["limits"] == {"memory": "3Gi"}


def test_gpus_are_asked_for_on_cuda_alone() -> None:
    assert engine(device="cuda")["resources"]["limits"] == {"nvidia.com/gpu": "1"}


def test_users_environment_wins() -> None:
    env = engine(engine={"env": [{"name": "HOME", "value": "/me"}]})["env"]
    assert [entry["value"] for entry in env if entry["name"] == "HOME"] == ["/me"]
