"""Random checkpoints of a few kilobytes, saved by transformers itself, with a real tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

VOCAB = 320
COMMON: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": 257,
    "eos_token_id": 258,
    "initializer_range": 0.2,
}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {"tie_word_embeddings": True}),
    "llama-mha": ("Llama", {"num_key_value_heads": 4, "attention_bias": True, "mlp_bias": True}),
    "llama3": (
        "Llama",
        {
            "rope_parameters": {
                "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0,
                "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            }
        },
    ),
    "mistral": ("Mistral", {"sliding_window": 24, "head_dim": 32}),
    "qwen2": ("Qwen2", {}),
    "qwen2-window": (
        "Qwen2",
        {"use_sliding_window": True, "sliding_window": 24, "max_window_layers": 1},
    ),
    "qwen3": ("Qwen3", {"head_dim": 32}),
}  # fmt: skip


class TinyModels:
    """Makes and keeps one folder a family."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, family: str) -> Path:
        """Return the checkpoint's folder, making it at the first call."""
        folder = self.root / family
        if not folder.exists():
            torch.manual_seed(7)
            self.reference(family).save_pretrained(folder)
            save_byte_tokenizer(folder)
        return folder

    def reference(self, family: str) -> Any:
        """Return transformers' own model, with weights that biases and norms can't hide in."""
        folder = self.root / family
        if folder.exists():
            return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        name, extra = FAMILIES[family]
        config = getattr(transformers, f"{name}Config")(**(COMMON | extra))
        model = getattr(transformers, f"{name}ForCausalLM")(config).float().eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim == 1:
                    parameter.add_(torch.randn_like(parameter) * 0.2)
        return model


def save_byte_tokenizer(folder: Path) -> None:
    """Save a tokenizer with one token a byte: text of any language splits inside characters."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {letter: index for index, letter in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<pad>", "<s>", "</s>"])
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    fast.chat_template = (
        "{% for m in messages %}<s>{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
        "{% if add_generation_prompt %}<s>assistant:{% endif %}"
    )
    fast.save_pretrained(folder)
