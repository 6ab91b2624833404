"""KV write in plain torch."""

from __future__ import annotations

import torch

from kvasir_kernels.kv_scales import UNSCALED, KVScales, to_cache


def write_kv(
    keys: torch.Tensor,
    values: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slots: torch.Tensor,
    *,
    scales: KVScales = UNSCALED,
) -> None:
    """Store each token's key and value at its slot, in place.

    keys, values: [tokens, kv_heads, dim]. k_cache, v_cache: [blocks, block_size, kv_heads, dim].
    slots: int64 [tokens], block * block_size + offset, all different; -1 writes nowhere.
    scales: those of an e4m3 cache.
    """
    kept = slots >= 0
    slots = slots[kept]
    for new, cache, scale in ((keys, k_cache, scales.keys), (values, v_cache, scales.values)):
        cache.flatten(0, 1)[slots] = to_cache(new[kept], cache.dtype, scale)
