"""Rotary embedding and KV write in plain torch, one after the other."""

from __future__ import annotations

import torch

from kvasir_kernels.kv_scales import UNSCALED, KVScales
from kvasir_kernels.kv_write.reference import write_kv
from kvasir_kernels.rotary.reference import apply_rotary


def rotary_kv_write(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor,
    slots: torch.Tensor,
    *,
    scales: KVScales = UNSCALED,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Rotate queries and keys by their positions' angles; store keys and values at their slots.

    query: [tokens, heads, dim]; keys, values: [tokens, kv_heads, dim]; none of them is changed,
    unless `out` is the query itself.
    k_cache, v_cache: [blocks, block_size, kv_heads, dim], written in place.
    cos, sin: float32 [positions, dim / 2], the angles of every position the model knows.
    positions: int64 [tokens], valid for padding too. slots: int64 [tokens]; -1 writes nowhere.
    scales: those of an e4m3 cache.
    Returns the rotated queries, [tokens, heads, dim].
    """
    cos, sin = cos[positions], sin[positions]
    write_kv(apply_rotary(keys, cos, sin), values, k_cache, v_cache, slots, scales=scales)
    rotated = apply_rotary(query, cos, sin)
    return rotated if out is None else out.copy_(rotated)
