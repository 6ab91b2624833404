"""Checkpoints of two layers with the head shapes of well-known models, and prompts for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

from support.tiny_models import save_byte_tokenizer

VOCAB = 32000
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama-2": (
        "Llama",
        {"hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 32},
    ),
    "llama-3": (
        "Llama",
        {"hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
         "rope_parameters": {
             "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
             "high_freq_factor": 4.0, "original_max_position_embeddings": 1024}},
    ),
    "mistral": (
        "Mistral",
        {"hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
         "sliding_window": 512},
    ),
    "qwen2.5": (
        "Qwen2",
        {"hidden_size": 3584, "num_attention_heads": 28, "num_key_value_heads": 4},
    ),
    "qwen3": (
        "Qwen3",
        {"hidden_size": 2560, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128},
    ),
    "smollm2": ("Llama", {"hidden_size": 576, "num_attention_heads": 9, "num_key_value_heads": 3}),
}  # fmt: skip
PROMPT_LENGTHS = (5, 17, 300, 1500)


def save_checkpoint(shape: str, folder: Path) -> Path:
    """Save random weights of SHAPES[shape] and a tokenizer into `folder`, and return it."""
    name, extra = SHAPES[shape]
    config = getattr(transformers, f"{name}Config")(
        vocab_size=VOCAB, intermediate_size=4096, num_hidden_layers=2,
        max_position_embeddings=4096, bos_token_id=1, eos_token_id=2, **extra,
    )  # fmt: skip
    torch.manual_seed(0)
    getattr(transformers, f"{name}ForCausalLM")(config).save_pretrained(folder)
    save_byte_tokenizer(folder)
    return folder


def prompts() -> list[list[int]]:
    """Random tokens, the same at each call."""
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(0, VOCAB, (n,), generator=generator).tolist() for n in PROMPT_LENGTHS]
