"""Which tokens are computed next: continuous batching under one token budget a step.

Every step mixes decodes and prefill chunks. Running requests come first, in order of admission:
only the last admitted can still be prefilling, so a long prompt never stalls running streams. Then
waiting requests are admitted in their queue's order, while the budget, `max_num_seqs` and the
blocks allow (Orca, OSDI 2022; chunked prefill after Sarathi-Serve, OSDI 2024), those that the
running ones are foreseen to need included (`forecast`).

When blocks run out the least urgent running request gives its own up. They are swapped to the host
or computed again later, whichever is cheaper; the most urgent always goes on, so every request
ends. Steps are scheduled before the results of the last one are known: tokens on their way are
pending, and what is decided here holds once the steps in flight are done.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from kvasir_runtime.engine.block_manager import BlockManager
from kvasir_runtime.engine.forecast import Forecast, peak
from kvasir_runtime.engine.host_pool import HostPool
from kvasir_runtime.engine.preemption import ALWAYS_RECOMPUTE, PreemptionCosts
from kvasir_runtime.engine.sequence import Sequence
from kvasir_runtime.engine.waiting import Policy, WaitingQueue

BlockPairs = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens [start, start + count) of a sequence, computed in one step.

    A new token follows if it `samples`. `enters` marks the first chunk since the sequence got its
    row in the runner's state.
    """

    seq: Sequence
    start: int
    count: int
    samples: bool
    enters: bool = False


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One step: block moves, in this order, then the chunks. Pairs are (source, destination)."""

    chunks: list[Chunk] = field(default_factory=list)
    swap_out: BlockPairs = field(default_factory=list)
    swap_in: BlockPairs = field(default_factory=list)
    copies: BlockPairs = field(default_factory=list)

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.chunks or self.swap_out or self.swap_in or self.copies)


class Scheduler:
    """Holds the waiting and the running sequences, and decides each step's batch."""

    def __init__(
        self,
        blocks: BlockManager,
        host: HostPool | None = None,
        *,
        max_num_seqs: int,
        max_batched_tokens: int,
        policy: Policy = "fcfs",
        costs: PreemptionCosts = ALWAYS_RECOMPUTE,
    ) -> None:
        """Schedule at most `max_batched_tokens` a step over at most `max_num_seqs` sequences."""
        self.blocks, self.host = blocks, host or HostPool(0)
        self.max_num_seqs, self.max_batched_tokens = max_num_seqs, max_batched_tokens
        self.costs = costs
        self.forecast = Forecast()
        self.waiting = WaitingQueue(policy)
        self.running: dict[Sequence, None] = {}  # in order of admission
        self.num_swapped = 0
        self.recomputes_total = self.swaps_total = 0
        self._slots = list(range(max_num_seqs))  # a heap: low rows first

    @property
    def preemptions_total(self) -> int:
        """Return how often a running request had to make room."""
        return self.recomputes_total + self.swaps_total

    def add(self, seq: Sequence) -> None:
        """Queue a new sequence."""
        self.waiting.push(seq)

    def has_work(self) -> bool:
        """Whether any sequence is unfinished."""
        return bool(self.waiting or self.running)

    def schedule(self, now_s: float) -> StepPlan:
        """Return the next step, its blocks allotted; an empty one when nothing can be done."""
        plan = StepPlan()
        batch: dict[Sequence, Chunk] = {}
        budget = self.max_batched_tokens
        preemptions = self.preemptions_total
        for seq in list(self.running):
            count = min(seq.num_uncomputed, budget)
            if count <= 0 or seq not in self.running or not _may_go_on(seq):
                continue
            while not self.blocks.grow(seq, seq.num_computed + count):
                budget += self._preempt_least_urgent(batch, plan)
                if seq not in self.running:
                    break
            else:
                batch[seq] = Chunk(
                    seq, seq.num_computed, count, samples=count == seq.num_uncomputed
                )
                budget -= count
        if preemptions == self.preemptions_total:
            self._admit(batch, plan, budget, now_s)
        plan.chunks.extend(batch.values())
        plan.copies.extend(self.blocks.take_copies())
        for chunk in plan.chunks:
            chunk.seq.num_computed += chunk.count
            chunk.seq.num_pending += chunk.samples
        return plan

    def finish(self, seq: Sequence) -> None:
        """Forget a sequence, wherever it is, and take its blocks back."""
        if seq in self.running:
            self._leave(seq)
        if seq.host_blocks:
            self.num_swapped -= 1
        if seq.finish_reason != "abort":
            self.forecast.learn(seq)
        self.waiting.forget(seq)
        self.blocks.release(seq)
        self.host.release(seq)

    def _admit(
        self, batch: dict[Sequence, Chunk], plan: StepPlan, budget: int, now_s: float
    ) -> None:
        while self.waiting and budget > 0:
            seq = self.waiting.head()
            if seq.num_pending or not self._leader_is_ahead(seq, batch):
                return
            if (
                len(self.running) >= self.max_num_seqs
                or not self._leaves_room(seq)
                or not self._give_blocks(seq, plan, budget)
            ):
                self._yield_to(seq, batch, plan)
                return
            if seq.scheduled_s is None:
                seq.scheduled_s, seq.num_cached = now_s, seq.num_computed
            self.running[self.waiting.pop()] = None
            seq.slot = heapq.heappop(self._slots)
            count = min(seq.num_uncomputed, budget)
            batch[seq] = Chunk(
                seq, seq.num_computed, count, samples=count == seq.num_uncomputed, enters=True
            )
            budget -= count

    def _leaves_room(self, seq: Sequence) -> bool:
        """Whether a waiting sequence and the running ones are foreseen to fit until they end."""
        if not self.running:
            return True
        blocks, size = self.blocks, self.blocks.block_size
        held = {
            own: max(len(own.blocks), blocks.blocks_for(own.num_tokens)) for own in self.running
        }
        # Blocks that several sequences share count once: each has its part of those in use.
        soon_used = blocks.num_used + sum(held[own] - len(own.blocks) for own in held)
        part = min(1.0, soon_used / sum(held.values()))
        growing = [(self.forecast.remaining(own) / size, held[own] * part) for own in held]
        growing.append((self.forecast.remaining(seq) / size, blocks.needed(seq)))
        return peak(growing) <= blocks.num_blocks

    def _give_blocks(self, seq: Sequence, plan: StepPlan, budget: int) -> bool:
        """Give a waiting sequence the blocks it begins with: its own, its leader's, or new ones."""
        if seq.host_blocks:
            return self._swap_in(seq, plan)
        leader = seq.leader
        if leader is not None and leader in self.running and not seq.num_generated:
            self.blocks.fork(leader, seq, seq.num_prompt - 1)
            if self.blocks.grow(seq, seq.num_tokens):
                return True
            self.blocks.release(seq)
            return False
        return self.blocks.admit(seq, budget) is not None

    def _leader_is_ahead(self, seq: Sequence, batch: dict[Sequence, Chunk]) -> bool:
        """Whether the blocks a sequence would share were computed in earlier steps."""
        leader = seq.leader
        if leader is None or leader not in self.running:
            return True
        computed = batch[leader].start if leader in batch else leader.num_computed
        return computed >= seq.num_prompt - 1

    def _yield_to(self, head: Sequence, batch: dict[Sequence, Chunk], plan: StepPlan) -> None:
        """Let a less urgent priority make room for a more urgent one; it is admitted next step."""
        if not self.running:
            return
        victim = max(self.running, key=self.waiting.urgency)
        if self.waiting.urgency(victim)[0] > self.waiting.urgency(head)[0] and not plan.swap_in:
            self._preempt_least_urgent(batch, plan)

    def _preempt_least_urgent(self, batch: dict[Sequence, Chunk], plan: StepPlan) -> int:
        """Send a running sequence back to the queue; return the tokens its chunk frees."""
        seq = max(self.running, key=self.waiting.urgency)
        chunk = batch.pop(seq, None)
        self._leave(seq)
        if self._should_swap(seq):
            used = seq.blocks[: self.blocks.blocks_for(seq.num_computed)]
            self.host.take(seq, len(used))
            plan.swap_out.extend(zip(used, seq.host_blocks, strict=True))
            computed = seq.num_computed
            self.blocks.release(seq)
            seq.num_computed = computed
            self.num_swapped += 1
            self.swaps_total += 1
        else:
            self.blocks.release(seq)
            self.recomputes_total += 1
        self.waiting.push(seq)
        return chunk.count if chunk else 0

    def _should_swap(self, seq: Sequence) -> bool:
        used = self.blocks.blocks_for(seq.num_computed)
        return (
            used > 0
            and self.host.has_room(used)
            and self.costs.prefers_swap(seq.num_computed, used)
        )

    def _swap_in(self, seq: Sequence, plan: StepPlan) -> bool:
        """Bring a sequence's blocks back from the host, with room for all its tokens."""
        if not self.blocks.grow(seq, seq.num_tokens):
            return False
        plan.swap_in.extend(zip(seq.host_blocks, seq.blocks, strict=False))
        self.host.release(seq)
        self.num_swapped -= 1
        return True

    def _leave(self, seq: Sequence) -> None:
        del self.running[seq]
        heapq.heappush(self._slots, seq.slot)
        seq.slot = -1


def _may_go_on(seq: Sequence) -> bool:
    """Whether a running sequence's next step can be scheduled before the last one's result."""
    if not seq.num_pending:
        return True
    return not seq.is_full and not seq.needs_known_tokens
