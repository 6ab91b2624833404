"""Rotary embedding in plain torch (Su et al., 2021, https://arxiv.org/abs/2104.09864).

The halves of a head are rotated against each other (GPT-NeoX order), as the Llama family does.
"""

from __future__ import annotations

import torch


def apply_rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate each head of x by its token's angles.

    x: [tokens, heads, dim]; cos, sin: float32 [tokens, dim / 2]; the result is like x.
    """
    first, second = x.float().chunk(2, dim=-1)
    cos, sin = cos[:, None, :], sin[:, None, :]
    rotated = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    return rotated.to(x.dtype)
