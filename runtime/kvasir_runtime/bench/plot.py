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


def cumulative(samples: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return the sorted samples in milliseconds, and the share of all up to each."""
    ordered = sorted(samples)
    count = len(ordered)
    return [1e3 * value for value in ordered], [rank / count for rank in range(1, count + 1)]


def draw(runs: Sequence[tuple[str, Latencies]], path: Path) -> None:
    """Draw the cumulative distributions of TTFT and TPOT, one named curve a run, into `path`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, name, title in (
        (left, "ttft", "time to first token, ms"),
        (right, "tpot", "time per output token, ms"),
    ):
        for label, latencies in runs:
            axes.plot(*cumulative(getattr(latencies, name)), label=label)
        axes.set(xlabel=title, xscale="log", ylim=(0, 1))
        axes.grid(visible=True, which="both", alpha=0.3)
    left.set_ylabel("share of the requests")
    right.legend(title="requests/s")
    figure.savefig(path, dpi=150)
