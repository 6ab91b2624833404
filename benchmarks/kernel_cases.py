"""The kernels at the sizes that serving runs them at, each as calls on operands of its own.

A case makes as many sets of operands as it is asked for, so that what one call reads is no longer
in the card's cache when it comes around again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import kernel_costs as costs
import torch
from kernel_costs import Cost, Shape

from kvasir_kernels.block_copy import copy_blocks
from kvasir_kernels.embed import embed
from kvasir_kernels.paged_attention import paged_attention
from kvasir_kernels.rms_norm import add_rms_norm
from kvasir_kernels.rotary_kv_write import rotary_kv_write
from kvasir_kernels.sample import sample
from kvasir_kernels.silu_mul import silu_mul

BLOCK_SIZE = 16
Call = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel at one size; `make` allocates one set of operands and returns the call on it."""

    kernel: str
    size: str
    cost: Cost
    make: Callable[[], Call]


class Cases:
    """Makes cases of one model's shape on one device."""

    def __init__(self, shape: Shape, device: str, dtype: torch.dtype) -> None:
        """Use `dtype` for everything that has the model's."""
        self.shape, self.device, self.dtype = shape, device, dtype
        self._table = self._random(shape.vocab, shape.hidden)  # far larger than any cache

    def of_tokens(self, tokens: int) -> Iterator[Case]:
        """Yield the kernels whose work depends on a step's tokens alone."""
        shape, size = self.shape, f"{tokens} tokens"
        yield Case("rotary_kv_write", size, costs.rotary_kv_write(shape, tokens),
                   lambda: self._rotary(tokens))  # fmt: skip
        yield Case("add_rms_norm", size, costs.add_rms_norm(shape, tokens),
                   lambda: self._norm(tokens))  # fmt: skip
        yield Case("silu_mul", size, costs.silu_mul(shape, tokens), lambda: self._silu(tokens))
        yield Case("embed", size, costs.embed(shape, tokens), lambda: self._embed(tokens))

    def attention(self, kind: str, lengths: Sequence[tuple[int, int]]) -> Case:
        """Return attention over sequences of (context, new tokens); `kind` names the case."""
        cost = costs.attention(self.shape, lengths)
        return Case(f"attention {kind}", _describe(lengths), cost, lambda: self._attention(lengths))

    def sample(self, rows: int, *, top_p: float | None) -> Case:
        """Return sampling of `rows` rows: greedy, or with a draw from the nucleus."""
        kind = "greedy" if top_p is None else f"top-p {top_p:g}"
        cost = costs.sample(self.shape, rows)
        return Case(f"sample {kind}", f"{rows} rows", cost, lambda: self._sample(rows, top_p))

    def block_copy(self, blocks: int) -> Case:
        """Return copies of one layer's keys of `blocks` blocks."""
        cost = costs.block_copy(self.shape, blocks, BLOCK_SIZE)
        return Case("block_copy", f"{blocks} blocks", cost, lambda: self._copy(blocks))

    def _random(self, *size: int) -> torch.Tensor:
        return torch.randn(size, dtype=self.dtype, device=self.device)

    def _cache(self, blocks: int) -> torch.Tensor:
        return self._random(2, blocks, BLOCK_SIZE, self.shape.kv_heads, self.shape.dim)

    def _norm(self, tokens: int) -> Call:
        x, residual = (self._random(tokens, self.shape.hidden) for _ in range(2))
        weight = self._random(self.shape.hidden)
        return lambda: add_rms_norm(x, residual, weight, 1e-6)

    def _silu(self, tokens: int) -> Call:
        gate_up = self._random(tokens, 2 * self.shape.inner)
        return lambda: silu_mul(gate_up)

    def _embed(self, tokens: int) -> Call:
        ids = torch.randint(0, self.shape.vocab, (tokens,), device=self.device)
        known, pool = torch.full_like(ids, -1), torch.zeros_like(ids)
        return lambda: embed(ids, known, pool, self._table)

    def _rotary(self, tokens: int) -> Call:
        shape = self.shape
        rows = [heads * shape.dim for heads in (shape.heads, shape.kv_heads, shape.kv_heads)]
        qkv = self._random(tokens, sum(rows)).split(rows, dim=-1)
        query, keys, values = (part.unflatten(-1, (-1, shape.dim)) for part in qkv)
        cache = self._cache(-(-tokens // BLOCK_SIZE))
        angles = torch.rand((2, tokens, shape.dim // 2), device=self.device)
        positions = torch.arange(tokens, device=self.device)
        slots = torch.randperm(tokens, device=self.device)
        where = (angles[0], angles[1], positions, slots)
        return lambda: rotary_kv_write(query, keys, values, cache[0], cache[1], *where)

    def _attention(self, lengths: Sequence[tuple[int, int]]) -> Call:
        needed = [-(-context // BLOCK_SIZE) for context, _ in lengths]
        order = torch.randperm(sum(needed), dtype=torch.int32)
        tables = torch.zeros((len(lengths), max(needed)), dtype=torch.int32)
        for row, blocks in enumerate(order.split(needed)):
            tables[row, : len(blocks)] = blocks
        tables, cache = tables.to(self.device), self._cache(sum(needed))
        new = torch.tensor([count for _, count in lengths])
        start = torch.cat([torch.zeros(1, dtype=torch.long), new.cumsum(0)])
        start = start.to(torch.int32).to(self.device)
        contexts = [context for context, _ in lengths]
        held = torch.tensor(contexts, dtype=torch.int32, device=self.device)
        query = self._random(int(new.sum()), self.shape.heads, self.shape.dim)
        scale = self.shape.dim**-0.5
        return lambda: paged_attention(
            query, cache[0], cache[1], start, held, tables, scale=scale
        )  # fmt: skip

    def _sample(self, rows: int, top_p: float | None) -> Call:
        logits = torch.randn((rows, self.shape.vocab), device=self.device) * 3

        def each(value: float, dtype: torch.dtype) -> torch.Tensor:
            return torch.full((rows,), value, dtype=dtype, device=self.device)

        heat = each(0.0 if top_p is None else 1.0, torch.float32)
        cut = (each(0, torch.int32), each(top_p or 1.0, torch.float32), each(0.0, torch.float32))
        seed = torch.arange(rows, device=self.device)
        return lambda: sample(logits, heat, *cut, seed, seed)

    def _copy(self, blocks: int) -> Call:
        pool = self._cache(blocks).flatten(0, 1)  # twice the blocks: from one half to the other
        source, destination = torch.randperm(2 * blocks, device=self.device).split(blocks)
        return lambda: copy_blocks(pool, pool, source, destination)


def serving_cases(cases: Cases, longest: int) -> Iterator[Case]:
    """Yield what serving a model of at most `longest` tokens runs."""
    for tokens in (1, 256, 8192):
        yield from cases.of_tokens(tokens)
    for seqs, context in ((1, longest), (32, 768), (256, 768)):
        yield cases.attention("decode", [(context, 1)] * seqs)
    yield cases.attention("mixed", [(768, 1)] * 64 + [(512, 512)])
    for seqs, new in ((16, 512), (1, longest)):
        yield cases.attention("prefill", [(new, new)] * seqs)
    for rows in (1, 32, 256):
        yield cases.sample(rows, top_p=None)
        yield cases.sample(rows, top_p=0.9)
    yield cases.block_copy(1024)


def _describe(lengths: Sequence[tuple[int, int]]) -> str:
    """Return the groups of equal sequences as text, `count x new of context`."""
    groups = dict.fromkeys(lengths, 0)
    for length in lengths:
        groups[length] += 1
    return " + ".join(f"{n} x {new} of {context}" for (context, new), n in groups.items())
