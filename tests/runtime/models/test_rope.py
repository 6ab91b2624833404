import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from kvasir_runtime.errors import UnsupportedFeatureError
from kvasir_runtime.layers.rope import rope_tables

THETA = {"rope_theta": 10000.0}
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "default"},
        {"rope_type": "linear", "factor": 2.5},
        {"rope_type": "dynamic", "factor": 2.0},
        LLAMA3,
        YARN,
        YARN | {"beta_fast": 16.0, "beta_slow": 2.0, "attention_factor": 1.1},
    ],
)
def test_angles_equal_those_of_transformers(rope):
    rope = THETA | rope
    ours = {"original_max_position_embeddings": 8192} | rope
    config = LlamaConfig(
        hidden_size=256, num_attention_heads=4, max_position_embeddings=8192, rope_parameters=rope
    )
    positions = torch.tensor([[0, 1, 17, 900, 8191]])
    cos, sin = LlamaRotaryEmbedding(config)(torch.zeros(1), positions)
    ours_cos, ours_sin = rope_tables(ours, 64, 8192)
    torch.testing.assert_close(ours_cos[positions[0]], cos[0, :, :32], rtol=1e-4, atol=2e-4)
    torch.testing.assert_close(ours_sin[positions[0]], sin[0, :, :32], rtol=1e-4, atol=2e-4)


def test_dynamic_angles_are_those_of_transformers_for_a_sequence_of_the_served_length():
    rope = THETA | {"rope_type": "dynamic", "factor": 2.0}
    config = LlamaConfig(
        hidden_size=256, num_attention_heads=4, max_position_embeddings=2048, rope_parameters=rope
    )
    positions = torch.arange(4096)[None]
    cos, _ = LlamaRotaryEmbedding(config)(torch.zeros(1), positions)
    ours, _ = rope_tables(rope | {"original_max_position_embeddings": 2048}, 64, 4096)
    torch.testing.assert_close(ours, cos[0, :, :32], rtol=1e-4, atol=2e-4)


def test_an_unknown_scaling_is_refused_by_name():
    with pytest.raises(UnsupportedFeatureError, match="longrope"):
        rope_tables(THETA | {"rope_type": "longrope"}, 64, 16)
