"""No kernel variant appears after the warm-up: what would be compiled is worked out on the CPU."""

import json

import pytest

from kvasir_runtime.config import EngineConfig
from kvasir_runtime.engine.core import Engine
from kvasir_runtime.engine.warm_up import everything, run_steps, warm_up
from kvasir_runtime.messages import NewRequest
from kvasir_runtime.sampling_params import SamplingParams
from support.kernel_launches import RecordedLaunches

SHAPE = {
    "hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 1, "vocab_size": 320,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 128,
    "max_position_embeddings": 4096, "eos_token_id": 258, "rms_norm_eps": 1e-6,
    "hidden_act": "silu", "torch_dtype": "float16", "rope_theta": 10000.0,
}  # fmt: skip
MODELS = {
    "grouped heads": {"architectures": ["LlamaForCausalLM"]},
    "as many KV heads": {"architectures": ["LlamaForCausalLM"], "num_key_value_heads": 4},
    "one KV head": {"architectures": ["LlamaForCausalLM"], "num_key_value_heads": 1},
    "norms of heads": {"architectures": ["Qwen3ForCausalLM"]},
    "window": {"architectures": ["MistralForCausalLM"], "sliding_window": 200},
    "heads of 64": {"architectures": ["LlamaForCausalLM"], "head_dim": 64},
}
EVERY_MODEL_LAUNCHES = {
    "embed_kernel", "rms_norm_kernel", "rotary_kv_write_kernel", "decode_kernel", "merge_kernel",
    "mixed_kernel", "silu_mul_kernel", "threshold_kernel", "draw_kernel", "pick_kernel",
    "copy_kernel",
}  # fmt: skip
GREEDY = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True)
PROMPTS = (1, 2, 3, 16, 17, 100, 127, 300, 1500, 2500)


@pytest.fixture
def launches(monkeypatch):
    recorded = RecordedLaunches()
    recorded.install(monkeypatch)
    return recorded


def new_engine(tmp_path, model, **settings):
    (tmp_path / "config.json").write_text(json.dumps(SHAPE | MODELS[model]))
    settings = {"max_num_batched_tokens": 2048, "num_gpu_blocks_override": 190} | settings
    config = EngineConfig(
        model=str(tmp_path), device="cpu", dtype="float16", load_format="dummy",
        max_num_seqs=40, swap_space=0.05, preemption_mode="swap", max_model_len=3000, **settings,
    )  # fmt: skip
    engine = Engine(config, tmp_path)
    engine.scheduler.forecast.typical_output = 0.0  # so that blocks do run out
    return engine


def run(engine):
    while engine.has_work():
        engine.step()


def workload(engine):
    """Lengths one by one and together, every parameter, shared prompts, and blocks that run out."""
    kinds = [GREEDY, everything(320), SamplingParams(max_tokens=5, top_p=0.5), GREEDY]
    for number, length in enumerate(PROMPTS):
        engine.add(NewRequest(f"alone {length}", (7,) * length, kinds[number % 4], 0.0))
        run(engine)
    for number, length in enumerate(PROMPTS * 2):
        name, prompt = f"together {number}", (number,) * length
        engine.add(NewRequest(name, prompt, kinds[number % 4], 0.0))
        engine.add(NewRequest(f"{name} again", prompt, GREEDY, 0.0, leader_id=name))
    run(engine)


@pytest.mark.parametrize("model", MODELS)
def test_no_variant_is_new_after_the_warm_up(tmp_path, launches, model):
    engine = new_engine(tmp_path, model)
    launches.variants.clear()  # what the profile run needed doesn't count
    warm_up(engine.runner)
    warm = set(launches.variants)
    workload(engine)
    assert engine.stats().swaps_total > 0
    assert launches.names() >= EVERY_MODEL_LAUNCHES
    assert launches.variants == warm


@pytest.mark.timeout(600)
@pytest.mark.parametrize("model", ["grouped heads", "window"])
def test_every_kernel_compiles_for_hopper(tmp_path, launches, model):
    warm_up(new_engine(tmp_path, model).runner)
    assert launches.compile() == len(launches.variants)


@pytest.mark.parametrize("tokens", [16, 40, 700])
def test_small_steps_choose_no_new_kernel(tmp_path, launches, tokens):
    engine = new_engine(tmp_path, "grouped heads", max_num_batched_tokens=tokens)
    launches.variants.clear()
    warm_up(engine.runner)
    warm = set(launches.variants)
    workload(engine)
    assert launches.variants == warm


def test_long_prompts_reach_both_tiles_of_the_prefill_kernel(tmp_path, launches):
    engine = new_engine(tmp_path, "grouped heads")
    launches.variants.clear()
    warm_up(engine.runner)
    assert len([1 for name, _ in launches.variants if name == "prefill_kernel"]) == 2


@pytest.mark.parametrize("model", MODELS)
def test_what_is_compiled_beside_the_weights_leaves_only_block_copies(tmp_path, launches, model):
    engine = new_engine(tmp_path, model)
    launches.variants.clear()
    engine.runner.pool = engine.runner.pool[:, :, :64].contiguous()  # as small as the one used then
    run_steps(engine.runner)
    compiled = set(launches.variants)
    engine.runner.pool = engine.runner.pool.repeat(1, 1, 3, 1, 1, 1)
    warm_up(engine.runner)
    assert {name for name, _ in launches.variants - compiled} == {"copy_kernel"}
