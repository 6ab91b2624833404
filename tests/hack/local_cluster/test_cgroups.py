import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_cluster import cgroups

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="control groups need root")


@pytest.fixture
def group() -> Iterator[str]:
    name = f"kvasir-test-{uuid.uuid4().hex[:8]}"
    cgroups.make(name)
    yield name
    cgroups.kill(name)
    cgroups.remove(name)


@needs_root
def test_a_process_deep_in_the_group_is_found_and_killed(group: str) -> None:
    inner = cgroups.tops(group)[0] / "pods" / "one"
    inner.mkdir(parents=True)
    with subprocess.Popen(["sleep", "300"]) as process:
        (inner / "cgroup.procs").write_text(str(process.pid))
        assert cgroups.processes(group) == [process.pid]
        cgroups.kill(group)
        assert process.wait(timeout=5) == -9


@needs_root
def test_the_group_goes_with_all_below_it(group: str) -> None:
    for top in cgroups.tops(group):
        (top / "pods" / "one").mkdir(parents=True)
    cgroups.remove(group)
    assert cgroups.tops(group) == []


@needs_root
def test_a_group_that_is_not_there_is_empty() -> None:
    assert cgroups.processes("kvasir-test-never") == []
    cgroups.kill("kvasir-test-never")
    cgroups.remove("kvasir-test-never")


def test_one_unified_hierarchy_gives_children_their_controllers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "ROOT", tmp_path)
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    (tmp_path / "cgroup.subtree_control").touch()
    cgroups.make("kvasir-x")
    assert cgroups.tops("kvasir-x") == [tmp_path / "kvasir-x"]
    assert (tmp_path / "cgroup.subtree_control").read_text().startswith("+")


def test_two_names_of_one_hierarchy_count_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "ROOT", tmp_path)
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cgroup.procs").touch()
    (tmp_path / "cpuacct").symlink_to(tmp_path / "cpu")
    assert cgroups.hierarchies() == [tmp_path / "cpu"]
