"""One HTTP request's generation: its prompts go to the engine, all their deltas come back as one.

Choices are numbered over all prompts: choice 5 of a request with n=3 is the third of its second
prompt. What the request used, and how long it took, is noted on the way.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from kvasir_runtime.errors import KvasirError, RequestError
from kvasir_runtime.messages import OutputDelta
from kvasir_runtime.sampling_params import SamplingParams
from kvasir_runtime.server.errors import RequestFailedError
from kvasir_runtime.server.histograms import ChoiceTimer
from kvasir_runtime.server.merge import merge
from kvasir_runtime.server.state import Loaded

DEFAULT_COMPLETION_TOKENS = 16

Deltas = AsyncGenerator[tuple[int, OutputDelta], None]


@dataclass(slots=True)
class Usage:
    """Tokens a request has used so far."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0

    def body(self) -> dict[str, object]:
        """Return OpenAI's usage object."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }


class Generation:
    """The choices of one request, being generated."""

    def __init__(
        self,
        loaded: Loaded,
        request_id: str,
        prompts: Sequence[Sequence[int]],
        params: SamplingParams,
        arrived_s: float,
    ) -> None:
        """Prepare `n` choices for each prompt; `deltas` begins."""
        self.num_choices = len(prompts) * params.n
        self._loaded, self._request_id = loaded, request_id
        self._prompts, self._params = prompts, params
        self.usage = Usage(prompt_tokens=sum(len(prompt) for prompt in prompts))
        histograms = loaded.metrics.histograms
        self._timers = [ChoiceTimer(histograms, arrived_s) for _ in range(self.num_choices)]

    async def deltas(self) -> Deltas:
        """Yield (choice, delta) as the engine gives them; leaving early aborts all choices."""
        ended_by = "abort"
        try:
            async with aclosing(self._from_engine()) as deltas:
                async for choice, delta in deltas:
                    self._note(choice, delta)
                    if delta.finish_reason == "error":
                        raise RequestFailedError(delta.error or "the engine gave the request up")
                    yield choice, delta
        except RequestError:
            ended_by = ""  # it was never accepted
            raise
        except KvasirError:
            ended_by = "error"
            raise
        finally:
            if ended_by:
                self._end(ended_by)

    async def _from_engine(self) -> Deltas:
        engine, params = self._loaded.engine, self._params
        if len(self._prompts) == 1:  # nearly always: no task and no queue in between
            only = engine.generate(self._prompts[0], params, self._request_id)
            async with aclosing(only) as deltas:
                async for delta in deltas:
                    yield delta.index, delta
            return
        sources = [
            engine.generate(prompt, params, f"{self._request_id}-{number}")
            for number, prompt in enumerate(self._prompts)
        ]
        async with aclosing(merge(sources)) as merged:
            async for number, delta in merged:
                yield number * params.n + delta.index, delta

    def _note(self, choice: int, delta: OutputDelta) -> None:
        self._timers[choice].observe(delta, time.monotonic())
        self.usage.completion_tokens += len(delta.token_ids)
        if delta.finish_reason is not None and choice % self._params.n == 0:
            self.usage.cached_tokens += delta.num_cached_tokens

    def _end(self, reason: str) -> None:
        histograms, now_s = self._loaded.metrics.histograms, time.monotonic()
        for prompt in self._prompts:
            histograms.prompt_tokens.observe(len(prompt))
        for timer in self._timers:
            timer.end(reason, now_s)


def with_default_length(
    params: SamplingParams, prompts: Sequence[Sequence[int]], max_model_len: int
) -> SamplingParams:
    """Return OpenAI's default of 16 tokens for a completion that says nothing, or what fits."""
    if params.max_tokens is not None:
        return params
    left = max_model_len - max(map(len, prompts))
    wanted = max(1, min(DEFAULT_COMPLETION_TOKENS, left), params.min_tokens)
    return dataclasses.replace(params, max_tokens=wanted)
