# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""Asking for the next kernel's weights while a small kernel leaves the memory idle.

In a decode step small kernels (norms, rotations, activations) stand between matrix products whose
pace is that of reading their weights. A small kernel is launched with a few programs more, which
ask the second-level cache for the beginning of the weight that the next product reads.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvasir_kernels import pdl

# Measured on one H200, whose second-level cache has 50 MB.
MOST_TOKENS = 256  # beyond these the products compute more than they read
MOST_BYTES = 24 * 2**20
PROGRAMS = 64
CHUNK = 512  # bytes asked for by one thread at once
LANES = tl.constexpr(512)


@triton.jit
def ask_for(weight, rows, row_stride, program, programs, BYTES: tl.constexpr):
    """Ask for the first BYTES of each row of a weight, as one of `programs` programs."""
    chunk_bytes: tl.constexpr = 512
    chunk: tl.constexpr = chunk_bytes // (weight.dtype.element_ty.primitive_bitwidth // 8)
    wanted = rows * (BYTES // chunk_bytes)
    for first in range(program * LANES, wanted, programs * LANES):
        item = tl.minimum(first + tl.arange(0, LANES), wanted - 1)
        at = weight + (item % rows).to(tl.int64) * row_stride + item // rows * chunk
        tl.inline_asm_elementwise(
            "cp.async.bulk.prefetch.L2.global [$1], 512; mov.u32 $0, 0;",
            "=r,l", [at.to(tl.uint64)], dtype=tl.int32, is_pure=False, pack=1,
        )  # fmt: skip


def bytes_ahead(weight: torch.Tensor | None, tokens: int) -> int:
    """Return how many bytes of each row of the weight to ask for; 0 where it can't help."""
    if weight is None or tokens > MOST_TOKENS or not pdl.available(weight.device):
        return 0
    row_bytes = weight.shape[1] * weight.element_size()
    return min(row_bytes, MOST_BYTES // weight.shape[0]) // CHUNK * CHUNK
