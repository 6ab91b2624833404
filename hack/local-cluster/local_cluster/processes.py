"""The cluster's daemons as processes of the machine: start, find, stop.

Each daemon is started with a mark in its environment, which its children inherit. Whatever was
killed, crashed or left by an interrupted command is found again by that mark, and nothing else
is ever touched: a number in a file alone could by now belong to somebody else's process.
"""

import os
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from local_cluster.layout import Layout

MARK = "KVASIR_CLUSTER"


@dataclass(frozen=True, slots=True)
class Daemons:
    """The daemons of one cluster."""

    layout: Layout

    def start(self, name: str, command: Sequence[str], env: Mapping[str, str]) -> int:
        """Starts a daemon in a session of its own, its output in its log; returns its number."""
        log = str(self.layout.logs / f"{name}.log")
        pid = os.posix_spawnp(
            command[0],
            list(command),
            {**env, MARK: self.layout.id},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
        self._file(name).write_text(f"{pid}\n")
        return pid

    def pid(self, name: str) -> int | None:
        """The number of a daemon that runs, or None."""
        try:
            pid = int(self._file(name).read_text())
        except (FileNotFoundError, ValueError):
            return None
        # While a process becomes another program its environment reads as empty: for long, where
        # the program has to be read from a busy disk.
        deadline = time.monotonic() + 10
        while not (environment := environment_of(pid)) and _lives(pid):
            if time.monotonic() > deadline:
                return None
            time.sleep(0.01)
        return pid if self._mark() in environment else None

    def stop(self, names: Iterable[str], *, patience_s: float = 10) -> None:
        """Asks the daemons to end, waits, kills the ones that don't."""
        pids = [pid for name in names if (pid := self.pid(name)) is not None]
        end(pids, signal.SIGTERM)
        if not wait_gone(pids, patience_s):
            end(pids, signal.SIGKILL)
            wait_gone(pids, patience_s)

    def marked(self) -> list[int]:
        """Every process that a daemon of this cluster started, itself included."""
        return [pid for pid in all_pids() if self._mark() in environment_of(pid)]

    def forget(self) -> None:
        """Removes the files with the numbers."""
        for file in self.layout.pids.glob("*.pid"):
            file.unlink(missing_ok=True)

    def _mark(self) -> bytes:
        return f"{MARK}={self.layout.id}".encode()

    def _file(self, name: str) -> Path:
        return self.layout.pids / f"{name}.pid"


def all_pids() -> list[int]:
    """The processes of the machine."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def environment_of(pid: int) -> list[bytes]:
    """The NAME=value pairs a process was started with; none if it is gone or somebody else's."""
    try:
        return [pair for pair in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if pair]
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []


def end(pids: Iterable[int], with_signal: signal.Signals) -> None:
    """Sends a signal to each that still lives."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, with_signal)


def wait_gone(pids: Sequence[int], patience_s: float) -> bool:
    """Whether all have ended within the time; our own children are reaped on the way."""
    deadline = time.monotonic() + patience_s
    while True:
        if not any(_lives(pid) for pid in pids):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)


def _lives(pid: int) -> bool:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")
