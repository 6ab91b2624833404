"""KV write in plain torch."""

from __future__ import annotations

import torch


def write_kv(
    keys: torch.Tensor,
    values: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slots: torch.Tensor,
) -> None:
    """Store each token's key and value at its slot, in place.

    keys, values: [tokens, kv_heads, dim]. k_cache, v_cache: [blocks, block_size, kv_heads, dim].
    slots: int64 [tokens], block * block_size + offset, all different; -1 writes nowhere.
    """
    kept = slots >= 0
    slots = slots[kept]
    k_cache.flatten(0, 1).index_copy_(0, slots, keys[kept].to(k_cache.dtype))
    v_cache.flatten(0, 1).index_copy_(0, slots, values[kept].to(v_cache.dtype))
