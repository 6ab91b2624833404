# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""Rotary embedding fused with the KV write: queries, keys and values are read once each."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvasir_kernels import pdl
from kvasir_kernels.kv_scales import E4M3, LARGEST, UNSCALED, KVScales

LIMIT = tl.constexpr(LARGEST)


@triton.jit
def _rotated(
    x,
    head,
    heads,
    head_stride,
    cos,
    sin,
    HALF: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Return both halves of a token's heads, rotated, and where they are inside, [heads, WIDTH]."""
    dim = tl.arange(0, WIDTH)
    inside = (head < heads)[:, None] & (dim < HALF)[None, :]
    at = x + head[:, None] * head_stride + dim[None, :]
    first = tl.load(at, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(at + HALF, mask=inside, other=0.0).to(tl.float32)
    return (
        first * cos[None, :] - second * sin[None, :],
        second * cos[None, :] + first * sin[None, :],
        inside,
    )


@triton.jit
def _to_cache(x, inverse, kept: tl.constexpr):
    """Return x as the cache holds it; `inverse` is one over its scale, None where it has none."""
    if inverse is not None:
        scaled = x.to(tl.float32) * inverse
        x = tl.clamp(scaled, -LIMIT, LIMIT, propagate_nan=tl.PropagateNan.ALL)
    return x.to(kept)


@triton.jit(do_not_specialize_on_alignment=["positions", "slots"])
def rotary_kv_write_kernel(
    out,
    query,
    keys,
    values,
    k_cache,
    v_cache,
    cos_table,
    sin_table,
    positions,
    slots,
    heads,
    kv_heads,
    block_size,
    k_inverse,
    v_inverse,
    out_token_stride,
    out_head_stride,
    query_token_stride,
    query_head_stride,
    key_token_stride,
    key_head_stride,
    value_token_stride,
    value_head_stride,
    block_stride,
    slot_stride,
    cache_head_stride,
    HALF: tl.constexpr,
    WIDTH: tl.constexpr,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    PDL: tl.constexpr,
):
    """Rotate and store one token; grid (tokens,)."""
    pdl.begin(PDL)
    token = tl.program_id(0).to(tl.int64)
    dim = tl.arange(0, WIDTH)
    angle = tl.load(positions + token) * HALF + dim
    cos = tl.load(cos_table + angle, mask=dim < HALF, other=0.0)
    sin = tl.load(sin_table + angle, mask=dim < HALF, other=0.0)

    head = tl.arange(0, HEADS)
    first, second, inside = _rotated(
        query + token * query_token_stride, head, heads, query_head_stride, cos, sin, HALF, WIDTH
    )
    at = out + token * out_token_stride + head[:, None] * out_head_stride + dim[None, :]
    tl.store(at, first.to(out.dtype.element_ty), mask=inside)
    tl.store(at + HALF, second.to(out.dtype.element_ty), mask=inside)

    slot = tl.load(slots + token)
    if slot < 0:
        return
    cached = slot // block_size * block_stride + slot % block_size * slot_stride
    head = tl.arange(0, KV_HEADS)
    kept = k_cache.dtype.element_ty
    first, second, inside = _rotated(
        keys + token * key_token_stride, head, kv_heads, key_head_stride, cos, sin, HALF, WIDTH
    )
    at = cached + head[:, None] * cache_head_stride + dim[None, :]
    rounded = keys.dtype.element_ty
    tl.store(k_cache + at, _to_cache(first.to(rounded), k_inverse, kept), mask=inside)
    tl.store(k_cache + at + HALF, _to_cache(second.to(rounded), k_inverse, kept), mask=inside)
    value = values + token * value_token_stride + head[:, None] * value_head_stride + dim[None, :]
    tl.store(v_cache + at, _to_cache(tl.load(value, mask=inside), v_inverse, kept), mask=inside)
    value += HALF
    at += HALF
    tl.store(v_cache + at, _to_cache(tl.load(value, mask=inside), v_inverse, kept), mask=inside)


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
    """Rotate and write as the reference does."""
    out = torch.empty_like(query, memory_format=torch.contiguous_format) if out is None else out
    tokens, heads, dim = query.shape
    kv_heads = keys.shape[1]
    _check(k_cache, v_cache, cos, sin)
    if tokens == 0:
        return out
    scaled = k_cache.dtype == E4M3
    inverses = (1 / scales.keys, 1 / scales.values) if scaled else (None, None)
    heads_width = triton.next_power_of_2(heads)
    rotary_kv_write_kernel[tokens,](
        *(out, query, keys, values, k_cache, v_cache, cos, sin, positions, slots),
        *(heads, kv_heads, k_cache.shape[1], *inverses),
        *(*out.stride()[:2], *query.stride()[:2], *keys.stride()[:2], *values.stride()[:2]),
        *k_cache.stride()[:3],
        HALF=dim // 2,
        WIDTH=triton.next_power_of_2(dim // 2),
        HEADS=heads_width,
        KV_HEADS=triton.next_power_of_2(kv_heads),
        num_warps=8 if heads_width * dim > 4096 else 4,
        **pdl.options(query),
    )
    return out


def _check(
    k_cache: torch.Tensor, v_cache: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> None:
    if k_cache.stride() != v_cache.stride():
        raise ValueError("the caches need equal strides")
    if not (cos.is_contiguous() and sin.is_contiguous()):
        raise ValueError("the tables of angles must be contiguous")
