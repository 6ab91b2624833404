"""The picture of a serving run: which share of the requests had which TTFT and TPOT, by rate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kvasir_runtime.bench.latency import Latencies
from kvasir_runtime.errors import InvalidConfigError, MissingExtraError

SUFFIXES = (".png", ".svg")


def require_plotting(path: Path) -> None:
    """Raise, before anything is measured, where no picture could be drawn into `path`.

    InvalidConfigError for another suffix or a missing folder, MissingExtraError without matplotlib.
    """
    if path.suffix not in SUFFIXES:
        raise InvalidConfigError(f"--plot is {path}", f"end it in {' or '.join(SUFFIXES)}")
    if not path.parent.is_dir():
        raise InvalidConfigError(f"--plot is {path}", f"there is no folder {path.parent}: make it")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            "--plot needs matplotlib, which is not installed", "pip install 'kvasir[bench]'"
        ) from error


def draw(runs: Sequence[tuple[str, Latencies]], path: Path) -> None:
    """Draw the cumulative distributions of TTFT and TPOT, one named curve a run, into `path`.

    A run without answers has no curve.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogFormatter

    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, name, title in (
        (left, "ttft", "time to first token, ms"),
        (right, "tpot", "time per output token, ms"),
    ):
        for label, latencies in runs:
            samples: tuple[float, ...] = getattr(latencies, name)
            if samples:
                axes.ecdf([1e3 * sample for sample in samples], label=label)
        axes.set(xlabel=title, xscale="log")
        axes.xaxis.set_major_formatter(LogFormatter())
        axes.xaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.4)))
        axes.grid(visible=True, which="both", alpha=0.3)
    left.set_ylabel("share of the requests")
    figure.legend(*left.get_legend_handles_labels(), title="requests/s", loc="outside right")
    figure.savefig(path, dpi=150)
