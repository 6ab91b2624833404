"""When requests arrive, and how long each is: drawn as a Poisson process, or read from a file."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kvasir_runtime.errors import InvalidConfigError


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request that comes `offset_s` seconds after the start; lengths in tokens."""

    offset_s: float
    input_len: int
    output_len: int


def poisson(
    rate: float, count: int, seed: int, *, input_len: int, output_len: int
) -> list[Arrival]:
    """Draw `count` arrivals at `rate` a second: the gaps are exponential, with mean 1/rate.

    The same seed gives the same pattern at every rate, only faster or slower.
    """
    source, due, drawn = random.Random(seed), 0.0, []
    for _ in range(count):
        due += source.expovariate(rate)
        drawn.append(Arrival(due, input_len, output_len))
    return drawn


def read_arrivals(lines: Iterable[str], *, input_len: int, output_len: int) -> list[Arrival]:
    """Read one arrival a line: an offset in seconds, or a JSON object with `offset_s`.

    The object may hold `input_len` and `output_len`; the given ones fill in. Raises
    InvalidConfigError for a line that is neither, or for none at all.
    """
    read = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            values = {"input_len": input_len, "output_len": output_len} | _values(line, number)
            read.append(_arrival(values, number))
    if not read:
        raise InvalidConfigError("the file holds no arrivals", "write one offset in seconds a line")
    return sorted(read, key=lambda arrival: arrival.offset_s)


def mean_rate(arrivals: list[Arrival]) -> float:
    """Return the arrivals a second, from the start to the last one."""
    return len(arrivals) / max(arrivals[-1].offset_s, 1e-9)


def _values(line: str, number: int) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        value = None
    if isinstance(value, dict):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"offset_s": value}
    raise _wrong(number, f"is {line.strip()!r}")


def _arrival(values: dict[str, Any], number: int) -> Arrival:
    unknown = set(values) - {"offset_s", "input_len", "output_len"}
    if unknown or "offset_s" not in values:
        raise _wrong(number, f"has the keys {', '.join(sorted(values))}")
    offset, lengths = values["offset_s"], (values["input_len"], values["output_len"])
    if not isinstance(offset, int | float) or not 0 <= offset < float("inf"):
        raise _wrong(number, f"has the offset {offset!r}")
    if not all(isinstance(length, int) and length > 0 for length in lengths):
        raise _wrong(number, f"has the lengths {lengths}")
    return Arrival(float(offset), *lengths)


def _wrong(number: int, what: str) -> InvalidConfigError:
    return InvalidConfigError(
        f"line {number} of the arrivals {what}",
        "write an offset in seconds, 0 or more, or a JSON object with offset_s and, if wanted, "
        "input_len and output_len in tokens",
    )
