"""How an 8-bit KV cache holds numbers: e4m3, divided by a scale of a layer's keys or values.

E4M3 (Micikevicius et al., FP8 Formats for Deep Learning, 2022, https://arxiv.org/abs/2209.05433)
has four bits of exponent, three of mantissa and no infinity. A cache of any other dtype holds
numbers as they are, and scales mean nothing to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

E4M3 = torch.float8_e4m3fn
LARGEST = 448.0  # e4m3's


@dataclass(frozen=True, slots=True)
class KVScales:
    """What a layer's cached keys and values are multiplied by to be themselves again, positive.

    Plain numbers: they are known when the weights are loaded, before a graph is captured, so a
    kernel needn't load them, and attention's own scale takes up that of the keys on the host.
    """

    keys: float = 1.0
    values: float = 1.0


UNSCALED = KVScales()


def to_cache(x: torch.Tensor, dtype: torch.dtype, scale: float) -> torch.Tensor:
    """Return x as a cache of `dtype` holds it: divided by its scale and rounded where that is e4m3.

    What is too large becomes the largest number; NaN stays NaN.
    """
    if dtype != E4M3:
        return x.to(dtype)
    return (x.float() * (1 / scale)).clamp(-LARGEST, LARGEST).to(dtype)
