"""An engine whose tokens a test writes down: the server's tests need timing, not a model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence

from kvasir_runtime.engine.output import CompletionOutput, check_request
from kvasir_runtime.errors import KvasirError
from kvasir_runtime.messages import (
    ModelInfo,
    OutputDelta,
    Progress,
    Stats,
    Timings,
    TokenLogprobs,
    TokenOutput,
)
from kvasir_runtime.sampling_params import SamplingParams
from kvasir_runtime.tokenizer import Tokenizer

MODEL = ModelInfo(
    architecture="ScriptedForCausalLM",
    dtype="float32",
    vocab_size=320,
    max_model_len=512,
    eos_token_ids=(258,),
    block_size=16,
    num_gpu_blocks=100,
    num_cpu_blocks=0,
    max_num_seqs=8,
    max_num_batched_tokens=2048,
)


class ScriptedEngine:
    """Answers every prompt with `text`, one byte token a step, as long as `gate` is open."""

    def __init__(self, tokenizer: Tokenizer, text: str = "Hello, world") -> None:
        self.tokenizer = tokenizer
        self.text = text
        self.progress = Progress("load weights", 40)
        self.model: ModelInfo | None = MODEL
        self.stats = Stats(gpu_blocks_total=100)
        self.failure: KvasirError | None = None
        self.healthy = True
        self.stopped = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.hold_after = 0  # tokens given before the gate is asked
        self.fails_with: str | None = None
        self.prompts: list[list[int]] = []
        self.params: list[SamplingParams] = []
        self.open: set[str] = set()
        self.left_early: set[str] = set()
        self._callbacks: list[Callable[[KvasirError], None]] = []

    def start(self) -> None:
        """Nothing to start."""

    async def wait_ready(self) -> ModelInfo:
        if self.failure is not None:
            raise self.failure
        return MODEL

    def on_failure(self, callback: Callable[[KvasirError], None]) -> None:
        self._callbacks.append(callback)

    def fail(self, error: KvasirError) -> None:
        """Stop as a dying engine does."""
        self.failure = error
        self.gate.set()
        for callback in self._callbacks:
            callback(error)

    async def stop(self) -> None:
        self.stopped = True

    async def generate(
        self, prompt_token_ids: Sequence[int], params: SamplingParams, request_id: str
    ) -> AsyncIterator[OutputDelta]:
        if self.failure is not None:
            raise self.failure
        check_request(prompt_token_ids, params, MODEL)
        self.prompts.append(list(prompt_token_ids))
        self.params.append(params)
        self.open.add(request_id)
        finished = False
        try:
            for index in range(params.n):
                async for delta in self._completion(index, prompt_token_ids, params):
                    yield delta
            finished = True
        finally:
            self.open.discard(request_id)
            if not finished:
                self.left_early.add(request_id)

    async def _completion(
        self, index: int, prompt: Sequence[int], params: SamplingParams
    ) -> AsyncIterator[OutputDelta]:
        completion = CompletionOutput(index, prompt, params, self.tokenizer)
        ids = [*self.tokenizer.encode(self.text, False), MODEL.eos_token_ids[0]]
        arrived_s = time.monotonic()
        timings = Timings(arrived_s, arrived_s + 1, arrived_s + 3, arrived_s + 7)
        for number, token_id in enumerate(ids, start=1):
            if number > self.hold_after:
                await self.gate.wait()
            if self.failure is not None:
                raise self.failure
            reason = "stop" if number == len(ids) else None
            if reason is None and number == params.max_tokens:
                reason = "length"
            if self.fails_with is not None:
                reason = "error"
            delta = completion.push(
                TokenOutput(
                    "unused",
                    (token_id,),
                    logprobs=_logprobs(token_id, params),
                    finish_reason=reason,
                    num_cached_tokens=16 if len(prompt) > 16 else 0,
                    timings=timings if reason else None,
                    error=self.fails_with,
                )
            )
            yield delta
            if completion.finished:
                return
            await asyncio.sleep(0)


def _logprobs(token_id: int, params: SamplingParams) -> tuple[TokenLogprobs, ...]:
    if params.logprobs is None:
        return ()
    best = tuple((65 + rank, -1.0 - rank) for rank in range(params.logprobs))
    return (TokenLogprobs(token_id, -0.5 if token_id != 258 else float("-inf"), 1, best),)
