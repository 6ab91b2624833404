"""The images as they are built: what is in them, who runs them, and with which command."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from local_cluster.progress import Steps
from local_cluster.shell import run

import images
from images import Images, Options

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def built() -> Images:
    """Both images of this checkout, built where they aren't there yet."""
    return images.ensure(Steps(io.StringIO()), Options(cpu_only=True))


def settings(image: str) -> dict[str, Any]:
    """Return an image's settings in Docker's form."""
    inspected = json.loads(run(["buildah", "inspect", "--type", "image", image]))
    return dict(inspected["Docker"]["config"])


@pytest.fixture
def runtime(built: Images) -> Iterator[str]:
    """A container of the runtime's image."""
    container = run(["buildah", "from", "--pull-never", built.runtime]).strip()
    yield container
    run(["buildah", "rm", container])


@pytest.fixture
def operator_files(built: Images) -> Iterator[Path]:
    """The root folder of the operator's image."""
    container = run(["buildah", "from", "--pull-never", built.operator]).strip()
    yield Path(run(["buildah", "mount", container]).strip())
    run(["buildah", "rm", container])


def inside(container: str, *words: str) -> str:
    """Run a command in a container as the image's own user."""
    return run(["buildah", "run", "--isolation", "chroot", container, "--", *words])


def test_the_runtime_serves_and_takes_arguments_unchanged(built: Images) -> None:
    assert settings(built.runtime)["Entrypoint"] == ["kvasir-runtime", "serve"]


def test_the_operator_runs_the_control_plane(built: Images) -> None:
    assert settings(built.operator)["Entrypoint"] == ["kvasir"]
    assert settings(built.operator)["Cmd"] == ["operator"]


def test_neither_runs_as_root(built: Images) -> None:
    assert {settings(image)["User"] for image in built.as_list()} == {"65532:65532"}


def test_the_runtime_tells_its_health(built: Images) -> None:
    assert "/health" in " ".join(settings(built.runtime)["Healthcheck"]["Test"])


def test_nothing_of_the_building_host_is_in_the_settings(built: Images) -> None:
    for image in built.as_list():
        names = {entry.partition("=")[0] for entry in settings(image)["Env"]}
        assert names.isdisjoint({"SSL_CERT_FILE", "PIP_CERT", "UV_CACHE_DIR"})


def test_the_operators_image_has_no_torch(operator_files: Path) -> None:
    packages = {
        path.name for path in operator_files.glob("opt/kvasir/lib/python3*/site-packages/*")
    }
    assert "kopf" in packages
    assert packages.isdisjoint({"torch", "transformers", "kvasir_runtime"})


def test_torch_computes_in_the_runtime(runtime: str) -> None:
    script = "import torch; print(torch.nn.Linear(2, 2)(torch.ones(1, 2)).shape, torch.__version__)"
    assert "torch.Size([1, 2])" in inside(runtime, "python", "-c", script)


def test_the_runtime_can_compile_what_triton_compiles(runtime: str) -> None:
    compiled = "import sysconfig; print(sysconfig.get_paths()['include'] + '/Python.h')"
    header = inside(runtime, "python", "-c", compiled).strip()
    assert "gcc" in inside(runtime, "sh", "-c", f"test -f {header} && gcc --version")


def test_the_entry_point_starts(runtime: str) -> None:
    assert "--served-model-name" in inside(runtime, "kvasir-runtime", "serve", "--help")
