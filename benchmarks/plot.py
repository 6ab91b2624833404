"""The table and the picture of `results/h200.jsonl`: every figure beside the card's bound.

    python benchmarks/plot.py --models FOLDER [--picture FILE.svg]

FOLDER holds a folder with a config.json for each model. The table (Markdown) goes to standard
output. Of rows for the same card, model and workload the last counts.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roofline import H200, Model, bound_s, bytes_per_weight

from kvasir_runtime.models.config import read_model_config

ENGINES = {"kvasir": "Kvasir", "vllm": "vLLM", "sglang": "SGLang"}
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bounded:
    """A result, and the figure its card can't surpass; None where none is worked out."""

    row: Row
    bound: float | None

    def share(self, engine: str) -> float | None:
        """Return how much of the bound an engine reached, 1 being all."""
        value = self.row[engine]
        if value is None or self.bound is None:
            return None
        share: float = self.bound / value if self.row["unit"] == "s" else value / self.bound
        return share


def newest(rows: Iterable[Row]) -> list[Row]:
    """Return the last row of each card, model and workload, in the order they first came."""
    latest: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        latest[row["gpu"], row["model"], row["workload"]] = row
    return list(latest.values())


def bounded(row: Row, model: Model | None) -> Bounded:
    """Work out the bound of a batch; arrivals over time, and unknown cards, have none here."""
    card = re.fullmatch(r"(?:(\d+)x )?NVIDIA H200.*", row["gpu"])
    if model is None or card is None or row["workload"].startswith("poisson-"):
        return Bounded(row, None)
    requests, input_len, output_len = (int(part) for part in row["workload"].split(":"))
    seconds = bound_s(model, H200.times(int(card[1] or 1)), requests, input_len, output_len)
    return Bounded(row, seconds if row["unit"] == "s" else requests * output_len / seconds)


def table(results: Sequence[Bounded]) -> str:
    """Return the results as a Markdown table."""
    head = ["model", "workload", "unit", *ENGINES.values(), "ratio", "bound", "Kvasir of it"]
    rows = [head, ["---"] * len(head), *(_cells(result) for result in results)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _cells(result: Bounded) -> list[str]:
    row, share = result.row, result.share("kvasir")
    values = [_number(row[engine]) for engine in ENGINES]
    ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
    of_it = "-" if share is None else f"{100 * share:.0f} %"
    names = [row["model"], row["workload"], row["unit"]]
    return [*names, *values, ratio, _number(result.bound), of_it]


def _number(value: float | None) -> str:
    """Return a figure with as many digits as mean something."""
    if value is None:
        return "-"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def draw(results: Sequence[Bounded], path: Path) -> None:
    """Draw what each engine reached of the card's bound, a group of bars a workload."""
    from matplotlib.figure import Figure

    drawn = [result for result in results if result.bound is not None]
    figure = Figure(figsize=(9, 1.2 + 0.6 * len(drawn)), layout="constrained")
    axes = figure.subplots()
    for offset, (engine, label) in enumerate(ENGINES.items()):
        places = [group + (offset - 1) * 0.27 for group in range(len(drawn))]
        bars = axes.barh(
            places, [result.share(engine) or 0.0 for result in drawn], height=0.25, label=label
        )
        axes.bar_label(bars, [_number(result.row[engine]) for result in drawn], padding=3)
    axes.set_yticks(
        range(len(drawn)),
        [f"{r.row['model']}\n{r.row['workload']}, {r.row['unit']}" for r in drawn],
    )
    axes.axvline(1.0, color="black")
    axes.invert_yaxis()
    axes.set(xlabel="share of what the card allows", xlim=(0, 1.1))
    figure.legend(loc="outside upper center", ncols=len(ENGINES))
    figure.savefig(path, dpi=150)


def read_model(folder: Path) -> Model | None:
    """Return the model described in `folder`; None where there is no such folder."""
    if not folder.is_dir():
        return None
    raw = json.loads((folder / "config.json").read_text())
    return Model(read_model_config(folder), bytes_per_weight(raw.get("quantization_config")))


def main() -> None:
    """Print the table, and draw the picture where one is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, required=True)
    results = Path(__file__).parent / "results" / "h200.jsonl"
    parser.add_argument("--results", type=Path, default=results)
    parser.add_argument("--picture", type=Path, help="a .png or .svg; needs matplotlib")
    args = parser.parse_args()
    rows = newest(json.loads(line) for line in args.results.read_text().splitlines())
    drawn = [bounded(row, read_model(args.models / row["model"])) for row in rows]
    print(table(drawn), end="")
    if args.picture:
        try:
            draw(drawn, args.picture)
        except ModuleNotFoundError as error:
            parser.exit(1, f"--picture: {error}: pip install 'kvasir[bench]'\n")


if __name__ == "__main__":
    main()
