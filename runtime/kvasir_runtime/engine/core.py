"""The engine itself: requests in, tokens out, one step at a time.

It knows no process, no thread and no clock but `time.monotonic`: `LLM` calls `step` in a loop, the
server's engine process does the same. With overlap a step is launched before the results of the
one before it are read, so the device never waits for the host.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

from kvasir_runtime.config import EngineConfig
from kvasir_runtime.engine.block_manager import BlockManager
from kvasir_runtime.engine.build import OnProgress, build
from kvasir_runtime.engine.host_pool import HostPool
from kvasir_runtime.engine.kernel_watch import KERNELS
from kvasir_runtime.engine.runner import Flight, Result
from kvasir_runtime.engine.scheduler import Scheduler
from kvasir_runtime.engine.sequence import Sequence, TokenMask
from kvasir_runtime.engine.startup import StartupClock
from kvasir_runtime.messages import (
    ModelInfo,
    NewRequest,
    Stats,
    StepOutputs,
    TokenLogprobs,
    TokenOutput,
)


class Engine:
    """A loaded model with its scheduler. Not thread-safe: one caller drives it."""

    def __init__(
        self,
        config: EngineConfig,
        folder: Path,
        on_progress: OnProgress = lambda _stage, _percent: None,
    ) -> None:
        """Load the model in `folder`; raises a StartupError that says what is wrong.

        `on_progress` is told each stage's name and its share done, in percent.
        """
        clock = StartupClock()

        def enter(stage: str, percent: int) -> None:
            clock.enter(stage)
            on_progress(stage, percent)

        with KERNELS.starting():
            built = build(config, folder, enter)
        self.startup = clock.finish()
        self.runner = built.runner
        self.blocks = BlockManager(
            built.num_blocks, config.block_size, prefix_caching=config.enable_prefix_caching
        )
        self.scheduler = Scheduler(
            self.blocks,
            HostPool(built.num_host_blocks),
            max_num_seqs=config.max_num_seqs,
            max_batched_tokens=config.batched_tokens,
            policy=config.scheduling_policy,
            costs=built.costs,
        )
        self.model = ModelInfo(
            architecture=built.config.architecture,
            dtype=str(built.dtype).removeprefix("torch."),
            vocab_size=built.config.vocab_size,
            max_model_len=built.max_model_len,
            eos_token_ids=built.config.eos_token_ids,
            block_size=config.block_size,
            num_gpu_blocks=built.num_blocks,
            num_cpu_blocks=built.num_host_blocks,
            max_num_seqs=config.max_num_seqs,
            max_num_batched_tokens=config.batched_tokens,
        )
        on_gpu = self.runner.device.type == "cuda"
        self._overlap = on_gpu if config.async_scheduling is None else config.async_scheduling
        self._in_flight: Flight | None = None
        self._sequences: dict[str, Sequence] = {}
        self._seeds = random.Random(config.seed)
        self._prompt_tokens_total = self._generation_tokens_total = self._steps_total = 0

    def add(self, request: NewRequest, token_mask: TokenMask | None = None) -> None:
        """Queue a request whose length the front has checked.

        `token_mask` is asked before each token which ones may come next.
        """
        seq = Sequence.from_request(
            request,
            max_model_len=self.model.max_model_len,
            seed=self._seeds.getrandbits(63),
        )
        seq.token_mask = token_mask
        if request.leader_id is not None:
            seq.leader = self._sequences.get(request.leader_id)
        self._sequences[seq.request_id] = seq
        self.scheduler.add(seq)

    def abort(self, request_ids: tuple[str, ...]) -> None:
        """Forget requests and take their blocks back; unknown ids are those already ended."""
        for request_id in request_ids:
            seq = self._sequences.pop(request_id, None)
            if seq is not None:
                seq.finish_reason = "abort"
                self.scheduler.finish(seq)

    def has_work(self) -> bool:
        """Whether any request is unfinished, or a step's results are not read yet."""
        return self._in_flight is not None or self.scheduler.has_work()

    def step(self) -> StepOutputs:
        """Launch one step; return the new tokens of the step whose results are read."""
        plan = self.scheduler.schedule(time.monotonic())
        flight = self.runner.launch(plan) if plan else None
        if self._overlap:
            self._in_flight, flight = flight, self._in_flight
        if flight is None:
            return StepOutputs((), self.stats())
        results = flight.results()
        self._steps_total += 1
        now = time.monotonic()
        outputs = (self._advance(result, now) for result in results)
        return StepOutputs(tuple(out for out in outputs if out is not None), self.stats())

    def stats(self) -> Stats:
        """Return the figures after the last step."""
        scheduler, blocks = self.scheduler, self.blocks
        return Stats(
            running=len(scheduler.running),
            waiting=len(scheduler.waiting) - scheduler.num_swapped,
            swapped=scheduler.num_swapped,
            gpu_blocks_used=blocks.num_used,
            gpu_blocks_total=blocks.num_blocks,
            cpu_blocks_used=scheduler.host.num_used,
            cpu_blocks_total=scheduler.host.num_blocks,
            prompt_tokens_total=self._prompt_tokens_total,
            generation_tokens_total=self._generation_tokens_total,
            preemptions_total=scheduler.preemptions_total,
            swaps_total=scheduler.swaps_total,
            prefix_cache_queries_total=blocks.queries_total,
            prefix_cache_hits_total=blocks.hits_total,
            steps_total=self._steps_total,
            late_kernels_total=KERNELS.counts.late,
        )

    def _advance(self, result: Result, now: float) -> TokenOutput | None:
        """Record what a step computed of one sequence; return its news, if there are any."""
        seq = result.chunk.seq
        if seq.finish_reason is not None:
            return None  # it ended while this step was under way
        self.blocks.publish(seq)
        prompt_logprobs = _unseen(result)
        if result.token_id is None:
            return (
                TokenOutput(seq.request_id, (), prompt_logprobs=prompt_logprobs)
                if prompt_logprobs
                else None
            )
        first = seq.num_generated == 0
        seq.append(result.token_id, self.runner.eos, now)
        self._prompt_tokens_total += seq.num_prompt if first else 0
        self._generation_tokens_total += 1
        finished = seq.finish_reason is not None
        if finished:
            del self._sequences[seq.request_id]
            self.scheduler.finish(seq)
        return TokenOutput(
            seq.request_id,
            (result.token_id,),
            logprobs=(result.logprobs,) if result.logprobs else (),
            prompt_logprobs=prompt_logprobs,
            finish_reason=seq.finish_reason,
            stop_reason=seq.stop_reason,
            num_cached_tokens=seq.num_cached,
            timings=seq.timings(now) if first or finished else None,
        )


def _unseen(result: Result) -> tuple[TokenLogprobs, ...]:
    """Return the prompt's log-probabilities that were not told yet: some are computed twice."""
    seq = result.chunk.seq
    known = seq.num_prompt_scored - result.chunk.start
    seq.num_prompt_scored = max(
        seq.num_prompt_scored, result.chunk.start + len(result.prompt_logprobs)
    )
    return result.prompt_logprobs[max(0, known) :]
