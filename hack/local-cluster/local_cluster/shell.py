"""Runs a program of the machine to its end; a failure becomes an error with its last words."""

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from local_cluster.errors import CommandFailed, NotReady

LAST_WORDS_CHARS = 1500
SYSTEM_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"


def system_path() -> str:
    """PATH with the folders of system programs, which `su` and plain users lack."""
    return f"{os.environ.get('PATH', '/usr/bin:/bin')}:{SYSTEM_FOLDERS}"


def system_env() -> dict[str, str]:
    """The environment with that PATH."""
    return {**os.environ, "PATH": system_path()}


def run(
    command: Sequence[str | Path],
    *,
    input_text: str | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 120,
) -> str:
    """The program's standard output; raises `CommandFailed` with what it said otherwise."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            input=input_text,
            env=system_env() if env is None else env,
            timeout=timeout_s,
            capture_output=True,
            text=True,
        )
    except subprocess.TimeoutExpired as error:
        raise CommandFailed(f"`{_short(words)}` did not end within {timeout_s:.0f} s") from error
    except FileNotFoundError as error:
        raise CommandFailed(f"`{words[0]}` is not installed") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-LAST_WORDS_CHARS:]
        raise CommandFailed(f"`{_short(words)}` failed with code {done.returncode}: {said}")
    return done.stdout


def succeeds(command: Sequence[str | Path], *, timeout_s: float = 30) -> bool:
    """Whether the program ends with code 0."""
    try:
        run(command, timeout_s=timeout_s)
    except CommandFailed:
        return False
    return True


def wait_until(
    what: str,
    ready: Callable[[], bool],
    *,
    timeout_s: float = 60,
    every_s: float = 0.1,
    log: Path | None = None,
) -> None:
    """Asks `ready` again and again; raises `NotReady` once `timeout_s` is over."""
    deadline = time.monotonic() + timeout_s
    while not ready():
        if time.monotonic() > deadline:
            raise NotReady(f"{what} did not come within {timeout_s:.0f} s", log=log)
        time.sleep(every_s)


def _short(words: Sequence[str]) -> str:
    text = " ".join(words)
    return text if len(text) <= 160 else text[:157] + "..."
