"""SwiGLU's activation in plain torch (Shazeer, 2020, https://arxiv.org/abs/2002.05202)."""

from __future__ import annotations

import torch


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """Return silu(gate) * up, where gate_up is [..., 2 * dim], gate first; [..., dim] comes out."""
    gate, up = gate_up.chunk(2, dim=-1)
    return torch.nn.functional.silu(gate) * up
