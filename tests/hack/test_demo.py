"""What the demo asks of helm and kubectl, and where it runs."""

import io
import json
from pathlib import Path

import pytest
from local_cluster import Cluster
from local_cluster.progress import Steps

import buildah
import demo
from demo_target import ExistingTarget, LocalTarget
from images import Images, Options
from support.fake_programs import FakePrograms

IMAGES = Images("registry.example:5000/team/kvasir-operator:a1", "localhost/kvasir-runtime:b2")


def deployment(image: str) -> str:
    """Return the service's Deployment with this image, as kubectl prints it."""
    return json.dumps({"spec": {"template": {"spec": {"containers": [{"image": image}]}}}})


def test_the_chart_is_installed_with_both_images_apart_from_their_tags() -> None:
    said = " ".join(demo.chart_words(IMAGES))
    assert "operator.image.repository=registry.example:5000/team/kvasir-operator " in said
    assert "operator.image.tag=a1 " in said
    assert "runtime.image.repository=localhost/kvasir-runtime " in said
    assert "runtime.image.tag=b2 " in said
    assert "--install" in said


def test_an_interrupted_helm_run_is_forgotten_before_the_next(programs: FakePrograms) -> None:
    demo.install_chart(programs.kube(), IMAGES, Steps(io.StringIO()))
    kubectl, helm = programs.calls()[1:]
    assert "delete secret" in kubectl
    assert "status in (pending-install,pending-upgrade,pending-rollback)" in kubectl
    assert helm.startswith("helm --kube-context=mine upgrade --install kvasir")


@pytest.mark.parametrize(("running", "replaced"), [(IMAGES.runtime, False), ("older:1", True)])
def test_a_service_on_an_older_image_is_replaced_and_no_other(
    programs: FakePrograms, running: str, replaced: bool
) -> None:
    programs.answer({"get deployment": deployment(running)})
    demo.apply_example(programs.kube(), IMAGES, Steps(io.StringIO()))
    assert any("delete kvs smollm2" in call for call in programs.calls()) is replaced
    assert "apply" in programs.calls()[-1]
    assert programs.calls()[-1].endswith("examples/smollm2.yaml")


def test_the_demo_runs_on_its_own_cluster_unless_told_otherwise() -> None:
    target = demo.parse(["--context", "", "--registry", "", "--base", ""])
    assert isinstance(target, LocalTarget)
    assert target.farewell().down == ["make cluster-down"]
    assert target.image_options() == Options(cpu_only=True)


def test_another_state_folder_is_named_in_the_command_that_stops_it(tmp_path: Path) -> None:
    target = demo.parse(["--state", str(tmp_path)])
    assert target.farewell().down == [f"make cluster-down STATE={tmp_path}"]


def test_the_users_own_cluster_gets_whole_images_on_the_base_they_name() -> None:
    target = demo.parse(["--context", "mine", "--registry", "r.example/team", "--base", "cuda:13"])
    assert target == ExistingTarget("mine", "r.example/team", "cuda:13")
    assert target.image_options() == Options(cpu_only=False, base="cuda:13")


@pytest.mark.parametrize("words", [["--context", "mine"], ["--registry", "r.example/team"]])
def test_a_cluster_without_a_registry_is_refused_and_the_other_way_round(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        demo.parse(words)
    assert "CONTEXT and REGISTRY go together" in capsys.readouterr().err


def test_images_are_pushed_under_the_registrys_name(
    programs: FakePrograms, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buildah, "BUILDAH", (str(programs.folder / "buildah"),))
    local = Images("localhost/kvasir-operator:a1", "localhost/kvasir-runtime:b2")
    target = ExistingTarget("mine", "r.example/team/")
    remote = target.bring_images(local, Steps(io.StringIO()), tmp_path / "log")
    assert remote == Images("r.example/team/kvasir-operator:a1", "r.example/team/kvasir-runtime:b2")
    assert programs.calls() == [
        f"buildah push {ours} docker://{theirs}"
        for ours, theirs in zip(local.as_list(), remote.as_list(), strict=True)
    ]


def test_the_farewell_is_lines_to_copy_each_alone(programs: FakePrograms, tmp_path: Path) -> None:
    programs.answer({"get service": json.dumps({"spec": {"clusterIP": "10.0.0.7"}})})
    cluster = Cluster(tmp_path)
    shown = io.StringIO()
    demo.show_farewell(LocalTarget(cluster), programs.kube(), Steps(shown))
    lines = shown.getvalue().splitlines()
    assert f"export KUBECONFIG={cluster.kubeconfig}" in lines
    assert f"export PATH={cluster.bin}:$PATH" in lines
    assert "make cluster-down" in lines
    assert len([line for line in lines if line.startswith(("kubectl ", "curl "))]) == 3
    assert "\x1b" not in shown.getvalue()


def test_a_failed_step_ends_with_a_sentence_and_code_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert demo.main(["--context", "mine", "--registry", "r.example/team"]) == 1
    assert "`kubectl` is not on PATH" in capsys.readouterr().err
