"""When the prefill kernel takes a batch, and its launch."""

from __future__ import annotations

from functools import cache

import torch
from triton.experimental.gluon.language import NVMMASharedLayout
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kvasir_kernels.paged_attention import tuning
from kvasir_kernels.paged_attention.prefill import PANEL, ROWS, prefill_kernel

DIM = 128
BLOCK_SIZES = (8, 16, 32, 64, 128)  # whole rows of the swizzle
WARPS = 4  # of each of the two groups that attend
REGISTERS = 168  # of a thread: all that a processor has for 384


def suits(query: torch.Tensor, k_cache: torch.Tensor, seqs: int) -> bool:
    """Say whether the kernel can take a batch, and whether the batch is long prompts enough."""
    tokens, heads, dim = query.shape
    _, block_size, kv_heads, _ = k_cache.shape
    dense = k_cache.stride(2) == dim and k_cache.stride(0) == block_size * k_cache.stride(1)
    return (
        tuning.prefill_pays(tokens, seqs, heads // kv_heads)
        and dim == DIM
        and block_size in BLOCK_SIZES
        and block_size <= tuning.prefill_tile(tokens, seqs).keys
        and dense
        and query.element_size() == k_cache.element_size() == 2
        and heads // kv_heads <= ROWS.value
        and _is_hopper(query.device)
    )


@cache
def _is_hopper(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] == 9


def attend(
    out: torch.Tensor,
    query: torch.Tensor,
    query_start: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    context_lens: torch.Tensor,
    block_tables: torch.Tensor,
    *,
    scale: float,
) -> None:
    """Launch the kernel over a batch that suits it; scale is for base 2."""
    tokens, heads, dim = query.shape
    seqs, (block_size, kv_heads) = context_lens.shape[0], k_cache.shape[1:3]
    group = heads // kv_heads
    tile = tuning.prefill_tile(tokens, seqs)
    grid = (tokens // (ROWS.value // group) + seqs + 1, kv_heads)
    prefill_kernel[grid](
        out,
        query,
        _describe(k_cache),
        _describe(v_cache),
        query_start,
        context_lens,
        block_tables,
        seqs,
        tokens,
        scale,
        block_tables.stride(0),
        *out.stride()[:2],
        *query.stride()[:2],
        GROUP=group,
        DIM=dim,
        BLOCK_SIZE=block_size,
        BLOCK_N=tile.keys,
        STAGES=tile.stages,
        TURNS=tile.turns,
        num_warps=WARPS,
        maxnreg=REGISTERS,
    )


def _describe(cache: torch.Tensor) -> TensorDescriptor:
    """Describe a cache as the matrix of its slots, from which one panel of one block is loaded."""
    blocks, block_size, kv_heads, dim = cache.shape
    layout = NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    shape, strides = [blocks * block_size, kv_heads * dim], [cache.stride(1), 1]
    return TensorDescriptor(cache, shape, strides, [block_size, PANEL.value], layout)
