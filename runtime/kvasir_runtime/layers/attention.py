"""Self-attention over the paged KV cache, as every model of the family does it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kvasir_kernels.kv_scales import KVScales
from kvasir_kernels.paged_attention import paged_attention
from kvasir_kernels.rotary_kv_write import rotary_kv_write


@dataclass(frozen=True, slots=True)
class AttentionInputs:
    """Where a step's tokens lie: the same for every layer.

    query_start: int32 [seqs + 1]; context_lens: int32 [seqs]; block_tables: int32 [seqs, blocks];
    positions, slots: int64 [tokens], slot -1 for padding; cos, sin: float32 [positions of the
    model, head_dim / 2].
    """

    query_start: torch.Tensor
    context_lens: torch.Tensor
    block_tables: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    cos: torch.Tensor
    sin: torch.Tensor


@dataclass(frozen=True, slots=True)
class LayerCache:
    """A layer's keys and values, each [blocks, block_size, kv_heads, head_dim], and their scales.

    Scales matter to an e4m3 cache alone.
    """

    keys: torch.Tensor
    values: torch.Tensor
    scales: KVScales


def attend(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    cache: LayerCache,
    inputs: AttentionInputs,
    *,
    window: int | None,
) -> torch.Tensor:
    """Rotate queries and keys, store keys and values, and attend.

    query: [tokens, heads, head_dim], the result likewise; keys, values: [tokens, kv_heads,
    head_dim].
    """
    where = (inputs.cos, inputs.sin, inputs.positions, inputs.slots)
    query = rotary_kv_write(
        query, keys, values, cache.keys, cache.values, *where, scales=cache.scales
    )
    return paged_attention(
        query,
        cache.keys,
        cache.values,
        inputs.query_start,
        inputs.context_lens,
        inputs.block_tables,
        scale=query.shape[-1] ** -0.5,
        window=window,
        scales=cache.scales,
    )
