"""Bounds against sums done by hand."""

import json

import pytest
from roofline import H200, Card, Model, bound_s, bytes_per_weight

from kvasir_runtime.models.config import read_model_config

# One layer: 4 heads and 2 KV heads of 8, hidden 32, MLP 64, 100 tokens.
SMALL = {
    "architectures": ["LlamaForCausalLM"], "hidden_size": 32, "intermediate_size": 64,
    "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100,
    "rms_norm_eps": 1e-6, "max_position_embeddings": 64,
}  # fmt: skip
LAYER = 32 * 8 * (4 + 2 + 2 + 4) + 3 * 32 * 64  # q, k, v, o; gate, up, down
HEAD = 32 * 100
QWEN_7B = SMALL | {
    "architectures": ["Qwen2ForCausalLM"], "hidden_size": 3584, "intermediate_size": 18944,
    "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
    "vocab_size": 152064, "max_position_embeddings": 32768,
}  # fmt: skip


@pytest.fixture
def model(tmp_path):
    def make(raw, quantization=None):
        (tmp_path / "config.json").write_text(json.dumps(raw))
        return Model(read_model_config(tmp_path), bytes_per_weight(quantization))

    return make


def test_sizes_are_those_of_the_weights_and_the_cache(model):
    small = model(SMALL)
    assert (small.layer_weights, small.head_weights) == (LAYER, HEAD)
    assert small.weight_bytes == 2 * (LAYER + HEAD)
    assert small.kv_bytes_per_position == 2 * 2 * 8 * 2
    assert small.attention_flops_per_position == 4 * 4 * 8


def test_a_card_that_reads_slowly_is_bound_by_what_each_step_reads(model):
    # Two requests of three tokens, three tokens each: a prompt step, then contexts of 4 and 5.
    reads = 3 * 2 * (LAYER + HEAD) + 2 * (4 + 5) * 64
    slow_reads = Card(flops_per_s=1e30, bytes_per_s=1.0)
    assert bound_s(model(SMALL), slow_reads, 2, 3, 3) == pytest.approx(reads)


def test_a_card_that_computes_slowly_is_bound_by_its_arithmetic(model):
    prompt = 2 * (LAYER * 6 + HEAD * 2) + 2 * (1 + 2 + 3) * 128
    decode = 2 * 2 * (LAYER + HEAD) * 2 + 2 * (4 + 5) * 128
    slow_sums = Card(flops_per_s=1.0, bytes_per_s=1e30)
    assert bound_s(model(SMALL), slow_sums, 2, 3, 3) == pytest.approx(prompt + decode)


def test_a_window_bounds_what_a_token_attends_to(model):
    windowed = model(SMALL | {"architectures": ["MistralForCausalLM"], "sliding_window": 2})
    assert windowed.config.windows == (2,)
    slow_sums = Card(flops_per_s=1.0, bytes_per_s=1e30)
    prompt = 2 * (LAYER * 4 + HEAD) + (1 + 2 + 2 + 2) * 128
    assert bound_s(windowed, slow_sums, 1, 4, 1) == pytest.approx(prompt)
    decode = 2 * (LAYER + HEAD) + 2 * 128
    assert bound_s(windowed, slow_sums, 1, 4, 2) == pytest.approx(prompt + decode)


def test_the_bound_of_a_7b_model_on_an_h200(model):
    qwen = model(QWEN_7B)
    assert qwen.layer_weights + qwen.head_weights == pytest.approx(7.07e9, rel=0.001)
    # A prompt of 32,000: 6.53e9 weights, 2 operations each a token, and half of 32,000 squared
    # pairs of 14,336 operations in 28 layers, at 798 TFLOP/s; then 15 reads of the weights and of
    # 57,344 bytes a token of context, at 4.47 TB/s.
    prompt = (2 * 6.525e9 * 32_000 + 32_000**2 / 2 * 4 * 28 * 128 * 28) / 798e12
    decode = 15 * (2 * 7.07e9 + 32_008 * 57_344) / 4.47e12
    assert bound_s(qwen, H200, 1, 32_000, 16) == pytest.approx(prompt + decode, rel=0.002)
    # A decode step of 256: 4.54 ms of arithmetic, 2.1 ms of reads, with contexts of about 640.
    steps = bound_s(qwen, H200, 256, 512, 256) - bound_s(qwen, H200, 256, 512, 1)
    assert steps / 255 == pytest.approx(6.64e-3, rel=0.005)


def test_two_cards_halve_the_bound(model):
    one = bound_s(model(QWEN_7B), H200, 32, 512, 256)
    assert bound_s(model(QWEN_7B), H200.times(2), 32, 512, 256) == pytest.approx(one / 2)


def test_four_bits_with_groups_take_their_scales_and_zeros_along(model):
    awq = {"bits": 4, "group_size": 128, "quant_method": "awq"}
    assert bytes_per_weight(awq) == pytest.approx((4 + 20 / 128) / 8)
    assert bytes_per_weight({"quant_method": "fp8"}) == 1.0
    assert bytes_per_weight(None) == 2.0
    assert model(SMALL, awq).weight_bytes == pytest.approx(LAYER * (4 + 20 / 128) / 8 + 2 * HEAD)
