"""The same tokens, whatever happens to a request on its way; and its probabilities are right.

Blocks that nobody owns hold NaN throughout, so reading one would show.
"""

import math

import pytest
import torch

from kvasir_runtime.config import EngineConfig
from kvasir_runtime.engine.core import Engine
from kvasir_runtime.messages import NewRequest
from kvasir_runtime.sampling_params import SamplingParams
from support.device import DEVICE, SMALL

PROMPTS = {"a": range(5), "b": range(40, 77), "c": range(100, 116), "d": range(7, 60)}
PENALISED = {"presence_penalty": 0.3, "repetition_penalty": 1.2, "frequency_penalty": 0.1}
KINDS = {
    "greedy": {"temperature": 0},
    "sampled": {"temperature": 1.0, "top_p": 0.9, "seed": 3},
    "penalised": {"temperature": 0.8, "seed": 5, **PENALISED},
}
ROOMY = {"num_gpu_blocks_override": 64}
TIGHT = {"num_gpu_blocks_override": 10, "max_num_batched_tokens": 32, "max_num_seqs": 4}
FP8 = {"kv_cache_dtype": "fp8"}
WAYS = {
    "batched": ROOMY,
    "chunked": ROOMY | {"max_num_batched_tokens": 16, "max_num_seqs": 4},
    "recomputed": TIGHT | {"preemption_mode": "recompute"},
    "swapped": TIGHT | {"preemption_mode": "swap", "swap_space": 0.01},
    "swapped without prefix caching": TIGHT
    | {"preemption_mode": "swap", "swap_space": 0.01, "enable_prefix_caching": False},
}


def make(folder, **settings):
    config = EngineConfig(model="tiny", max_model_len=160, **(SMALL | settings))
    engine = Engine(config, folder)
    engine.scheduler.forecast.typical_output = 0.0  # so that blocks do run out
    return engine


def request(name, prompt, kind="greedy", *, output=30, **more):
    params = SamplingParams(max_tokens=output, ignore_eos=True, **(KINDS[kind] | more))
    return NewRequest(name, tuple(prompt), params, 0.0)


def step(engine):
    """One step, with NaN in everything that is free."""
    free = torch.tensor(engine.blocks.unowned_blocks(), dtype=torch.long, device=DEVICE)
    engine.runner.pool[:, :, free] = math.nan
    outputs = engine.step().outputs
    blocks = engine.blocks
    assert blocks.num_free + blocks.num_cached + blocks.num_used == blocks.num_blocks
    return outputs


def run(engine, requests):
    """Add requests, step until all have ended; return each one's tokens."""
    for one in requests:
        engine.add(one)
    tokens = {}
    while engine.has_work():
        for output in step(engine):
            tokens.setdefault(output.request_id, []).extend(output.token_ids)
    assert engine.stats().gpu_blocks_used == engine.stats().cpu_blocks_used == 0
    return tokens


def run_alone(folder, kind, **settings):
    """Each request's tokens, one request after another."""
    engine = make(folder, enable_prefix_caching=False, async_scheduling=False, **settings)
    return {
        name: run(engine, [request(name, prompt, kind)])[name] for name, prompt in PROMPTS.items()
    }


@pytest.fixture(scope="module")
def alone(tiny_models):
    """Each request's tokens when nothing else runs, by kind."""
    return {kind: run_alone(tiny_models.folder("llama"), kind) for kind in KINDS}


@pytest.fixture(scope="module")
def alone_in_fp8(tiny_models):
    """The greedy requests' tokens when nothing else runs, over an 8-bit cache."""
    return run_alone(tiny_models.folder("llama"), "greedy", **FP8)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_tokens_are_those_of_the_request_alone(tiny_models, alone, kind, way, overlap):
    engine = make(tiny_models.folder("llama"), async_scheduling=overlap, **WAYS[way])
    requests = [request(name, prompt, kind) for name, prompt in PROMPTS.items()]
    assert run(engine, requests) == alone[kind]
    stats = engine.stats()
    assert (stats.preemptions_total > 0) == (WAYS[way]["num_gpu_blocks_override"] == 10)
    assert (stats.swaps_total > 0) == way.startswith("swapped")


@pytest.mark.parametrize("overlap", [False, True])
def test_prefix_hits_change_nothing(tiny_models, alone, overlap):
    engine = make(tiny_models.folder("llama"), async_scheduling=overlap, **ROOMY)
    for expected_hits in (0, 32 + 48):
        requests = [request(name, prompt) for name, prompt in PROMPTS.items()]
        before = engine.stats().prefix_cache_hits_total
        assert run(engine, requests) == alone["greedy"]
        assert engine.stats().prefix_cache_hits_total - before == expected_hits


