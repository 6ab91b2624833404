import pytest
from prometheus_client.parser import text_string_to_metric_families

from kvasir_runtime.messages import Stats
from runtime.server.conftest import connected, new_state

TABLE = [
    "num_requests_running",
    "num_requests_waiting",
    "num_requests_swapped",
    "gpu_cache_usage_perc",
    "kv_cache_usage_perc",
    "cpu_cache_usage_perc",
    "avg_generation_throughput",
    "avg_generation_throughput_toks_per_s",
    "avg_prompt_throughput",
    "avg_prompt_throughput_toks_per_s",
    "num_gpu_blocks",
    "num_cpu_blocks",
    "cache_config_info",
    "generation_tokens_total",
    "prompt_tokens_total",
    "num_preemptions_total",
    "request_success_total",
    "prefix_cache_queries_total",
    "prefix_cache_hits_total",
    "time_to_first_token_seconds_bucket",
    "inter_token_latency_seconds_bucket",
    "time_per_output_token_seconds_bucket",
    "e2e_request_latency_seconds_bucket",
    "request_queue_time_seconds_bucket",
    "request_prefill_time_seconds_bucket",
    "request_decode_time_seconds_bucket",
    "request_inference_time_seconds_bucket",
    "request_prompt_tokens_bucket",
    "request_generation_tokens_bucket",
]


async def samples(client):
    text = (await client.get("/metrics")).text
    return [s for family in text_string_to_metric_families(text) for s in family.samples]


async def value(client, name, **labels):
    found = [
        sample.value
        for sample in await samples(client)
        if sample.name == f"vllm:{name}" and labels.items() <= sample.labels.items()
    ]
    assert len(found) == 1, f"{name}{labels}: {found}"
    return found[0]


async def test_every_name_of_the_table_is_exported_with_the_models_labels(client):
    exported = await samples(client)
    assert {sample.name for sample in exported} >= {f"vllm:{name}" for name in TABLE}
    for sample in exported:
        assert sample.labels["model_name"] == "tiny"
        assert sample.labels["engine"] == "0"


async def test_nothing_is_exported_while_the_model_loads():
    async with connected(new_state()) as client:
        response = await client.get("/metrics")
    assert (response.status_code, response.text) == (200, "")


async def test_gauges_and_counters_follow_the_engine(client, engine):
    engine.stats = Stats(
        running=3, waiting=2, gpu_blocks_used=25, gpu_blocks_total=100,
        prompt_tokens_total=70, generation_tokens_total=30, preemptions_total=4,
        prefix_cache_queries_total=70, prefix_cache_hits_total=16, late_kernels_total=2,
    )  # fmt: skip
    assert await value(client, "num_requests_running") == 3
    assert await value(client, "num_requests_waiting") == 2
    assert await value(client, "gpu_cache_usage_perc") == 0.25
    assert await value(client, "kv_cache_usage_perc") == 0.25
    assert await value(client, "cpu_cache_usage_perc") == 0
    assert await value(client, "prompt_tokens_total") == 70
    assert await value(client, "generation_tokens_total") == 30
    assert await value(client, "num_preemptions_total") == 4
    assert await value(client, "prefix_cache_hits_total") == 16
    [late] = [s for s in await samples(client) if s.name == "kvasir:late_kernel_compiles_total"]
    assert late.value == 2
    assert await value(client, "cache_config_info", block_size="16", num_gpu_blocks="100") == 1


async def test_a_request_is_observed_once_and_each_of_its_tokens(client):
    await client.post("/v1/completions", json={"prompt": "abcd", "max_tokens": 50})
    assert await value(client, "request_success_total", finished_reason="stop") == 1
    assert await value(client, "time_to_first_token_seconds_count") == 1
    assert await value(client, "inter_token_latency_seconds_count") == 12
    assert await value(client, "time_per_output_token_seconds_count") == 12
    assert await value(client, "request_prompt_tokens_sum") == 4
    assert await value(client, "request_generation_tokens_sum") == 13
    assert await value(client, "e2e_request_latency_seconds_count") == 1


async def test_the_engines_own_times_are_observed(client):
    await client.post("/v1/completions", json={"prompt": "abcd"})
    expected = {"queue": 1, "prefill": 2, "decode": 4, "inference": 6}
    for part, seconds in expected.items():
        assert await value(client, f"request_{part}_time_seconds_sum") == pytest.approx(seconds)


async def test_every_choice_counts(client):
    body = {"prompt": ["a", "b"], "n": 2, "max_tokens": 2}
    await client.post("/v1/completions", json=body)
    assert await value(client, "request_success_total", finished_reason="length") == 4
    assert await value(client, "request_prompt_tokens_count") == 2
    assert await value(client, "request_generation_tokens_count") == 4


async def test_a_refused_request_leaves_no_trace(client):
    await client.post("/v1/completions", json={"prompt": "a" * 600})
    for sample in await samples(client):
        if sample.name.endswith(("_count", "success_total")):
            assert sample.value == 0, sample


async def test_a_failed_request_counts_as_an_error(client, engine):
    engine.fails_with = "broken"
    await client.post("/v1/completions", json={"prompt": "a"})
    assert await value(client, "request_success_total", finished_reason="error") == 1
    assert await value(client, "request_success_total", finished_reason="stop") == 0
