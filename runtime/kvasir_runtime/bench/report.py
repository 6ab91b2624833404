"""Results on their way out: a JSON line each for programs, one table for people."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from kvasir_runtime.errors import InvalidConfigError

Line = dict[str, Any]


class Report:
    """Writes each line as soon as it is there: a later failure loses none."""

    def __init__(self, file: TextIO | None) -> None:
        """Write to standard output, and to `file` where one is given."""
        self.lines: list[Line] = []
        self._file = file

    def add(self, line: Line) -> None:
        """Write one result."""
        self.lines.append(line)
        text = json.dumps(line) + "\n"
        for stream in (sys.stdout, self._file):
            if stream is not None:
                stream.write(text)
                stream.flush()


@contextlib.contextmanager
def reporting(path: str | None, columns: Sequence[str]) -> Iterator[Report]:
    """Yield a report; at the end write its table, with these columns, to standard error.

    Raises InvalidConfigError, before anything is measured, where `path` can't be written.
    """
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(Path(path).open("w", encoding="utf-8")) if path else None
        except OSError as error:
            raise InvalidConfigError(
                f"--json is {path}: {error.strerror}", "choose another"
            ) from error
        report = Report(file)
        yield report
    sys.stderr.write(table(report.lines, columns))


def table(lines: Sequence[Line], columns: Sequence[str]) -> str:
    """Return the lines' columns as text, right-aligned."""
    rows = [list(columns), *([_cell(line[column]) for column in columns] for line in lines)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) + "\n"
        for row in rows
    )


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, dict):
        return ", ".join(f"{count} {kind}" for kind, count in value.items()) or "none"
    return str(value)
