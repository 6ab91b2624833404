import sys
from pathlib import Path

import pytest

from kvasir_runtime.bench.latency import Answer, Latencies
from kvasir_runtime.bench.plot import draw, require_plotting
from kvasir_runtime.errors import MissingExtraError

ONE_TOKEN = Latencies.of([Answer(0.0, (0.1 * n,), 1, 8) for n in range(1, 9)])


@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_runs_are_drawn_even_one_without_answers(tmp_path, suffix, magic):
    path = tmp_path / f"picture.{suffix}"
    some = Latencies.of([Answer(0.0, (0.1 * n, 0.3 * n), 2, 8) for n in range(1, 9)])
    draw([("4", some), ("16", Latencies.of([])), ("one token each", ONE_TOKEN)], path)
    assert path.read_bytes().startswith(magic)


def test_a_missing_library_is_said_with_the_extra_that_has_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"kvasir\[bench\]"):
        require_plotting(Path("picture.png"))
