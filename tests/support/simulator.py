"""An engine without a model: the real scheduler and block manager on a simulated device and clock.

The device remembers what was written into which slot, as a key of the whole prefix up to it, and
checks before each step that every sequence finds its own tokens in its blocks. Everything nobody
owns is wiped. So whatever scheduling does wrong with blocks shows as a wrong or missing key.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

from kvasir_runtime.engine.block_manager import BlockManager
from kvasir_runtime.engine.forecast import Forecast
from kvasir_runtime.engine.host_pool import HostPool
from kvasir_runtime.engine.preemption import ALWAYS_RECOMPUTE
from kvasir_runtime.engine.scheduler import Chunk, Scheduler, StepPlan
from kvasir_runtime.engine.sequence import Sequence
from kvasir_runtime.messages import NewRequest
from kvasir_runtime.sampling_params import SamplingParams

STEP_S, TOKEN_S = 0.01, 0.0001


def next_token(seq: Sequence, tokens: list[int]) -> int:
    """The token this 'model' gives a sequence: fixed by its seed and its tokens."""
    return hash((seq.seed, *tokens)) % 1000


def all_tokens(seq: Sequence) -> list[int]:
    """The sequence's tokens, the pending ones worked out."""
    tokens = list(seq.token_ids)
    for _ in range(seq.num_pending):
        tokens.append(next_token(seq, tokens))
    return tokens


class Device:
    """Memory by block and slot; None where there is nothing to read."""

    def __init__(self, num_blocks: int, host_blocks: int, size: int) -> None:
        self.size = size
        self.memory: list[list[int | None]] = [[None] * size for _ in range(num_blocks)]
        self.host: list[list[int | None]] = [[None] * size for _ in range(host_blocks)]

    def run(self, plan: StepPlan) -> None:
        """Do what a step does: move blocks, write keys, then let everyone read."""
        for source, destination in plan.swap_out:
            self.host[destination] = list(self.memory[source])
        for source, destination in plan.swap_in:
            self.memory[destination] = list(self.host[source])
        destinations = {destination for _, destination in plan.copies}
        assert len(destinations) == len(plan.copies), "two copies into one block"
        for source, destination in plan.copies:
            assert source not in destinations, "a copy of a copy"
            self.memory[destination] = list(self.memory[source])
        for chunk in plan.chunks:
            pending = chunk.seq.num_pending - chunk.samples
            assert not (chunk.enters and pending), "a row's pending token is lost with the row"
            for position, key in self._keys(chunk, chunk.start):
                self._slot(chunk.seq, position)[position % self.size] = key
        for chunk in plan.chunks:
            for position, key in self._keys(chunk, 0):
                assert self._slot(chunk.seq, position)[position % self.size] == key, (
                    f"{chunk.seq.request_id} reads something else at {position}"
                )

    def wipe(self, blocks: Iterable[int]) -> None:
        """Destroy what nobody may read."""
        for block in blocks:
            self.memory[block] = [None] * self.size

    def _slot(self, seq: Sequence, position: int) -> list[int | None]:
        return self.memory[seq.blocks[position // self.size]]

    @staticmethod
    def _keys(chunk: Chunk, start: int) -> Iterable[tuple[int, int]]:
        tokens = all_tokens(chunk.seq)
        for position in range(start, chunk.start + chunk.count):
            yield position, hash(tuple(tokens[: position + 1]))


@dataclass
class Simulator:
    """The loop of the engine, with a fake clock; `overlap` reads results a step late."""

    num_blocks: int = 32
    host_blocks: int = 0
    size: int = 4
    max_num_seqs: int = 8
    max_tokens: int = 16
    overlap: bool = False
    prefix_caching: bool = True
    policy: str = "fcfs"
    costs: object = ALWAYS_RECOMPUTE
    typical_output: float = 0  # foreseen at first: whatever fits now is admitted
    now: float = 0.0
    ended: dict[str, list[int]] = field(default_factory=dict)
    first_token_s: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.blocks = BlockManager(self.num_blocks, self.size, prefix_caching=self.prefix_caching)
        self.scheduler = Scheduler(
            self.blocks, HostPool(self.host_blocks), max_num_seqs=self.max_num_seqs,
            max_batched_tokens=self.max_tokens, policy=self.policy, costs=self.costs,
        )  # fmt: skip
        self.scheduler.forecast = Forecast(self.typical_output)
        self.device = Device(self.num_blocks, self.host_blocks, self.size)
        self.alive: dict[str, Sequence] = {}
        self.in_flight: StepPlan | None = None
        self._names = itertools.count()

    def add(self, prompt, output=8, *, name=None, priority=0, n=1, seed=0, stop=()) -> list[str]:
        """Queue a request with `n` completions."""
        name = name or f"r{next(self._names)}"
        leader = None
        names = []
        for index in range(n):
            params = SamplingParams(max_tokens=output, stop_token_ids=list(stop), seed=seed + index)
            own = f"{name}-{index}" if n > 1 else name
            request = NewRequest(own, tuple(prompt), params, self.now, priority)
            seq = Sequence.from_request(request, max_model_len=10_000, seed=0)
            seq.leader = leader
            leader = leader or seq
            self.alive[own] = seq
            self.scheduler.add(seq)
            names.append(own)
        return names

    def abort(self, name: str) -> None:
        """End a request from outside."""
        seq = self.alive.pop(name)
        seq.finish_reason = "abort"
        self.scheduler.finish(seq)

    def has_work(self) -> bool:
        """Whether anything is unfinished."""
        return self.in_flight is not None or self.scheduler.has_work()

    def step(self) -> StepPlan:
        """One turn of the loop; returns what was scheduled."""
        self.device.wipe(self.blocks.unowned_blocks())
        preempted = self.scheduler.preemptions_total
        plan = self.scheduler.schedule(self.now)
        made_room = self.scheduler.preemptions_total > preempted
        assert sum(chunk.count for chunk in plan.chunks) <= self.max_tokens
        assert len(self.scheduler.running) <= self.max_num_seqs
        before = self.in_flight
        idle = not (plan or before or made_room)
        assert not (idle and self.scheduler.has_work()), "work waits, nothing is scheduled"
        if plan:
            self.device.run(plan)
        self.now += STEP_S + TOKEN_S * sum(chunk.count for chunk in plan.chunks)
        if self.overlap:
            self.in_flight = plan if plan else None
            self._learn(before)
        else:
            self._learn(plan)
        return plan

    def run(self, limit: int = 5000) -> None:
        """Step until everything has ended."""
        for _ in range(limit):
            if not self.has_work():
                return
            self.step()
        raise AssertionError(f"{len(self.alive)} requests have not ended after {limit} steps")

    def _learn(self, plan: StepPlan | None) -> None:
        for chunk in plan.chunks if plan else ():
            seq = chunk.seq
            if seq.finish_reason is not None:
                continue
            self.blocks.publish(seq)
            if not chunk.samples:
                continue
            seq.append(next_token(seq, seq.token_ids), frozenset(), self.now)
            self.first_token_s.setdefault(seq.request_id, self.now)
            if seq.finish_reason is not None:
                self.ended[seq.request_id] = seq.token_ids[seq.num_prompt :]
                del self.alive[seq.request_id]
                self.scheduler.finish(seq)
