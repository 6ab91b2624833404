"""The images' names follow their content, and a build is asked for what the Dockerfile expects."""

import re
import shutil
from pathlib import Path

import pytest

import images
from images import Options

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small checkout with every path that the images are made from."""
    for name in ("Dockerfile", ".dockerignore", "pyproject.toml", "uv.lock"):
        shutil.copy(CHECKOUT / name, tmp_path / name)
    shutil.copytree(CHECKOUT / "hack" / "image", tmp_path / "hack" / "image")
    for package in ("operator", "runtime", "kernels"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "code.py").write_text(f"# {package}\n")
    monkeypatch.setattr(images, "CHECKOUT", tmp_path)
    return tmp_path


def test_the_same_sources_have_the_same_names(checkout: Path) -> None:
    assert images.named(Options()) == images.named(Options())


def test_a_changed_operator_renames_the_operators_image_alone(checkout: Path) -> None:
    before = images.named(Options())
    (checkout / "operator" / "code.py").write_text("# changed\n")
    after = images.named(Options())
    assert after.operator != before.operator
    assert after.runtime == before.runtime


@pytest.mark.parametrize("package", ["runtime", "kernels"])
def test_a_changed_engine_renames_the_runtimes_image_alone(checkout: Path, package: str) -> None:
    before = images.named(Options())
    (checkout / package / "more.py").write_text("")
    after = images.named(Options())
    assert after.runtime != before.runtime
    assert after.operator == before.operator


@pytest.mark.parametrize("shared", ["uv.lock", "Dockerfile", "hack/image/with-host.sh"])
def test_a_change_of_what_both_are_made_from_renames_both(checkout: Path, shared: str) -> None:
    before = images.named(Options())
    with (checkout / shared).open("a") as file:
        file.write("\n")
    after = images.named(Options())
    assert after.operator != before.operator
    assert after.runtime != before.runtime


def test_compiled_python_does_not_rename_an_image(checkout: Path) -> None:
    before = images.named(Options())
    (checkout / "operator" / "__pycache__").mkdir()
    (checkout / "operator" / "__pycache__" / "code.cpython-311.pyc").write_bytes(b"x")
    assert images.named(Options()) == before


def test_a_runtime_without_cuda_has_a_name_of_its_own(checkout: Path) -> None:
    whole, slim = images.named(Options()), images.named(Options(cpu_only=True))
    assert slim.runtime != whole.runtime
    assert slim.operator == whole.operator


def test_another_base_renames_both(checkout: Path) -> None:
    ours, other = images.named(Options()), images.named(Options(base="debian:12"))
    assert {ours.operator, ours.runtime}.isdisjoint({other.operator, other.runtime})


def test_the_hosts_certificates_are_those_the_user_set_for_downloads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "ca.crt"
    bundle.write_text("certificate")
    for variable in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PIP_CERT", str(bundle))
    assert images.host_certificates() == {"ca": bundle}
    monkeypatch.delenv("PIP_CERT")
    assert images.host_certificates() == {}


def test_every_folder_that_the_dockerfile_copies_is_part_of_a_name() -> None:
    lines = (CHECKOUT / "Dockerfile").read_text().splitlines()
    copied = {
        word
        for line in lines
        if (match := re.match(r"COPY (?!--from)(.*) \S+$", line))
        for word in match[1].split()
    }
    hashed = {*images.SHARED_INPUTS, *sum(images.TARGET_INPUTS.values(), ())}
    uncovered = {
        path
        for path in copied
        if not any(path == one or path.startswith(f"{one}/") for one in hashed)
    }
    assert uncovered <= {"README.md", "LICENSE"}


def test_nothing_that_the_dockerfile_copies_is_ignored() -> None:
    allowed = [
        line.removeprefix("!")
        for line in (CHECKOUT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    ]
    for path in [*images.SHARED_INPUTS[2:], *sum(images.TARGET_INPUTS.values(), ()), "README.md"]:
        assert path in allowed
