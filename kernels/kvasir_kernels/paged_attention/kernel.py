"""Launching the attention kernels: sizes of tensors choose the kernel, its grid and its tile.

Nothing here reads a tensor's contents, so every launch can be captured in a CUDA graph and replayed
on any batch of the same padded sizes.
"""

from __future__ import annotations

import math

import torch
import triton

from kvasir_kernels import pdl
from kvasir_kernels.dispatch import processors
from kvasir_kernels.kv_scales import E4M3, UNSCALED, KVScales
from kvasir_kernels.paged_attention import prefill_launch, tuning
from kvasir_kernels.paged_attention.decode import decode_kernel, merge_kernel
from kvasir_kernels.paged_attention.mixed import mixed_kernel

UNBOUNDED = 2**30  # a window no context reaches


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
    """Attend as the reference does."""
    _check(query, k_cache, v_cache, block_tables)
    out = torch.empty_like(query, memory_format=torch.contiguous_format) if out is None else out
    tokens, seqs = query.shape[0], context_lens.shape[0]
    if tokens == 0:
        return out
    log2_scale = scale * math.log2(math.e)
    v_scale = None
    if k_cache.dtype == E4M3:
        log2_scale, v_scale = log2_scale * scales.keys, scales.values
    caches = (k_cache, v_cache, context_lens, block_tables)
    if tokens == seqs if decode is None else decode:
        window = window or UNBOUNDED
        _decode(out, query, *caches, scale=log2_scale, v_scale=v_scale, window=window)
    elif window is None and prefill_launch.suits(query, k_cache, seqs):
        prefill_launch.attend(out, query, query_start, *caches, scale=log2_scale)
    else:
        operands = (out, query, query_start, *caches)
        _mixed(*operands, scale=log2_scale, v_scale=v_scale, window=window)
    return out


def _check(
    query: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, block_tables: torch.Tensor
) -> None:
    if k_cache.stride() != v_cache.stride() or k_cache.stride(3) != 1 or query.stride(2) != 1:
        raise ValueError("the caches need equal strides, and heads contiguous dimensions")
    if block_tables.dtype != torch.int32 or block_tables.stride(1) != 1:
        raise ValueError("block_tables must be int32 with contiguous rows")


def _mixed(
    out: torch.Tensor,
    query: torch.Tensor,
    query_start: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    context_lens: torch.Tensor,
    block_tables: torch.Tensor,
    *,
    scale: float,
    v_scale: float | None,
    window: int | None,
) -> None:
    tokens, heads, dim = query.shape
    seqs, kv_heads = context_lens.shape[0], k_cache.shape[2]
    width, group = _width(dim), heads // kv_heads
    tile = tuning.mixed_tile(width, group, query.element_size())
    rows = max(tile.rows, triton.next_power_of_2(group))
    grid = (tokens // (rows // group) + seqs + 1, kv_heads)
    mixed_kernel[grid](
        out,
        query,
        k_cache,
        v_cache,
        query_start,
        context_lens,
        block_tables,
        seqs,
        tokens,
        scale,
        v_scale,
        window or UNBOUNDED,
        block_tables.stride(0),
        *out.stride()[:2],
        *query.stride()[:2],
        *k_cache.stride()[:3],
        ROWS=rows,
        GROUP=group,
        DIM=dim,
        WIDTH=width,
        BLOCK_SIZE=k_cache.shape[1],
        BLOCK_N=tile.keys,
        WINDOWED=window is not None,
        PRECISION=_precision(query),
        num_warps=tile.warps,
        num_stages=tile.stages,
        **pdl.options(query),
    )


def _decode(
    out: torch.Tensor,
    query: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    context_lens: torch.Tensor,
    block_tables: torch.Tensor,
    *,
    scale: float,
    v_scale: float | None,
    window: int,
) -> None:
    seqs, heads, dim = query.shape
    block_size, kv_heads = k_cache.shape[1:3]
    width, group = _width(dim), heads // kv_heads
    tile = tuning.decode_tile(width, query.element_size(), seqs * kv_heads)
    longest = min(block_tables.shape[1] * block_size, window)
    split = tuning.split(seqs * kv_heads, longest, processors(query.device))
    scratch, logs = _scratch(query, split.parts)
    operands = (
        *(out, scratch, logs, query, k_cache, v_cache, context_lens, block_tables),
        *(scale, v_scale, window, split.parts, split.least, block_tables.stride(0)),
        *(*out.stride()[:2], *query.stride()[:2], *k_cache.stride()[:3]),
    )
    shape = {"DIM": dim, "WIDTH": width, "BLOCK_N": tile.keys}
    launch = pdl.options(query)
    decode_kernel[kv_heads, seqs, split.parts](
        *operands,
        **shape,
        ROWS=max(16, triton.next_power_of_2(group)),
        GROUP=group,
        BLOCK_SIZE=block_size,
        PRECISION=_precision(query),
        num_warps=tile.warps,
        num_stages=tile.stages,
        **launch,
    )
    if split.parts > 1:
        items = seqs * heads
        each = tuning.merged_together(items, processors(query.device))
        merge_kernel[triton.cdiv(items, each),](
            *(out, scratch, logs, context_lens, items, heads, window, split.parts, split.least),
            *out.stride()[:2],
            **shape,
            ITEMS=each,
            num_warps=4,
            **launch,
        )


def _scratch(query: torch.Tensor, parts: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return float32 room for the parts' results and the logarithms of their weights."""
    shape = (*query.shape[:2], parts) if parts > 1 else (0, 0, 0)
    return (
        query.new_empty((*shape, query.shape[2]), dtype=torch.float32),
        query.new_empty(shape, dtype=torch.float32),
    )


def _width(dim: int) -> int:
    return max(16, int(triton.next_power_of_2(dim)))


def _precision(query: torch.Tensor) -> str:
    # TensorFloat-32 would halve float32's digits.
    return "ieee" if query.dtype == torch.float32 else "tf32"
