"""Streams an image from buildah's storage into containerd, without an archive on the disk.

Enters: an image's name, the importer's command line. Leaves: the image in containerd, and on the
way how many bytes have passed.
"""

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from local_cluster.errors import CommandFailed
from local_cluster.shell import run, system_env

CHUNK_BYTES = 1 << 20


def size_bytes(name: str) -> int:
    """The bytes of an image's layers in buildah's storage."""
    text = run(["buildah", "inspect", "--type", "image", "--format", "{{.Manifest}}", name])
    return sum(int(layer["size"]) for layer in json.loads(text)["layers"])


def stream(name: str, importer: Sequence[str], log: Path, on_bytes: Callable[[int], None]) -> None:
    """Pushes image `name` into the standard input of `importer`.

    Raises:
        CommandFailed: one end failed; the log has what both said.
    """
    from_push, push_end = os.pipe()
    with log.open("wb") as output:
        pusher = subprocess.Popen(
            [*_push_command(name, push_end)],
            env=system_env(),
            pass_fds=[push_end],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        os.close(push_end)
        receiver = subprocess.Popen(
            list(importer), env=system_env(), stdin=subprocess.PIPE, stdout=output, stderr=output
        )
    try:
        _pump(from_push, receiver, on_bytes)
        receiver.wait()
        # The pusher holds both ends of its pipe, so a dead receiver alone does not stop it.
        if receiver.returncode:
            pusher.kill()
        pusher.wait()
    finally:
        os.close(from_push)
        for process in (pusher, receiver):
            process.kill()
            process.wait()
    if pusher.returncode or receiver.returncode:
        raise CommandFailed(f"image {name} could not be brought into the cluster", log=log)


def _push_command(name: str, descriptor: int) -> list[str]:
    target = f"docker-archive:/dev/fd/{descriptor}:{name}"
    return ["buildah", "push", "--quiet", "--disable-compression", name, target]


def _pump(
    source: int, receiver: "subprocess.Popen[bytes]", on_bytes: Callable[[int], None]
) -> None:
    assert receiver.stdin is not None
    passed = 0
    try:
        with receiver.stdin as sink:
            while moved := os.splice(source, sink.fileno(), CHUNK_BYTES):
                passed += moved
                on_bytes(passed)
    except BrokenPipeError:
        return  # the receiver's own code and words tell why
