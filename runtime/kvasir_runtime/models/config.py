"""What a checkpoint says of itself: config.json and generation_config.json, read and checked.

Leaves a frozen ModelConfig with the field's standard names, whatever the checkpoint's dialect
(transformers 4 wrote `rope_theta` and `rope_scaling`, transformers 5 writes `rope_parameters`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvasir_runtime.errors import InvalidConfigError, ModelNotFoundError


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """The facts of a decoder-only model; sizes in elements, lengths in tokens."""

    architecture: str
    dtype: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    rope: Mapping[str, Any]
    max_position_embeddings: int
    tie_word_embeddings: bool
    attention_bias: bool
    attention_out_bias: bool
    mlp_bias: bool
    windows: tuple[int | None, ...]
    hidden_act: str
    eos_token_ids: tuple[int, ...]
    quant_method: str | None

    @property
    def kv_elements_per_token(self) -> int:
        """Return the elements of keys and values that one token keeps in all layers."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim


def read_model_config(folder: Path) -> ModelConfig:
    """Read a checkpoint folder's configuration.

    Raises ModelNotFoundError where there is no config.json, InvalidConfigError where a field is
    missing or contradicts another.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise ModelNotFoundError(
            f"{folder} has no config.json", "point --model at a Hugging Face model folder"
        )
    raw = _read_json(path)
    generation = folder / "generation_config.json"
    eos = (_read_json(generation) if generation.is_file() else {}).get("eos_token_id")
    try:
        return _parse(raw, eos if eos is not None else raw.get("eos_token_id"))
    except KeyError as error:
        raise InvalidConfigError(
            f"{path} lacks {error.args[0]!r}", "the checkpoint is incomplete: fetch it again"
        ) from error


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text())
    except (ValueError, OSError) as error:
        raise InvalidConfigError(
            f"{path} can't be read: {error}", "fetch the checkpoint again"
        ) from error
    if not isinstance(value, dict):
        raise InvalidConfigError(f"{path} is not a JSON object", "fetch the checkpoint again")
    return value


def _parse(raw: dict[str, Any], eos: int | list[int] | None) -> ModelConfig:
    heads = raw["num_attention_heads"]
    kv_heads = raw.get("num_key_value_heads") or heads
    architecture = (raw.get("architectures") or ["unknown"])[0]
    qwen2 = architecture == "Qwen2ForCausalLM"
    bias = bool(raw.get("attention_bias", qwen2))
    if heads % kv_heads:
        raise InvalidConfigError(
            f"config.json has {heads} heads, which is no multiple of its {kv_heads} KV heads",
            "the checkpoint is damaged: fetch it again",
        )
    return ModelConfig(
        architecture=architecture,
        dtype=str(raw.get("dtype") or raw.get("torch_dtype") or "float32"),
        vocab_size=raw["vocab_size"],
        hidden_size=raw["hidden_size"],
        intermediate_size=raw["intermediate_size"],
        num_layers=raw["num_hidden_layers"],
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=raw.get("head_dim") or raw["hidden_size"] // heads,
        rms_norm_eps=raw["rms_norm_eps"],
        rope=_rope(raw),
        max_position_embeddings=raw["max_position_embeddings"],
        tie_word_embeddings=bool(raw.get("tie_word_embeddings", False)),
        attention_bias=bias,
        # Qwen2 has biases on q, k and v alone, whatever its config says.
        attention_out_bias=bias and not qwen2,
        mlp_bias=bool(raw.get("mlp_bias", False)),
        windows=_windows(raw),
        hidden_act=raw.get("hidden_act", "silu"),
        eos_token_ids=_as_ids(eos),
        quant_method=_quant_method(raw.get("quantization_config") or {}),
    )


def _quant_method(quantization: Mapping[str, Any]) -> str | None:
    """Return how the weights are quantized; None if nothing is, or the KV cache alone."""
    method: str | None = quantization.get("quant_method")
    of_cache = quantization.get("kv_cache_scheme") or quantization.get("kv_cache_quant_algo")
    of_weights = quantization.get("config_groups") or quantization.get("quant_algo")
    if method in ("compressed-tensors", "modelopt") and of_cache and not of_weights:
        return None
    return method


def _rope(raw: dict[str, Any]) -> dict[str, Any]:
    """Merge both dialects into one mapping with rope_type and rope_theta."""
    rope = {"rope_theta": raw.get("rope_theta", 10000.0), "rope_type": "default"}
    rope |= raw.get("rope_scaling") or {}
    rope |= raw.get("rope_parameters") or {}
    if "type" in rope and rope["rope_type"] == "default":
        rope["rope_type"] = rope["type"]
    rope.setdefault("original_max_position_embeddings", raw["max_position_embeddings"])
    return rope


def _windows(raw: dict[str, Any]) -> tuple[int | None, ...]:
    """Return each layer's sliding window; None attends to everything."""
    layers: int = raw["num_hidden_layers"]
    window: int | None = raw.get("sliding_window")
    if not raw.get("use_sliding_window", True) or not window:
        return (None,) * layers
    kinds: list[str] | None = raw.get("layer_types")
    if kinds:
        return tuple(window if kind == "sliding_attention" else None for kind in kinds)
    full_below: int = raw.get("max_window_layers", 0) if "use_sliding_window" in raw else 0
    return tuple(None if layer < full_below else window for layer in range(layers))


def _as_ids(value: int | list[int] | None) -> tuple[int, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list) else (value,)
