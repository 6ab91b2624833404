"""From the raw lines of engines that ran alternately to one result line a workload.

    python benchmarks/pair.py RAW.jsonl… [--results benchmarks/results/h200.jsonl]

A raw file is what `h200.sh` writes: a header ({"date", "gpu", "kvasir_commit", "batched"}) before
each engine's run, then that engine's own lines. Any number of files of one commit make one
comparison. Of an engine's runs with the same settings the median counts. A peer counts with its
best settings, row by row; Kvasir must have run with the same settings throughout.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENGINES = ("kvasir", "vllm", "sglang")
SERVING_METRICS = (
    "ttft_p50", "ttft_p99", "tpot_p50", "tpot_p99", "itl_p99", "e2e_p50", "e2e_p99",
)  # fmt: skip
SECONDS, RATE = "s", "output tokens/s"
LATENCY_BOUND = (1, 16)  # one request with at most so many tokens: its seconds say more than a rate

Raw = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is compared: figures of one Kvasir commit on one card, model and workload."""

    gpu: str
    kvasir_commit: str
    model: str
    workload: str
    unit: str


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value; `batched` names the settings it was measured with."""

    comparison: Comparison
    engine: str
    batched: str
    value: float
    date: str
    start_s: float


def read_raw(lines: Iterable[str]) -> Iterator[tuple[Raw, Raw]]:
    """Yield each engine's line with the header it stands under; ValueError where none does."""
    header: Raw | None = None
    for number, text in enumerate(lines, start=1):
        line = json.loads(text)
        if "kvasir_commit" in line:
            header = line
        elif header is None:
            raise ValueError(f"line {number} stands under no header: is this a file of h200.sh?")
        else:
            yield header, line


def figures(header: Raw, line: Raw) -> list[Figure]:
    """Return what one raw line measured; nothing for a run that was not complete."""
    if not line.get("complete", True):
        return []
    values = _serving(line) if "rate" in line else _throughput(line)
    return [
        Figure(
            Comparison(header["gpu"], header["kvasir_commit"], line["model"], workload, unit),
            line["engine"],
            str(header["batched"]),
            value,
            header["date"],
            line.get("start_s") or line.get("load_s") or 0.0,
        )
        for workload, unit, value in values
    ]


def pair(measured: Iterable[Figure]) -> list[Raw]:
    """Return a result line for each comparison that Kvasir took part in.

    ValueError where it did so with several settings: a row of each one's best would be measured
    with none.
    """
    groups: dict[Comparison, dict[str, list[Figure]]] = defaultdict(lambda: defaultdict(list))
    for figure in measured:
        groups[figure.comparison][figure.engine].append(figure)
    return [_row(what, engines) for what, engines in groups.items() if "kvasir" in engines]


def _throughput(line: Raw) -> list[tuple[str, str, float]]:
    """Read Kvasir's line, or a peer's: each has names of its own."""
    if "workload" in line:
        sizes = tuple(int(part) for part in line["workload"].split(":"))
        rate, seconds = line["output_tokens_per_s"], line["seconds"]
    else:
        sizes = (line["num_prompts"], line["input_len"], line["output_len"])
        rate, seconds = line["output_tok_s"], line["elapsed_s"]
    name = ":".join(map(str, sizes))
    count, _, output = sizes
    if count <= LATENCY_BOUND[0] and output <= LATENCY_BOUND[1]:
        return [(name, SECONDS, seconds)]
    return [(name, RATE, rate)]


def _serving(line: Raw) -> list[tuple[str, str, float]]:
    name = f"poisson-{line['rate']:g}:{line['input_len']}:{line['output_len']}"
    return [
        (f"{name}:{metric}", SECONDS, line[metric])
        for metric in SERVING_METRICS
        if line.get(metric) is not None
    ]


def _row(what: Comparison, engines: dict[str, list[Figure]]) -> Raw:
    settings = {figure.batched for figure in engines["kvasir"]}
    if len(settings) > 1:
        raise ValueError(
            f"Kvasir ran {what.workload} with max_num_batched_tokens {', '.join(sorted(settings))}:"
            " give the files of one of them"
        )
    values = {engine: _best(engines.get(engine, []), what.unit) for engine in ENGINES}
    ours = engines["kvasir"]
    return {
        "date": max(figure.date for figure in ours),
        "gpu": what.gpu,
        "model": what.model,
        "workload": what.workload,
        **values,
        "ratio": _ratio(values, what.unit),
        "unit": what.unit,
        "kvasir_commit": what.kvasir_commit,
        "start_s": round(statistics.median(figure.start_s for figure in ours), 2),
    }


def _best(measured: list[Figure], unit: str) -> float | None:
    """Return the best settings' median; None for an engine that wasn't run."""
    by_settings = defaultdict(list)
    for figure in measured:
        by_settings[figure.batched].append(figure.value)
    medians = [statistics.median(values) for values in by_settings.values()]
    if not medians:
        return None
    # TPOTs are fractions of a millisecond apart; rates have one decimal already.
    return round(min(medians) if unit == SECONDS else max(medians), 5)


def _ratio(values: dict[str, float | None], unit: str) -> float | None:
    """Return Kvasir against the better peer; above 1 it is ahead, in time as in rate."""
    ours = values["kvasir"]
    peers = [value for engine in ENGINES[1:] if (value := values[engine]) is not None]
    if not peers or not ours:
        return None
    return round(min(peers) / ours if unit == SECONDS else ours / max(peers), 3)


def main() -> None:
    """Append the files' result lines to the results, and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("raw", type=Path, nargs="+")
    results = Path(__file__).parent / "results" / "h200.jsonl"
    parser.add_argument("--results", type=Path, default=results)
    args = parser.parse_args()
    measured: list[Figure] = []
    for path in args.raw:
        for header, line in read_raw(path.read_text().splitlines()):
            found = figures(header, line)
            if not found:
                print(f"{path}: left out, not complete: {line}", file=sys.stderr)
            measured += found
    with args.results.open("a") as file:
        for row in pair(measured):
            print(json.dumps(row))
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
