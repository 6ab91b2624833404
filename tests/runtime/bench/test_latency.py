import pytest

from kvasir_runtime.bench.latency import Answer, Latencies, percentile


def test_an_answer_knows_its_latencies():
    answer = Answer(10.0, (10.5, 10.75, 11.5), 3, 8)
    assert (answer.ttft_s, answer.e2e_s, answer.tpot_s) == (0.5, 1.5, 0.5)
    assert answer.gaps_s == [0.25, 0.75]


def test_tpot_counts_tokens_where_a_chunk_held_several():
    assert Answer(0.0, (1.0, 2.0), 5, 8).tpot_s == 0.25


def test_one_token_has_no_tpot():
    found = Latencies.of([Answer(0.0, (1.0,), 1, 8), Answer(0.0, (1.0, 3.0), 2, 8)])
    assert found.tpot == (2.0,)
    assert found.ttft == (1.0, 1.0)


@pytest.mark.parametrize(
    ("count", "percent", "expected"), [(100, 50, 50), (100, 99, 99), (10, 99, 9), (3, 50, 1)]
)
def test_a_percentile_is_a_sample(count, percent, expected):
    # Samples 0 to count - 1, shuffled: each is its own index once sorted.
    samples = [float((index * 7) % count) for index in range(count)]
    assert percentile(samples, percent) == expected


def test_figures_have_mean_and_percentiles_of_each_latency():
    answers = [Answer(0.0, (float(n), 2.0 * n, 3.0 * n), 3, 8) for n in range(1, 101)]
    figures = Latencies.of(answers).figures()
    assert figures["ttft_mean"] == 50.5
    assert (figures["ttft_p50"], figures["ttft_p90"], figures["ttft_p99"]) == (51, 91, 100)
    assert (figures["tpot_p50"], figures["itl_p50"]) == (51, 51)
    assert (figures["e2e_p50"], figures["e2e_p99"]) == (153, 300)


def test_figures_without_answers_are_none():
    assert set(Latencies.of([]).figures().values()) == {None}
