"""Self-attention over the paged KV cache, as every model of the family does it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kvasir_kernels.kv_write import write_kv
from kvasir_kernels.paged_attention import paged_attention


@dataclass(frozen=True, slots=True)
class AttentionInputs:
    """Where a step's tokens lie: the same for every layer.

    query_start: int32 [seqs + 1]; context_lens: int32 [seqs]; block_tables: int32 [seqs, blocks];
    slots: int64 [tokens]; cos, sin: float32 [tokens, head_dim / 2].
    """

    query_start: torch.Tensor
    context_lens: torch.Tensor
    block_tables: torch.Tensor
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
    """Store the step's keys and values, then attend; [tokens, heads, head_dim] in and out.

    cache: the layer's, [2, blocks, block_size, kv_heads, head_dim], keys first.
    """
    write_kv(keys, values, cache[0], cache[1], inputs.slots)
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
