"""What a kernel has to move and to compute at the least, and the time a card needs for that.

Bytes are those that must cross the card's memory once: operands read, results written. Operations
count a multiplication and an addition as two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

IDS = 8  # bytes of a token id, a slot or a position


@dataclass(frozen=True, slots=True)
class Cost:
    """Bytes moved and floating-point operations done."""

    num_bytes: int
    flops: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """What a card reaches: bytes a second, and operations a second of 16-bit matrix products."""

    bytes_per_s: float
    flops_per_s: float

    def least_s(self, cost: Cost) -> float:
        """Return the time below which no kernel can do this work."""
        return max(cost.num_bytes / self.bytes_per_s, cost.flops / self.flops_per_s)

    def bound(self, cost: Cost) -> str:
        """Return what sets that time: `memory` or `compute`."""
        by_memory = cost.num_bytes / self.bytes_per_s >= cost.flops / self.flops_per_s
        return "memory" if by_memory else "compute"


@dataclass(frozen=True, slots=True)
class Shape:
    """A model's sizes; values of weights and activations take `itemsize` bytes."""

    hidden: int
    inner: int
    heads: int
    kv_heads: int
    dim: int
    vocab: int
    itemsize: int = 2


SHAPES = {
    "qwen2.5-7b": Shape(3584, 18944, 28, 4, 128, 152064),
    "llama-2-13b": Shape(5120, 13824, 40, 40, 128, 32000),
}


def attention(shape: Shape, lengths: Sequence[tuple[int, int]]) -> Cost:
    """Return attention's cost over sequences of (context, new tokens).

    Each key and value of a context is read once. New token i sees all before it and itself.
    """
    keys = sum(context for context, _ in lengths)
    new = sum(count for _, count in lengths)
    seen = sum(
        count * (context - count) + count * (count + 1) // 2 for context, count in lengths
    )  # pairs of a new token and a key
    kv_bytes = 2 * keys * shape.kv_heads * shape.dim * shape.itemsize
    query_bytes = 2 * new * shape.heads * shape.dim * shape.itemsize
    return Cost(kv_bytes + query_bytes, 4 * seen * shape.heads * shape.dim)


def rotary_kv_write(shape: Shape, tokens: int) -> Cost:
    """Return the cost of rotating queries and keys and storing keys and values."""
    values = tokens * (shape.heads + 2 * shape.kv_heads) * shape.dim
    angles = tokens * shape.dim * 4  # cos and sin, float32, half a head each
    return Cost(2 * values * shape.itemsize + angles + 2 * tokens * IDS)


def add_rms_norm(shape: Shape, tokens: int) -> Cost:
    """Return the cost of adding a residual and normalising: two rows in, two out."""
    return Cost((4 * tokens + 1) * shape.hidden * shape.itemsize)


def silu_mul(shape: Shape, tokens: int) -> Cost:
    """Return the cost of the gated activation: gate and up in, one row out."""
    return Cost(3 * tokens * shape.inner * shape.itemsize)


def embed(shape: Shape, tokens: int) -> Cost:
    """Return the cost of looking up embeddings: a row in, a row out."""
    return Cost(2 * tokens * (shape.hidden * shape.itemsize + IDS))


def sample(shape: Shape, rows: int) -> Cost:
    """Return the cost of choosing tokens: every float32 score is read once."""
    return Cost(rows * shape.vocab * 4)


def block_copy(shape: Shape, blocks: int, block_size: int) -> Cost:
    """Return the cost of copying one layer's keys or values of whole blocks."""
    return Cost(2 * blocks * block_size * shape.kv_heads * shape.dim * shape.itemsize)
