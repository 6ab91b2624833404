"""What is said to buildah, seen by a program of that name that writes it down."""

from collections.abc import Callable
from pathlib import Path

import pytest
from local_cluster.errors import BuildFailed

import buildah

Recorded = Callable[[], list[str]]


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """A buildah that lists four images and writes down what else it is asked."""
    calls = tmp_path / "calls"
    program = tmp_path / "buildah"
    program.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" != images ]; then echo "$@" >> {calls}; exit; fi\n'
        "echo localhost/kvasir-runtime:new\necho localhost/kvasir-runtime:old\n"
        "echo localhost/kvasir-runtime:dev\necho localhost/kvasir-runtime-other:old\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(buildah, "BUILDAH", (str(program),))
    return lambda: calls.read_text().splitlines() if calls.exists() else []


def test_a_build_keeps_the_healthcheck_and_reuses_layers() -> None:
    order = buildah.Build(
        context=Path("/src"),
        target="runtime",
        tag="localhost/kvasir-runtime:key",
        arguments={"BASE_IMAGE": "base", "CPU_ONLY": "1"},
        secrets={"ca": Path("/etc/ca.crt")},
        volumes={Path("/cache"): "/host/uv-cache"},
    )
    said = " ".join(order.command())
    assert "--format docker" in said  # OCI's format has no place for HEALTHCHECK
    assert "--layers" in said
    assert "--build-arg BASE_IMAGE=base --build-arg CPU_ONLY=1" in said
    assert "--secret id=ca,src=/etc/ca.crt" in said
    assert "--volume /cache:/host/uv-cache" in said
    assert said.endswith("--target runtime --tag localhost/kvasir-runtime:key /src")


def test_images_of_older_content_are_deleted_and_nothing_else(recorded: Recorded) -> None:
    buildah.forget_other_tags("localhost/kvasir-runtime:new")
    assert recorded() == ["rmi localhost/kvasir-runtime:old"]


def test_a_push_goes_to_the_registry_under_the_remote_name(
    recorded: Recorded, tmp_path: Path
) -> None:
    buildah.push("localhost/a:1", "registry.example/team/a:1", tmp_path / "log")
    assert recorded() == ["push localhost/a:1 docker://registry.example/team/a:1"]


def test_a_failed_build_names_its_log_and_keeps_what_was_said(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    with pytest.raises(BuildFailed) as failure:
        buildah.run_logged(["sh", "-c", "echo broken; exit 3"], log, lambda _line: None)
    assert failure.value.log == log
    assert "3" in str(failure.value)
    assert log.read_text() == "broken\n"


def test_each_instruction_of_a_build_is_told_with_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "buildah"
    program.write_text("#!/bin/sh\necho '[2/3] STEP 4/9: RUN make'\necho noise\n")
    program.chmod(0o755)
    monkeypatch.setattr(buildah, "BUILDAH", (str(program),))
    told: list[tuple[int, int, str]] = []
    order = buildah.Build(context=tmp_path, target="t", tag="t:1")
    buildah.build(order, tmp_path / "log", lambda *what: told.append(what))
    assert told == [(4, 9, "RUN make")]
