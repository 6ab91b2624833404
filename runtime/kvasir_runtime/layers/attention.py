"""Self-attention over the paged KV cache, as every model of the family does it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

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


def attend(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    cache: torch.Tensor,
    inputs: AttentionInputs,
    *,
    window: int | None,
) -> torch.Tensor:
    """Rotate queries and keys, store keys and values, and attend.

    query: [tokens, heads, head_dim], the result likewise; keys, values: [tokens, kv_heads,
    head_dim]; cache: the layer's, [2, blocks, block_size, kv_heads, head_dim], keys first.
    """
    where = (inputs.cos, inputs.sin, inputs.positions, inputs.slots)
    query = rotary_kv_write(query, keys, values, cache[0], cache[1], *where)
    return paged_attention(
        query,
        cache[0],
        cache[1],
        inputs.query_start,
        inputs.context_lens,
        inputs.block_tables,
        scale=query.shape[-1] ** -0.5,
        window=window,
    )
