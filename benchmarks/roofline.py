"""The time a card needs for a workload at its best: what its arithmetic and its memory allow.

Counted are the matrix products and the attention of the prompts and of every decode step, the
weights once a step, and the keys and values each step reads. Prompts and decodes are steps of
their own, and matrix products and attention follow each other layer by layer, so these times add
up; within each, arithmetic and reads overlap perfectly. Left out: activations, norms, sampling,
launches, communication, and that the KV cache may not hold all requests at once. An engine that
mixes prompts into its decode steps can hide some reads behind arithmetic, which is left out, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvasir_runtime.models.config import ModelConfig


@dataclass(frozen=True, slots=True)
class Card:
    """What a card was measured to do at its best, over all cards of a replica."""

    flops_per_s: float
    bytes_per_s: float

    def times(self, cards: int) -> Card:
        """Return so many cards as one."""
        return Card(cards * self.flops_per_s, cards * self.bytes_per_s)


H200 = Card(flops_per_s=798e12, bytes_per_s=4.47e12)  # a large bf16 product; a long read


@dataclass(frozen=True, slots=True)
class Model:
    """A model's sizes, and the bytes one weight of a layer takes with its scales."""

    config: ModelConfig
    bytes_per_weight: float
    element_bytes: int = 2  # activations, keys and values, and the head

    @property
    def layer_weights(self) -> int:
        """Return the weights of all layers' projections."""
        c = self.config
        attention = c.hidden_size * c.head_dim * 2 * (c.num_heads + c.num_kv_heads)
        return c.num_layers * (attention + 3 * c.hidden_size * c.intermediate_size)

    @property
    def head_weights(self) -> int:
        """Return the weights of the product that gives the scores."""
        return self.config.vocab_size * self.config.hidden_size

    @property
    def weight_bytes(self) -> float:
        """Return the bytes that a step reads of the weights."""
        return self.layer_weights * self.bytes_per_weight + self.head_weights * self.element_bytes

    @property
    def kv_bytes_per_position(self) -> int:
        """Return the bytes of keys and values that one token keeps in one layer."""
        return 2 * self.config.num_kv_heads * self.config.head_dim * self.element_bytes

    @property
    def attention_flops_per_position(self) -> int:
        """Return the operations of one query with one key and value, in one layer."""
        return 4 * self.config.num_heads * self.config.head_dim


def bytes_per_weight(quantization: dict[str, int] | None, element_bytes: int = 2) -> float:
    """Return a layer's bytes a weight from config.json's `quantization_config`.

    With groups, each has a 16-bit scale and a zero of `bits`.
    """
    if not quantization:
        return float(element_bytes)
    bits, group = quantization.get("bits", 8), quantization.get("group_size", -1)
    return (bits + ((16 + bits) / group if group > 0 else 0.0)) / 8


def bound_s(model: Model, card: Card, requests: int, input_len: int, output_len: int) -> float:
    """Return the least seconds for `requests` prompts at once, with `output_len` tokens each.

    The prompts' step gives the first token; each of the others takes a step of all requests.
    """
    tokens = requests * input_len
    prompt_gemms = _gemm_s(model, card, tokens=tokens, scored=requests)
    pairs = sum(_causal_pairs(input_len, window) for window in model.config.windows)
    prompt_attention = requests * pairs * model.attention_flops_per_position / card.flops_per_s
    decode_gemms = (output_len - 1) * _gemm_s(model, card, tokens=requests, scored=requests)
    decode_attention = sum(
        _decode_attention_s(model, card, requests, input_len + step)
        for step in range(1, output_len)
    )
    return prompt_gemms + prompt_attention + decode_gemms + decode_attention


def _gemm_s(model: Model, card: Card, *, tokens: int, scored: int) -> float:
    """Return the time of a step's matrix products: `tokens` in the layers, `scored` in the head."""
    flops = 2 * (model.layer_weights * tokens + model.head_weights * scored)
    return max(flops / card.flops_per_s, model.weight_bytes / card.bytes_per_s)


def _decode_attention_s(model: Model, card: Card, requests: int, context: int) -> float:
    positions = requests * sum(min(context, w or context) for w in model.config.windows)
    return max(
        positions * model.kv_bytes_per_position / card.bytes_per_s,
        positions * model.attention_flops_per_position / card.flops_per_s,
    )


def _causal_pairs(length: int, window: int | None) -> int:
    """Return the pairs of query and key in one layer: each token sees itself and what is before."""
    window = min(window or length, length)
    return window * (window + 1) // 2 + (length - window) * window