@pytest.mark.parametrize("way", WAYS)
def test_over_an_8_bit_cache_tokens_are_those_of_the_request_alone(
    tiny_models, alone, alone_in_fp8, way
):
    engine = make(tiny_models.folder("llama"), async_scheduling=True, **WAYS[way], **FP8)
    for _ in range(2):  # the second time over blocks of the first
        requests = [request(name, prompt) for name, prompt in PROMPTS.items()]
        assert run(engine, requests) == alone_in_fp8
    stats = engine.stats()
    assert (stats.swaps_total > 0) == way.startswith("swapped")
    assert (stats.prefix_cache_hits_total > 0) == ("without" not in way)
    assert alone_in_fp8 != alone["greedy"]  # rounding shows: it is an 8-bit cache


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("kind", ["greedy", "penalised"])
def test_completions_that_share_a_prompts_blocks_are_those_made_apart(
    tiny_models, alone, overlap, kind
):
    engine = make(tiny_models.folder("llama"), async_scheduling=overlap, **ROOMY)
    seed = KINDS[kind].get("seed", 0)
    apart = {
        f"s{i}": run(engine, [request(f"s{i}", PROMPTS["b"], kind, seed=seed + i)])[f"s{i}"]
        for i in range(3)
    }
    group = []
    for i in range(3):
        one = request(f"s{i}", PROMPTS["b"], kind, seed=seed + i)
        group.append(NewRequest(*_fields(one), leader_id="s0" if i else None))
    assert run(engine, [*group, request("a", PROMPTS["a"])]) == apart | {"a": alone["greedy"]["a"]}


def _fields(one):
    return one.request_id, one.prompt_token_ids, one.params, one.arrived_s, one.priority


@pytest.mark.parametrize("overlap", [False, True])
def test_aborts_in_any_state_leave_the_others_and_leak_nothing(tiny_models, alone, overlap):
    engine = make(
        tiny_models.folder("llama"), async_scheduling=overlap,
        **TIGHT | {"preemption_mode": "swap", "swap_space": 0.01},
    )  # fmt: skip
    for name, prompt in PROMPTS.items():
        engine.add(request(name, prompt))
    tokens = {}
    for number in range(400):
        if not engine.has_work():
            break
        if number % 7 == 3:
            engine.add(request(f"x{number}", range(number, number + 30)))
        if number % 7 == 6:
            engine.abort(tuple(f"x{old}" for old in range(number - 20, number)))
        for output in step(engine):
            tokens.setdefault(output.request_id, []).extend(output.token_ids)
        if number > 60:
            engine.abort(tuple(f"x{old}" for old in range(400)))
    assert {name: tokens[name] for name in PROMPTS} == alone["greedy"]
    assert engine.stats().gpu_blocks_used == engine.stats().cpu_blocks_used == 0


@pytest.mark.parametrize("overlap", [False, True])
def test_logprobs_equal_those_of_transformers(tiny_models, overlap):
    engine = make(
        tiny_models.folder("llama"), async_scheduling=overlap,
        **ROOMY | {"max_num_batched_tokens": 16, "max_num_seqs": 4},
    )  # fmt: skip
    prompt = list(PROMPTS["b"])
    engine.add(request("b", prompt, logprobs=3, prompt_logprobs=2, output=10))
    tokens, chosen, of_prompt = [], [], []
    while engine.has_work():
        for output in step(engine):
            tokens += output.token_ids
            chosen += output.logprobs
            of_prompt += output.prompt_logprobs
    reference = tiny_models.reference("llama")
    with torch.inference_mode():
        scores = reference(torch.tensor([prompt + tokens])).logits[0].log_softmax(-1)
    assert [entry.token_id for entry in of_prompt] == prompt[1:]
    assert [entry.token_id for entry in chosen] == tokens
    for position, entry in enumerate([*of_prompt, *chosen]):
        assert math.isclose(entry.logprob, scores[position, entry.token_id], abs_tol=1e-4)
        values, ids = scores[position].topk(len(entry.top))
        assert [token for token, _ in entry.top] == ids.tolist()
        torch.testing.assert_close(
            torch.tensor([value for _, value in entry.top]), values, atol=1e-4, rtol=0
        )


def test_prompt_logprobs_are_told_once_even_if_the_prompt_is_computed_twice(tiny_models):
    engine = make(
        tiny_models.folder("llama"), async_scheduling=False,
        **TIGHT | {"preemption_mode": "recompute"},
    )  # fmt: skip
    requests = [request(n, p, prompt_logprobs=0) for n, p in PROMPTS.items()]
    for one in requests:
        engine.add(one)
    told = {name: [] for name in PROMPTS}
    while engine.has_work():
        for output in step(engine):
            told[output.request_id] += [entry.token_id for entry in output.prompt_logprobs]
    assert engine.stats().preemptions_total > 0
    assert told == {name: list(prompt)[1:] for name, prompt in PROMPTS.items()}
