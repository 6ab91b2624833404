import os
import shutil
from pathlib import Path

import pytest
from local_cluster import packages
from local_cluster.errors import MissingPackage, NeedsRoot
from local_cluster.progress import Steps


def test_nothing_is_done_where_all_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "PACKAGES", {"coreutils": "ls"})
    monkeypatch.setattr(packages, "_install", lambda wanted: pytest.fail("installed"))
    packages.ensure(Steps())


def test_a_plain_user_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "PACKAGES", {"runc": "no-such-program", "coreutils": "ls"})
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MissingPackage, match=r"not installed: runc.*install runc"):
        packages.ensure(Steps())


def test_a_machine_without_apt_is_told_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "PACKAGES", {"cni": "/no/such/file"})
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    with pytest.raises(MissingPackage, match="not installed: cni"):
        packages.ensure(Steps())


def test_root_gets_what_is_missing_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "tool"
    monkeypatch.setattr(packages, "PACKAGES", {"tool": str(file)})
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name, path=None: f"/usr/bin/{name}")
    calls: list[list[str]] = []

    def run(command: list[str], **_: object) -> str:
        calls.append(command)
        file.touch()
        return ""

    monkeypatch.setattr(packages, "run", run)
    packages.ensure(Steps())
    assert [command[-1] for command in calls] == ["update", "tool"]


def test_a_plain_user_is_asked_to_be_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NeedsRoot, match="as root"):
        packages.require_root()
