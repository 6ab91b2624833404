"""An 8-bit KV cache: what it costs, and the scales that keep large keys and values whole."""

import json
import logging
import shutil

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from kvasir_runtime import LLM, SamplingParams
from kvasir_runtime.config import EngineConfig
from kvasir_runtime.engine import device
from kvasir_runtime.errors import CorruptWeightsError, UnsupportedFeatureError
from support.device import SMALL
from support.tiny_models import FAMILIES

LAYERS = 3
PROMPT = list(range(40, 90))
# Of the mean |Δlogprob| against a float32 cache: tiny random models amplify what three bits of
# mantissa cost. In bfloat16 throughout, the same prompt is 0.03 off.
BOUND = 0.25
GROWN = 2**14  # what keys and values are multiplied by: far beyond e4m3's 448


def make(folder, **settings):
    settings = SMALL | {"kv_cache_dtype": "fp8", "max_model_len": 160} | settings
    return LLM(str(folder), use_tqdm=False, **settings)


def prompt_logprobs(folder, **settings):
    """The log-probability of each of the prompt's tokens after the first."""
    params = SamplingParams(max_tokens=1, prompt_logprobs=0)
    (output,) = make(folder, **settings).generate([PROMPT], params, use_tqdm=False)
    described = zip(PROMPT[1:], output.prompt_logprobs[1:], strict=True)
    return torch.tensor([at[token].logprob for token, at in described])


def cost(folder, **settings):
    """How far an 8-bit cache takes the prompt's log-probabilities from a float32 one's."""
    exact = prompt_logprobs(folder, kv_cache_dtype="auto")
    return float((prompt_logprobs(folder, **settings) - exact).abs().mean())


@pytest.fixture
def grown(tiny_models, tmp_path):
    """A function that makes the same model with keys and values too large for e4m3, plus scales.

    Queries and the projection after attention make up for it, so its answers are the same.
    """

    def grow(name, **scales):
        folder = shutil.copytree(tiny_models.folder("llama"), tmp_path / name)
        tensors = load_file(folder / "model.safetensors")
        for layer in range(LAYERS):
            attention = f"model.layers.{layer}.self_attn"
            for part, factor in (("k", GROWN), ("v", GROWN), ("q", 1 / GROWN), ("o", 1 / GROWN)):
                tensors[f"{attention}.{part}_proj.weight"] *= factor
            for suffix, scale in scales.items():
                tensors[f"{attention}.{suffix.replace('__', '.')}"] = torch.tensor(scale)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return folder

    return grow


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_are_those_of_transformers_with_rounded_keys_and_values(
    tiny_models, family, monkeypatch
):
    update = transformers.DynamicCache.update

    def update_rounded(cache, keys, values, *args, **kwargs):
        rounded = (x.to(torch.float8_e4m3fn).float() for x in (keys, values))
        return update(cache, *rounded, *args, **kwargs)

    monkeypatch.setattr(transformers.DynamicCache, "update", update_rounded)
    scores = prompt_logprobs(tiny_models.folder(family))
    reference = tiny_models.reference(family)
    with torch.inference_mode():
        logits = reference(torch.tensor([PROMPT]), use_cache=True).logits[0, :-1]
    expected = logits.log_softmax(-1).gather(1, torch.tensor(PROMPT[1:])[:, None])[:, 0]
    # A number that the two compute a bit apart may be rounded up by one and down by the other.
    torch.testing.assert_close(scores, expected, atol=0.02, rtol=0)
    assert float((scores - expected).abs().mean()) < 0.002


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_stay_near_those_of_a_wide_cache(tiny_models, family):
    assert 0.01 < cost(tiny_models.folder(family)) < BOUND


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_activations_take_an_8_bit_cache(tiny_models, dtype):
    assert cost(tiny_models.folder("llama"), dtype=dtype) < BOUND


def test_a_block_takes_a_byte_a_number(tiny_models):
    sizes = {"num_gpu_blocks_override": None, "kv_cache_gib": 0.001, "device": "cpu"}
    folder = tiny_models.folder("llama")
    narrow = make(folder, **sizes).engine.blocks.num_blocks
    wide = make(folder, kv_cache_dtype="auto", **sizes).engine.blocks.num_blocks
    assert narrow // wide == 4
    assert narrow == int(0.001 * 2**30) // (16 * 2 * LAYERS * 2 * 16)


