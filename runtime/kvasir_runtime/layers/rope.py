"""The angles of rotary embeddings, with the context extensions checkpoints ask for.

Enters: `rope_theta` and `rope_scaling` (transformers 5: `rope_parameters`) of a config.json.
Leaves: cos and sin for every position up to the model's length, float32.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from kvasir_runtime.errors import UnsupportedFeatureError

SUPPORTED = ("default", "linear", "dynamic", "llama3", "yarn")


def rope_tables(
    rope: dict[str, Any], dim: int, max_len: int, device: torch.device | str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cos and sin, float32 [max_len, dim / 2] each.

    `rope` holds `rope_theta`, `rope_type` and the scaling's own numbers. Raises
    UnsupportedFeatureError for a scaling that isn't known.
    """
    inverse, amplitude = _inverse_frequencies(rope, dim, max_len)
    angles = torch.outer(torch.arange(max_len, dtype=torch.float32), inverse)
    return (angles.cos() * amplitude).to(device), (angles.sin() * amplitude).to(device)


def _inverse_frequencies(
    rope: dict[str, Any], dim: int, max_len: int
) -> tuple[torch.Tensor, float]:
    """Return radians per position, [dim / 2], and the factor on cos and sin."""
    kind = rope.get("rope_type") or "default"
    base = float(rope["rope_theta"])
    plain: torch.Tensor = 1.0 / base ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim)
    if kind == "default":
        return plain, 1.0
    if kind == "linear":
        return plain / float(rope["factor"]), 1.0
    if kind == "dynamic":
        return _dynamic(rope, base, dim, max_len), 1.0
    if kind == "llama3":
        return _llama3(plain, rope), 1.0
    if kind == "yarn":
        return _yarn(plain, rope, base, dim)
    raise UnsupportedFeatureError(
        f"the model's rope_type is {kind!r}", f"this version runs {', '.join(SUPPORTED)}"
    )


def _dynamic(rope: dict[str, Any], base: float, dim: int, max_len: int) -> torch.Tensor:
    """Raise the base until `max_len` positions fit (dynamic NTK).

    The angles are those of a sequence of the served length, whatever a request's own is: keys in
    the cache can't be turned again when it grows.
    """
    factor, original = float(rope["factor"]), rope["original_max_position_embeddings"]
    stretch = factor * max(max_len, original) / original - (factor - 1)
    raised: float = base * stretch ** (dim / (dim - 2))
    inverse: torch.Tensor = 1.0 / raised ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim)
    return inverse


def _llama3(plain: torch.Tensor, rope: dict[str, Any]) -> torch.Tensor:
    """Stretch long wavelengths by `factor`, keep short ones, blend between (Llama 3.1)."""
    factor, original = float(rope["factor"]), rope["original_max_position_embeddings"]
    low, high = float(rope["low_freq_factor"]), float(rope["high_freq_factor"])
    turns = original * plain / (2 * math.pi)  # full turns within the original context
    keep = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    stretched: torch.Tensor = keep * plain + (1 - keep) * plain / factor
    return stretched


def _yarn(
    plain: torch.Tensor, rope: dict[str, Any], base: float, dim: int
) -> tuple[torch.Tensor, float]:
    """Blend interpolation and extrapolation by frequency (Peng et al., arXiv:2309.00071)."""
    factor, original = float(rope["factor"]), rope["original_max_position_embeddings"]

    def dimension(turns: float) -> float:
        return dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = dimension(rope.get("beta_fast") or 32), dimension(rope.get("beta_slow") or 1)
    if rope.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    ramp = (torch.arange(dim // 2, dtype=torch.float32) - low) / max(high - low, 0.001)
    interpolate = ramp.clamp(0.0, 1.0)
    amplitude = rope.get("attention_factor") or 0.1 * math.log(factor) + 1.0
    return interpolate * plain / factor + (1 - interpolate) * plain, float(amplitude)
