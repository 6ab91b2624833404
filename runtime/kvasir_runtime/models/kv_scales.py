"""The scales of an 8-bit KV cache, which a checkpoint may bring under several names.

compressed-tensors writes `self_attn.k_scale`, ModelOpt `self_attn.k_proj.k_scale`, others the name
of the attention's or the fused projection's module between; old ones one `kv_scale` for both. A
cache of another dtype has no use for them.
"""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from typing import cast

import torch

from kvasir_kernels.kv_scales import UNSCALED
from kvasir_runtime.errors import CorruptWeightsError, UnsupportedFeatureError
from kvasir_runtime.models.decoder import Attention, Decoder

logger = logging.getLogger(__name__)

_NAME = re.compile(r"model\.layers\.(\d+)\.self_attn\.(.+)")
_SIDES: dict[str, tuple[str, ...]] = {
    **{
        name.format(letter): (side,)
        for letter, side in (("k", "keys"), ("v", "values"))
        for name in (
            "{0}_scale", "attn.{0}_scale", "{0}_proj.{0}_scale", "qkv_proj.{0}_scale",
            "{0}_proj.output_scale",
        )
    },
    "kv_scale": ("keys", "values"),
    # For engines that multiply in eight bits: here queries and weights of attention stay wide.
    **dict.fromkeys(("q_scale", "attn.q_scale", "prob_scale", "attn.prob_scale"), ()),
}  # fmt: skip
_FLOAT32 = torch.finfo(torch.float32)


def take_kv_scale(model: Decoder, name: str, tensor: torch.Tensor) -> bool:
    """Give a layer the scale that a checkpoint's tensor holds; return whether it holds one.

    Raises UnsupportedFeatureError for more than one number, CorruptWeightsError for one that can't
    be a scale.
    """
    found = _NAME.fullmatch(name)
    sides = _SIDES.get(found[2]) if found else None
    if found is None or sides is None or int(found[1]) >= len(model.layers):
        return False
    attention = _attention(model, int(found[1]))
    if sides:
        scale = _as_scale(name, tensor)
        attention.kv_scales = replace(attention.kv_scales, **dict.fromkeys(sides, scale))
    return True


def warn_of_unscaled(model: Decoder) -> None:
    """Log how many layers an 8-bit cache would hold as they are."""
    layers = range(len(model.layers))
    count = sum(_attention(model, layer).kv_scales == UNSCALED for layer in layers)
    if count:
        logger.warning(
            "The fp8 KV cache's scales are 1.0 in %d of %d layers, as the checkpoint brings no "
            "others: keys or values beyond 448 are cut off there, which can cost accuracy",
            count, len(layers),
        )  # fmt: skip


def _attention(model: Decoder, layer: int) -> Attention:
    return cast(Attention, model.layers[layer].self_attn)


def _as_scale(name: str, tensor: torch.Tensor) -> float:
    if tensor.numel() != 1:
        raise UnsupportedFeatureError(
            f"{name} holds {tensor.numel()} scales",
            "this version takes one for a layer's keys and one for its values: use a checkpoint "
            "with scales per tensor",
        )
    scale = float(tensor)
    if not _FLOAT32.tiny <= scale <= _FLOAT32.max:
        raise CorruptWeightsError(
            f"{name} is {scale}", "a scale is positive and finite: fetch the checkpoint again"
        )
    return scale