@pytest.mark.parametrize(
    "names",
    [
        ("k_scale", "v_scale"),
        ("attn__k_scale", "attn__v_scale"),
        ("k_proj__k_scale", "v_proj__v_scale"),
        ("qkv_proj__k_scale", "qkv_proj__v_scale"),
        ("k_proj__output_scale", "v_proj__output_scale"),
        ("kv_scale",),
    ],
    ids=lambda names: names[0],
)
@pytest.mark.parametrize("shape", [(), (1,)], ids=["scalar", "vector"])
def test_a_checkpoints_scales_keep_large_keys_and_values(grown, names, shape):
    scales = dict.fromkeys(names, GROWN / 64 if shape == () else [GROWN / 64])
    assert cost(grown("scaled", **scales)) < BOUND


@pytest.mark.parametrize("scales", [{}, {"k_scale": 256.0}, {"v_scale": 256.0}], ids=str)
def test_without_its_scales_the_same_checkpoint_is_far_off(grown, scales):
    assert cost(grown("unscaled", **scales)) > 3 * BOUND


def test_a_cache_of_another_dtype_needs_no_scales(grown):
    scaled = grown("scaled", k_scale=3.0, v_scale=0.01, q_scale=2.0)
    exact = prompt_logprobs(grown("unscaled"), kv_cache_dtype="auto")
    assert torch.equal(prompt_logprobs(scaled, kv_cache_dtype="auto"), exact)


def test_missing_scales_are_warned_of_with_their_number(grown, caplog):
    with caplog.at_level(logging.WARNING):
        make(grown("scaled", k_scale=2.0))
        assert "scales are 1.0" not in caplog.text
        make(grown("unscaled"))
    assert "scales are 1.0 in 3 of 3 layers" in caplog.text


@pytest.mark.parametrize("scale", [0.0, -1.0, torch.inf, torch.nan])
def test_a_number_that_is_no_scale_is_refused_by_its_name(grown, scale):
    with pytest.raises(CorruptWeightsError, match=r"layers\.0\.self_attn\.k_scale is"):
        make(grown("broken", k_scale=scale))


def test_scales_of_each_head_are_refused_with_their_number(grown):
    with pytest.raises(UnsupportedFeatureError, match="holds 2 scales"):
        make(grown("heads", v_scale=[1.0, 2.0]))


def test_a_scale_of_a_layer_there_is_not_is_a_tensor_too_many(tiny_models, tmp_path):
    folder = shutil.copytree(tiny_models.folder("llama"), tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.3.self_attn.k_scale"] = torch.tensor(1.0)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CorruptWeightsError, match=r"layers\.3\.self_attn\.k_scale"):
        make(folder)


CACHE_ONLY = {
    "compressed-tensors": {"config_groups": {}, "kv_cache_scheme": {"num_bits": 8}},
    "modelopt": {"quant_algo": None, "kv_cache_quant_algo": "FP8"},
}
WEIGHTS_TOO = {
    "compressed-tensors": {"config_groups": {"group_0": {}}, "kv_cache_scheme": {"num_bits": 8}},
    "modelopt": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"},
}


def quantized(folder, method, quantization):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["quantization_config"] = {"quant_method": method} | quantization
    path.write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("method", CACHE_ONLY)
def test_a_checkpoint_quantized_in_its_cache_alone_is_run(grown, method):
    folder = quantized(grown("cache", kv_scale=256.0), method, CACHE_ONLY[method])
    assert cost(folder) < BOUND


@pytest.mark.parametrize("method", WEIGHTS_TOO)
def test_one_whose_weights_are_quantized_too_is_refused(grown, method):
    with pytest.raises(UnsupportedFeatureError, match=method):
        make(quantized(grown("weights"), method, WEIGHTS_TOO[method]))


def test_a_gpu_that_cannot_convert_e4m3_is_refused_with_its_capability(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "A100")
    asked = EngineConfig(model="tiny", kv_cache_dtype="fp8_e4m3")
    cuda = torch.device("cuda", 0)
    with pytest.raises(UnsupportedFeatureError, match=r"A100 has compute capability 8\.0"):
        device.pick_kv_dtype(asked, torch.bfloat16, cuda)
    auto = EngineConfig(model="tiny")
    assert device.pick_kv_dtype(auto, torch.bfloat16, cuda) == torch.bfloat16
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 9))
    assert device.pick_kv_dtype(asked, torch.bfloat16, cuda) == torch.float8_e4m3fn
