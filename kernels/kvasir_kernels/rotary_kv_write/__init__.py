"""Rotary embedding of a step's queries and keys, and the write of keys and values to the cache."""

from __future__ import annotations

import torch

from kvasir_kernels.dispatch import use_kernel
from kvasir_kernels.kv_scales import UNSCALED, KVScales
from kvasir_kernels.rotary_kv_write import reference

__all__ = ["rotary_kv_write"]


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
    """Rotate queries and keys, store keys and values, return the queries; see the reference."""
    rotate = reference.rotary_kv_write
    if use_kernel(query):
        from kvasir_kernels.rotary_kv_write.kernel import rotary_kv_write as rotate
    angles = (cos, sin, positions)
    return rotate(query, keys, values, k_cache, v_cache, *angles, slots, scales=scales, out=out)
