"""What the running sequences are foreseen to need, and what admission makes of it."""

import pytest

from kvasir_runtime.engine.forecast import Forecast, peak
from kvasir_runtime.engine.sequence import Sequence
from kvasir_runtime.messages import NewRequest
from kvasir_runtime.sampling_params import SamplingParams
from support.simulator import Simulator


def sequence(prompt, generated, at_most):
    request = NewRequest("r", (1,) * prompt, SamplingParams(max_tokens=at_most), 0.0)
    seq = Sequence.from_request(request, max_model_len=10_000, seed=0)
    seq.token_ids += [2] * generated
    return seq


@pytest.mark.parametrize(
    ("growing", "expected"),
    [
        ([], 0),
        ([(5, 10)], 15),
        ([(5, 10), (5, 10)], 30),  # both grow to their end
        ([(0, 10), (20, 1)], 21),  # the first is gone before the second has grown
        ([(2, 10), (20, 1)], 21),
        ([(15, 10), (20, 1)], 41),  # just before the first ends
    ],
)
def test_blocks_peak_just_before_a_sequence_ends(growing, expected):
    assert peak(growing) == expected


@pytest.mark.parametrize(
    ("generated", "at_most", "expected"),
    [(0, 1000, 100), (30, 1000, 70), (80, 1000, 50), (400, 1000, 50), (30, 40, 10), (0, 8, 8)],
)
def test_a_sequence_generates_what_is_typical_and_no_more_than_it_may(generated, at_most, expected):
    assert Forecast(100).remaining(sequence(7, generated, at_most)) == expected


def test_the_typical_length_is_learnt_from_sequences_that_ended():
    forecast = Forecast(500)
    for _ in range(200):
        forecast.learn(sequence(3, 40, 1000))
    assert forecast.typical_output == pytest.approx(40, abs=1)


def test_a_prompt_waits_where_answers_would_not_fit_and_nothing_is_preempted():
    simulator = Simulator(num_blocks=4, max_tokens=64, host_blocks=8, typical_output=100)
    simulator.add(range(8), name="old")
    simulator.add(range(50, 58), name="young")
    simulator.step()
    assert set(simulator.scheduler.running) == {simulator.alive["old"]}
    simulator.run()
    assert set(simulator.ended) == {"old", "young"}
    assert simulator.scheduler.preemptions_total == 0


def test_a_prefix_that_is_shared_counts_once():
    simulator = Simulator(num_blocks=20, max_tokens=64, typical_output=100)
    for number in range(5):  # 12 blocks in common, and one or two of its own each
        simulator.add([*range(48), 900 + number], output=4, name=f"r{number}")
        simulator.step()
    assert len(simulator.scheduler.running) >= 3
    simulator.run()
    assert simulator.scheduler.preemptions_total == 0


def test_one_sequence_runs_even_if_it_is_foreseen_not_to_fit():
    simulator = Simulator(num_blocks=4, max_tokens=64, typical_output=1000)
    simulator.add(range(8), output=8, name="only")
    simulator.run()
    assert len(simulator.ended["only"]) == 8
