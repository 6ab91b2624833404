"""Which tokens are computed next: continuous batching under one token budget a step.

Every step mixes decodes and prefill chunks. Running requests come first, in order of admission:
only the last admitted can still be prefilling, so a long prompt never stalls running streams. Then
waiting requests are admitted, first come first served, while the budget, `max_num_seqs` and the
blocks allow (Orca, OSDI 2022; chunked
prefill after Sarathi-Serve, OSDI 2024). When blocks run out the youngest running request gives its
own back and is computed again later; the oldest always goes on, so every request ends.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from kvasir_runtime.engine.block_manager import BlockManager
from kvasir_runtime.engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens [start, start + count) of a sequence, computed in one step."""

    seq: Sequence
    start: int
    count: int

    @property
    def samples(self) -> bool:
        """Whether the chunk reaches the sequence's end, so that a new token follows."""
        return self.start + self.count == len(self.seq.token_ids)


class Scheduler:
    """Holds the waiting and the running sequences, and decides each step's batch."""

    def __init__(self, blocks: BlockManager, *, max_num_seqs: int, max_batched_tokens: int) -> None:
        """Schedule at most `max_batched_tokens` a step over at most `max_num_seqs` sequences."""
        self.blocks = blocks
        self.max_num_seqs, self.max_batched_tokens = max_num_seqs, max_batched_tokens
        self.waiting: deque[Sequence] = deque()
        self.running: dict[Sequence, None] = {}  # in order of admission
        self.preemptions_total = 0

    def add(self, seq: Sequence) -> None:
        """Queue a new sequence."""
        self.waiting.append(seq)

    def has_work(self) -> bool:
        """Whether any sequence is unfinished."""
        return bool(self.waiting or self.running)

    def schedule(self, now_s: float) -> list[Chunk]:
        """Return the next step's chunks, their blocks allotted; empty when there is no work."""
        batch: dict[Sequence, Chunk] = {}
        budget = self.max_batched_tokens
        preemptions = self.preemptions_total
        for seq in list(self.running):
            count = min(seq.num_uncomputed, budget)
            if not count or seq not in self.running:
                continue
            while not self.blocks.grow(seq, seq.num_computed + count):
                budget += self._preempt_youngest(batch)
                if seq not in self.running:
                    break
            else:
                batch[seq] = Chunk(seq, seq.num_computed, count)
                budget -= count
        if preemptions == self.preemptions_total:
            self._admit(batch, budget, now_s)
        return list(batch.values())

    def finish(self, seq: Sequence) -> None:
        """Forget a sequence, wherever it is, and take its blocks back."""
        if seq in self.running:
            del self.running[seq]
        else:
            self.waiting.remove(seq)
        self.blocks.release(seq)

    def _admit(self, batch: dict[Sequence, Chunk], budget: int, now_s: float) -> None:
        while self.waiting and budget > 0 and len(self.running) < self.max_num_seqs:
            seq = self.waiting[0]
            cached = self.blocks.admit(seq, budget)
            if cached is None:
                return
            if seq.scheduled_s is None:
                seq.scheduled_s, seq.num_cached = now_s, cached
            self.running[self.waiting.popleft()] = None
            count = min(seq.num_uncomputed, budget)
            batch[seq] = Chunk(seq, seq.num_computed, count)
            budget -= count

    def _preempt_youngest(self, batch: dict[Sequence, Chunk]) -> int:
        """Send the last admitted sequence back to the queue; return the tokens its chunk frees."""
        seq, _ = self.running.popitem()
        self.blocks.release(seq)
        self.waiting.appendleft(seq)
        self.preemptions_total += 1
        chunk = batch.pop(seq, None)
        return chunk.count if chunk else 0
