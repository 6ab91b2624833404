import os
import shutil
import subprocess
from pathlib import Path

import pytest
from local_cluster import binaries, disk, go_modules
from local_cluster.errors import BuildFailed, MissingPackage, NotEnoughDisk
from local_cluster.go_modules import GO_MODULES, PROGRAMS, GoModule
from local_cluster.progress import Steps

PAUSE = next(module for module in GO_MODULES if module.name == "pause")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("KVASIR_BIN", raising=False)
    monkeypatch.setenv("KVASIR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The smallest module alone, copied, so that a test can change it."""
    folder = tmp_path / "modules"
    shutil.copytree(PAUSE.folder, folder / "pause")
    monkeypatch.setattr(go_modules, "MODULES", folder)
    monkeypatch.setattr(binaries, "GO_MODULES", (PAUSE,))
    return folder / "pause"


@pytest.mark.parametrize("module", GO_MODULES, ids=lambda module: module.name)
def test_each_module_states_its_version(module: GoModule) -> None:
    assert module.version.startswith("v")
    assert module.version in module.key


def test_kubectl_and_helm_are_among_the_programs() -> None:
    assert {"kubectl", "helm", "kubelet", "etcd"} <= set(PROGRAMS)


def test_the_version_is_stamped_into_kubernetes() -> None:
    flags = GO_MODULES[0].ldflags
    assert f"k8s.io/component-base/version.gitVersion={GO_MODULES[0].version}" in flags
    assert f"k8s.io/client-go/pkg/version.gitVersion={GO_MODULES[0].version}" in flags


def test_a_build_runs_and_is_found_again(cache: Path, own_modules: Path) -> None:
    folder = binaries.ensure(Steps())
    built = (folder / "pause").resolve()
    first = built.stat().st_mtime_ns
    assert os.access(built, os.X_OK)
    assert binaries.ensure(Steps()) == folder == binaries.folder()
    assert built.stat().st_mtime_ns == first


def test_a_changed_source_is_another_build(cache: Path, own_modules: Path) -> None:
    before = PAUSE.key
    (own_modules / "main.go").write_text("package main\n\nfunc main() {}\n")
    assert PAUSE.key != before


def test_a_failed_build_names_its_log_and_leaves_no_folder(cache: Path, own_modules: Path) -> None:
    (own_modules / "main.go").write_text("package main\n\nfunc main() { nothing() }\n")
    with pytest.raises(BuildFailed, match="pause") as failure:
        binaries.ensure(Steps())
    assert failure.value.log is not None
    assert "undefined: nothing" in failure.value.log.read_text()
    assert [entry for entry in (cache / "bin").iterdir() if entry.is_dir()] == []


def test_what_an_interrupted_build_left_is_removed(cache: Path, own_modules: Path) -> None:
    stale = cache / "bin" / f".{PAUSE.key}.abcdef"
    stale.mkdir(parents=True)
    binaries.ensure(Steps())
    assert not stale.exists()


def test_a_folder_of_ready_programs_is_taken_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for program in PROGRAMS:
        (tmp_path / program).touch(mode=0o755)
    monkeypatch.setenv("KVASIR_BIN", str(tmp_path))
    assert binaries.ensure(Steps()) == tmp_path


def test_an_incomplete_folder_of_programs_says_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for program in set(PROGRAMS) - {"helm"}:
        (tmp_path / program).touch(mode=0o755)
    monkeypatch.setenv("KVASIR_BIN", str(tmp_path))
    with pytest.raises(MissingPackage, match="lacks helm"):
        binaries.ensure(Steps())


def test_without_go_the_message_says_what_to_install(
    cache: Path, own_modules: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(binaries, "GO_FOLDER", tmp_path)
    with pytest.raises(MissingPackage, match=r"install Go 1\.26"):
        binaries.ensure(Steps())


def test_a_full_disk_is_told_before_the_build(
    cache: Path, own_modules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "free_gib", lambda path: 0.5)
    with pytest.raises(NotEnoughDisk, match=r"needs 9\.0 GiB .* 0\.5 GiB are free"):
        binaries.ensure(Steps())


def test_pause_ends_at_a_signal(cache: Path, own_modules: Path) -> None:
    with subprocess.Popen([binaries.ensure(Steps()) / "pause"]) as pause:
        pause.terminate()
        pause.wait(timeout=5)
    # Before the handler is in place the signal's own action ends it just as well.
    assert pause.returncode in (0, -15)
