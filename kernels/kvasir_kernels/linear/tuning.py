"""Where the linear kernel is used, and its tiles.

Measured on one H200 with Triton 3.6, in CUDA graphs, over the layers of Qwen2.5-7B and Llama-2-13B
with 1 to 96 rows, against cuBLAS: up to 32 rows the kernel wins where its programs are spread
evenly, by 25 % on a layer of 3,584 x 3,584, by 10 % on one of 3,584 x 18,944 and by 5 % on a head;
with the gate's activation in the same kernel it saves that one's launch. Elsewhere cuBLAS wins.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

MOST_ROWS = 32
CPU_ROWS = range(2, 49)


@dataclass(frozen=True, slots=True)
class Tile:
    """Rows and inner elements of the weight in a tile, parts of the inner dimension, and stages of
    the pipeline of loads."""

    columns: int
    inner: int
    splits: int
    stages: int


WIDE = Tile(64, 128, 1, 4)  # several programs share a processor
GATED = Tile(64, 64, 1, 3)
NARROW_STAGES = 6  # one program a processor has to keep all loads in flight
MANY = 1.5  # programs a processor, from which a few more or less no longer matter
EVEN = 0.8  # of the processors busy, where each has one program


def pays(rows: int, columns: int, processors: int) -> bool:
    """Say whether the kernel is faster than cuBLAS; `columns` as they come out."""
    blocks = -(-columns // WIDE.columns)
    together = blocks * max(1, processors // blocks)
    return rows <= MOST_ROWS and (
        blocks >= MANY * processors or EVEN * processors <= together <= processors
    )


def tile(columns: int, inner: int, processors: int) -> Tile:
    """Return the tile of a layer without a gate; `inner`: the length of a weight's row."""
    blocks = -(-columns // WIDE.columns)
    if blocks >= MANY * processors:
        return WIDE
    splits = min(processors // blocks, -(-inner // WIDE.inner))
    return Tile(WIDE.columns, WIDE.inner, max(1, splits), NARROW_STAGES)


def transposed_on_cpu(x: torch.Tensor) -> bool:
    """Say whether W xᵀ is computed faster than x Wᵀ: twice as fast for 8 to 32 rows by MKL."""
    return x.is_cpu and x.dtype == torch.float32 and x.dim() == 2 and x.shape[0] in CPU_ROWS
