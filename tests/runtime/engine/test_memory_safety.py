"""What is in blocks that no request owns can't reach an output, even under preemption."""

import math

import pytest
import torch

from kvasir_runtime.config import EngineConfig
from kvasir_runtime.engine.core import Engine
from kvasir_runtime.messages import NewRequest
from kvasir_runtime.sampling_params import SamplingParams
from support.device import SMALL

PROMPTS = {"a": range(5), "b": range(40, 77), "c": range(100, 116), "d": range(7, 60)}


def engine(folder, **settings):
    config = EngineConfig(model="tiny", block_size=16, **(SMALL | settings))
    return Engine(config, folder)


def run(engine, *, poison):
    """Generate for all prompts; fill every unowned block with NaN before each step."""
    params = SamplingParams(temperature=0, max_tokens=30, ignore_eos=True)
    for name, prompt in PROMPTS.items():
        engine.add(NewRequest(name, tuple(prompt), params, 0.0))
    tokens = {name: [] for name in PROMPTS}
    while engine.has_work():
        if poison:
            free = torch.tensor(engine.blocks.unowned_blocks(), dtype=torch.long)
            for cache in engine.runner.caches:
                cache.keys[free] = math.nan
                cache.values[free] = math.nan
        for output in engine.step().outputs:
            tokens[output.request_id] += output.token_ids
        blocks = engine.blocks
        assert blocks.num_free + blocks.num_cached + blocks.num_used == blocks.num_blocks
    assert engine.stats().gpu_blocks_used == 0
    return tokens


@pytest.mark.parametrize("prefix_caching", [False, True])
@pytest.mark.parametrize("num_blocks", [64, 10])
def test_nan_in_unowned_blocks_changes_nothing(tiny_models, prefix_caching, num_blocks):
    folder = tiny_models.folder("llama")
    plain = run(engine(folder, max_model_len=160, num_gpu_blocks_override=64), poison=False)
    pressed = engine(
        folder, max_model_len=160, num_gpu_blocks_override=num_blocks,
        enable_prefix_caching=prefix_caching, max_num_batched_tokens=32, max_num_seqs=4,
    )  # fmt: skip
    assert run(pressed, poison=True) == plain
    assert (pressed.stats().preemptions_total > 0) == (num_blocks == 10)


def test_a_request_served_from_the_prefix_cache_gives_the_same_tokens(tiny_models):
    warm = engine(tiny_models.folder("llama"))
    first = run(warm, poison=True)
    assert warm.stats().prefix_cache_hits_total == 0
    assert run(warm, poison=True) == first
    assert warm.stats().prefix_cache_hits_total == 32 + 0 + 0 + 48
