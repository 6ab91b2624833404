"""`kvasir-runtime serve` as a process of its own, as a container runs it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

LISTENING = re.compile(r"Listening on http://127\.0\.0\.1:(\d+)")


class Serving:
    """A running server, its log and what it left behind."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.log = folder / "log.txt"
        self.termination = folder / "termination.json"
        environment = os.environ | {
            "KVASIR_TERMINATION_LOG": str(self.termination),
            "OMP_NUM_THREADS": "1",  # threads that spin for each other starve a busy machine
        }
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "kvasir_runtime.server", "--host", "127.0.0.1",
                 "--port", "0", "--device", "cpu", *arguments],
                env=environment, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip

    @property
    def text(self) -> str:
        return self.log.read_text()

    @property
    def url(self) -> str:
        found = LISTENING.search(self._wait(lambda: LISTENING.search(self.text) and self.text))
        assert found
        return f"http://127.0.0.1:{found[1]}"

    def wait_ready(self) -> Serving:
        self._wait(lambda: httpx.get(f"{self.url}/ready").status_code == 200)
        return self

    def engine_pids(self) -> list[int]:
        """Return the processes that hold the engine."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        commands = {child: Path(f"/proc/{child}/cmdline").read_bytes() for child in children}
        return [int(child) for child, command in commands.items() if b"spawn_main" in command]

    def terminate(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def wait(self, timeout_s: float = 90) -> int:
        return self.process.wait(timeout_s)

    def _wait(self, condition, timeout_s: float = 120):
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if value := condition():
                return value
            assert self.process.poll() is None, self.text
            time.sleep(0.05)
        raise AssertionError(f"not within {timeout_s} s:\n{self.text}")


@contextlib.contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[Serving]:
    """Serve for a while; whatever happens, nothing is left running."""
    server = Serving(folder, *arguments)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()
