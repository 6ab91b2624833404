import sys
from pathlib import Path

import pytest

from kvasir_runtime.bench.latency import Answer, Latencies
from kvasir_runtime.bench.plot import cumulative, draw, require_plotting
from kvasir_runtime.errors import MissingExtraError


def test_a_curve_rises_to_one_over_the_sorted_milliseconds():
    assert cumulative([0.004, 0.001, 0.002, 0.003]) == ([1, 2, 3, 4], [0.25, 0.5, 0.75, 1.0])


@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_runs_are_drawn_even_one_without_answers(tmp_path, suffix, magic):
    path = tmp_path / f"picture.{suffix}"
    some = Latencies.of([Answer(0.0, (0.1 * n, 0.3 * n), 2, 8) for n in range(1, 9)])
    draw([("4", some), ("16", Latencies.of([]))], path)
    assert path.read_bytes().startswith(magic)


def test_a_missing_library_is_said_with_the_extra_that_has_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"kvasir\[bench\]"):
        require_plotting(Path("picture.png"))
