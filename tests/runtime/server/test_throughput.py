from kvasir_runtime.messages import Stats
from kvasir_runtime.server.load_report import has_load, load_line
from kvasir_runtime.server.throughput import Rates, Throughput


def counted(prompt, generation):
    return Stats(prompt_tokens_total=prompt, generation_tokens_total=generation)


def test_the_rate_is_the_growth_over_the_window():
    throughput = Throughput(window_s=10)
    for second in range(31):
        throughput.add(second, counted(100 * second, 20 * second))
    assert throughput.rates() == Rates(100, 20)


def test_the_rate_falls_to_zero_within_the_window_once_the_load_ends():
    throughput = Throughput(window_s=10)
    throughput.add(0, counted(0, 0))
    for second in range(1, 12):
        throughput.add(second, counted(500, 50))
    assert throughput.rates() == Rates(0, 0)


def test_a_burst_between_two_samples_counts():
    throughput = Throughput(window_s=10)
    throughput.add(0, counted(0, 0))
    throughput.add(100, counted(0, 1000))
    assert throughput.rates().generation == 10


def test_one_sample_or_two_at_once_have_no_rate():
    throughput = Throughput()
    throughput.add(5, counted(1, 1))
    assert throughput.rates() == Rates()
    throughput.add(5, counted(9, 9))
    assert throughput.rates() == Rates()


def test_the_line_in_the_log_is_the_one_that_users_of_vllm_know():
    stats = Stats(
        running=2, waiting=1, gpu_blocks_used=1, gpu_blocks_total=8,
        prefix_cache_queries_total=10, prefix_cache_hits_total=5,
    )  # fmt: skip
    assert load_line(stats, Rates(12.34, 5)) == (
        "Avg prompt throughput: 12.3 tokens/s, Avg generation throughput: 5.0 tokens/s, "
        "Running: 2 reqs, Waiting: 1 reqs, GPU KV cache usage: 12.5%, "
        "Prefix cache hit rate: 50.0%"
    )


def test_an_idle_engine_is_no_load():
    assert not has_load(Stats(), Rates())
    assert has_load(Stats(waiting=1), Rates())
    assert has_load(Stats(), Rates(generation=0.5))
