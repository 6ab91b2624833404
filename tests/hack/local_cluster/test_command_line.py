import os
from pathlib import Path

import pytest
from local_cluster import __main__ as command_line

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="a cluster needs root")


def run_with(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["local_cluster", *words])
    return command_line.main()


@needs_root
def test_down_is_quiet_where_nothing_was_ever_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "never" / "state"
    assert run_with(monkeypatch, "down", "--state", str(state)) == 0
    assert capsys.readouterr() == ("", "")
    assert not state.parent.exists()


def test_status_of_no_cluster_is_down(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_with(monkeypatch, "status", "--state", str(tmp_path)) == 3
    assert capsys.readouterr().out == f"down: {tmp_path}\n"


@needs_root
def test_a_foreign_folder_is_neither_used_nor_deleted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    letters = tmp_path / "home" / "letters.txt"
    letters.parent.mkdir()
    letters.write_text("mine")
    assert run_with(monkeypatch, "down", "--delete", "--state", str(letters.parent)) == 1
    assert "holds something else" in capsys.readouterr().err
    assert letters.exists()


def test_a_plain_user_is_told_to_be_root(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert run_with(monkeypatch, "up", "--state", str(tmp_path / "state")) == 1
    assert capsys.readouterr().err.startswith("error: a cluster needs root")
