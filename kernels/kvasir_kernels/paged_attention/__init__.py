"""Attention of a ragged batch over a paged KV cache: prefill chunks and decodes in one call."""

from __future__ import annotations

import torch

from kvasir_kernels.dispatch import use_kernel
from kvasir_kernels.kv_scales import UNSCALED, KVScales
from kvasir_kernels.paged_attention import cpu

__all__ = ["paged_attention"]


def paged_attention(
    query: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    query_start: torch.Tensor,
    context_lens: torch.Tensor,
    block_tables: torch.Tensor,
    *,
    scale: float,
    window: int | None = None,
    scales: KVScales = UNSCALED,
    decode: bool | None = None,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attend each sequence's new tokens to all of its tokens so far; see the reference."""
    attend = cpu.paged_attention
    if use_kernel(query):
        from kvasir_kernels.paged_attention.kernel import paged_attention as attend
    operands = (query, k_cache, v_cache, query_start, context_lens, block_tables)
    return attend(*operands, scale=scale, window=window, scales=scales, decode=decode, out=out)
