"""A list of steps as they happen: what runs, for how long, how far it is, and which log to read.

Enters: the names of steps and figures of how far each is. Leaves: lines on a stream. A terminal
gets a live bar; anything else gets plain lines without colour, so that a CI log stays readable.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

LOG_TAIL_LINES = 15


class Step:
    """One running step: `note` says what it is at, `advance_to` how far it is."""

    def __init__(self, name: str, bar: Progress | None) -> None:
        self.name = name
        self.outcome = "ok"
        self._bar = bar
        self._task: TaskID | None = bar.add_task(name, total=None, note="") if bar else None

    def note(self, text: str) -> None:
        """Says what the step is at; off a terminal it stays silent."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, note=text)

    def advance_to(self, done: float, total: float) -> None:
        """Moves the bar to `done` of `total`."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=min(done, total), total=total)

    def finish_as(self, outcome: str) -> None:
        """Replaces the final "ok" by a more telling word, such as "already there"."""
        self.outcome = outcome


class Steps:
    """The list of steps of one command, with the time since its start before each line."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stdout
        self._started = time.monotonic()
        self._bars = 0
        self._live = self._stream.isatty()
        self._console = Console(file=self._stream, highlight=False, no_color=not self._live)

    @contextmanager
    def step(self, name: str, *, log: Path | None = None) -> Iterator[Step]:
        """Runs the body as one step; a failure names `log` (or the error's own) and its end."""
        started = time.monotonic()
        if not self._live:
            self._line(f"{name} ...")
        try:
            with self._bar() as bar:
                step = Step(name, bar)
                yield step
        except BaseException as error:
            self._say_failed(name, started, error, log)
            raise
        self._line(f"{name}: {step.outcome} ({time.monotonic() - started:.1f} s)")

    def info(self, text: str) -> None:
        """One line that is no step, with the elapsed time before it."""
        self._line(text)

    def raw(self, text: str) -> None:
        """Lines for the user to copy: nothing before, nothing wrapped."""
        self._console.print(text, markup=False, soft_wrap=True)

    @contextmanager
    def _bar(self) -> Iterator[Progress | None]:
        if not self._live or self._bars:  # a terminal has room for one live bar
            yield None
            return
        self._bars += 1
        try:
            with self._new_bar() as bar:
                yield bar
        finally:
            self._bars -= 1

    def _new_bar(self) -> Progress:
        return Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            console=self._console,
            transient=True,
        )

    def _line(self, text: str) -> None:
        elapsed = time.monotonic() - self._started
        self._console.print(f"[{elapsed:6.1f} s] {text}", markup=False, soft_wrap=True)
        self._stream.flush()

    def _say_failed(
        self, name: str, started: float, error: BaseException, log: Path | None
    ) -> None:
        self._line(f"{name}: FAILED after {time.monotonic() - started:.1f} s")
        shown = getattr(error, "log", None) or log
        if shown is None or not shown.exists() or isinstance(error, KeyboardInterrupt):
            return
        for line in tail(shown, LOG_TAIL_LINES):
            self.raw(f"    {line}")
        self._line(f"The log: {shown}")


def tail(log: Path, lines: int) -> list[str]:
    """The last lines of a text file, without reading a large one whole."""
    with log.open("rb") as file:
        file.seek(0, 2)
        file.seek(max(0, file.tell() - 16_384))
        return file.read().decode(errors="replace").splitlines()[-lines:]
