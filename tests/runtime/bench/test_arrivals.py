import statistics
from itertools import pairwise

import pytest

from kvasir_runtime.bench.arrivals import Arrival, mean_rate, poisson, read_arrivals
from kvasir_runtime.errors import InvalidConfigError

LENGTHS = {"input_len": 8, "output_len": 4}


def gaps(arrivals):
    offsets = [0.0, *(arrival.offset_s for arrival in arrivals)]
    return [later - earlier for earlier, later in pairwise(offsets)]


def test_gaps_are_exponential_with_the_rate_as_their_inverse_mean():
    found = gaps(poisson(16.0, 20_000, 3, **LENGTHS))
    assert statistics.mean(found) == pytest.approx(1 / 16, rel=0.03)
    # An exponential distribution's deviation is its mean, and its median is ln 2 of that.
    assert statistics.stdev(found) == pytest.approx(1 / 16, rel=0.05)
    assert statistics.median(found) == pytest.approx(0.6931 / 16, rel=0.05)


def test_a_seed_names_one_pattern_that_a_higher_rate_only_quickens():
    slow, fast = poisson(2.0, 50, 1, **LENGTHS), poisson(8.0, 50, 1, **LENGTHS)
    assert slow == poisson(2.0, 50, 1, **LENGTHS)
    assert slow != poisson(2.0, 50, 2, **LENGTHS)
    assert [a.offset_s for a in slow] == pytest.approx([4 * a.offset_s for a in fast])


def test_a_file_of_offsets_takes_the_given_lengths_and_is_sorted():
    read = read_arrivals(["0.5", "", " 0 ", "2e-1"], **LENGTHS)
    assert read == [Arrival(0.0, 8, 4), Arrival(0.2, 8, 4), Arrival(0.5, 8, 4)]
    assert mean_rate(read) == pytest.approx(6.0)


def test_json_lines_bring_lengths_of_their_own():
    lines = ['{"offset_s": 1, "input_len": 100, "output_len": 7}', '{"offset_s": 2}']
    assert read_arrivals(lines, **LENGTHS) == [Arrival(1.0, 100, 7), Arrival(2.0, 8, 4)]


@pytest.mark.parametrize(
    "line",
    ["soon", "-1", "NaN", "true", "[1]", '{"at": 1}', '{"offset_s": "1"}',
     '{"offset_s": 1, "input_len": 0}', '{"offset_s": 1, "output_len": 2.5}',
     '{"offset_s": 1, "priority": 2}'],
)  # fmt: skip
def test_a_line_that_is_no_arrival_is_named(line):
    with pytest.raises(InvalidConfigError, match="line 2 of the arrivals"):
        read_arrivals(["0.1", line], **LENGTHS)


def test_a_file_without_arrivals_is_refused():
    with pytest.raises(InvalidConfigError, match="no arrivals"):
        read_arrivals(["", "  "], **LENGTHS)
