"""The model reaches a claim: by a local folder, or by a pod that is handed an archive."""

import io
import json
import subprocess
import tarfile
from pathlib import Path

import pytest
from local_cluster.errors import CommandFailed
from local_cluster.progress import Step

import demo_model_claim
import demo_objects
from support.fake_programs import FakePrograms


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model's folder with one file."""
    folder = tmp_path / "models" / "small"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return folder


def load(programs: FakePrograms, model: Path) -> Step:
    """Load the model into the claim; return the step as it ended."""
    step = Step("load", None)
    demo_model_claim.load_into_claim(programs.kube(), model, "registry.example/runtime:1", step)
    return step


def test_a_claim_is_filled_by_a_pod_that_is_gone_afterwards(
    programs: FakePrograms, model: Path
) -> None:
    load(programs, model)
    verbs = [call.split()[2] for call in programs.calls()]
    assert verbs == ["get", "apply", "delete", "apply", "wait", "exec", "delete", "apply"]
    start = programs.piped().index(b"small/")
    with tarfile.open(fileobj=io.BytesIO(programs.piped()[start:])) as archive:
        assert "small/config.json" in archive.getnames()


def test_a_filled_claim_is_not_filled_again(programs: FakePrograms, model: Path) -> None:
    mark = {demo_objects.LOADED_ANNOTATION: demo_model_claim.loaded_mark()}
    programs.answer({"get": json.dumps({"metadata": {"annotations": mark}})})
    assert load(programs, model).outcome == "already there"
    assert len(programs.calls()) == 1


def test_a_claim_with_another_model_is_filled_again(programs: FakePrograms, model: Path) -> None:
    mark = {demo_objects.LOADED_ANNOTATION: "older"}
    programs.answer({"get": json.dumps({"metadata": {"annotations": mark}})})
    load(programs, model)
    assert any(" exec " in call for call in programs.calls())


def test_the_loader_is_removed_when_the_copy_fails(programs: FakePrograms, model: Path) -> None:
    program = programs.folder / "kubectl"
    program.write_text(program.read_text() + "\nsys.exit('exec' in words)\n")
    with pytest.raises(CommandFailed):
        load(programs, model)
    assert " delete " in programs.calls()[-1]


def test_the_archive_replaces_a_folder_left_by_an_earlier_try(model: Path, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    (volume / "small").mkdir(parents=True)
    (volume / "small" / "stale").write_text("x")
    script = demo_model_claim.unpack_command("small")[-1]
    here = script.replace(demo_objects.MODELS_PATH, str(volume))
    archive = subprocess.run(
        ["tar", "-cf", "-", "-C", str(model.parent), "small"], capture_output=True, check=True
    )
    subprocess.run(["sh", "-euc", here], input=archive.stdout, check=True)
    assert sorted(path.name for path in volume.rglob("*")) == ["config.json", "small"]


def test_a_volume_whose_claim_was_deleted_is_made_anew(
    programs: FakePrograms, tmp_path: Path
) -> None:
    programs.answer({"get persistentvolume": json.dumps({"status": {"phase": "Released"}})})
    demo_model_claim.bind_local_folder(programs.kube(), tmp_path, "local")
    assert any(f"delete persistentvolume {demo_objects.VOLUME}" in c for c in programs.calls())


def test_a_bound_volume_is_left_alone(programs: FakePrograms, tmp_path: Path) -> None:
    programs.answer({"get persistentvolume": json.dumps({"status": {"phase": "Bound"}})})
    demo_model_claim.bind_local_folder(programs.kube(), tmp_path, "local")
    assert not any(" delete " in call for call in programs.calls())


def test_the_loader_keeps_the_restricted_standard() -> None:
    spec = demo_objects.loader_pod("image")["spec"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = spec["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not container["securityContext"]["allowPrivilegeEscalation"]
