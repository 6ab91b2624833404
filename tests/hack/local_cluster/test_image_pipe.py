import os
import time
from pathlib import Path

import pytest
from local_cluster import image_pipe
from local_cluster.errors import CommandFailed

PUSH_A_MEGABYTE = """
target=${@: -1}; target=${target#docker-archive:}; target=${target%%:*}
head -c 1000000 /dev/zero > "$target"
"""
PUSH_FOR_EVER = """
target=${@: -1}; target=${target#docker-archive:}; target=${target%%:*}
exec 5<>"$target"
while echo more >&5; do :; done
"""


def fake_buildah(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "buildah"
    program.write_text(f"#!/bin/bash\n{script}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_every_byte_arrives_and_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_buildah(tmp_path, monkeypatch, PUSH_A_MEGABYTE)
    told: list[int] = []
    received = tmp_path / "received"
    importer = ["sh", "-c", f"cat > {received}"]
    image_pipe.stream("localhost/x:1", importer, tmp_path / "log", told.append)
    assert received.stat().st_size == 1_000_000
    assert told[-1] == 1_000_000
    assert told == sorted(told)


def test_a_push_that_fails_is_told_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_buildah(tmp_path, monkeypatch, "echo no such image >&2; exit 125")
    with pytest.raises(CommandFailed, match="localhost/x:1") as failure:
        image_pipe.stream("localhost/x:1", ["cat"], tmp_path / "log", lambda _: None)
    assert failure.value.log is not None
    assert "no such image" in failure.value.log.read_text()


def test_an_importer_that_dies_ends_the_push(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_buildah(tmp_path, monkeypatch, PUSH_FOR_EVER)
    started = time.monotonic()
    with pytest.raises(CommandFailed):
        image_pipe.stream("localhost/x:1", ["false"], tmp_path / "log", lambda _: None)
    assert time.monotonic() - started < 20


def test_nothing_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_buildah(tmp_path, monkeypatch, PUSH_A_MEGABYTE)
    before = os.listdir("/proc/self/fd")
    for importer in (["cat"], ["sh", "-c", "cat > /dev/null"]):
        image_pipe.stream("localhost/x:1", importer, tmp_path / "log", lambda _: None)
    assert len(os.listdir("/proc/self/fd")) == len(before)
