"""The engine without HTTP, as a target: its own process, its asyncio client in this one."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import AsyncIterator

from kvasir_runtime.bench.latency import Answer
from kvasir_runtime.bench.workload import Prompt
from kvasir_runtime.config import EngineConfig
from kvasir_runtime.engine.client import AsyncEngine
from kvasir_runtime.errors import AnswerError, RequestError
from kvasir_runtime.messages import ModelInfo
from kvasir_runtime.models.resolve import resolve_model
from kvasir_runtime.sampling_params import SamplingParams


class EngineTarget:
    """A loaded engine; prompts are token ids, answers greedy and as long as asked."""

    def __init__(self, engine: AsyncEngine, model: ModelInfo, start_s: float) -> None:
        """Keep an engine that is ready, and the seconds that took."""
        self.model, self.start_s = model, start_s
        self._engine, self._names = engine, itertools.count()

    async def ask(self, prompt: Prompt, output_len: int) -> Answer:
        """Return the answer to token ids; raises AnswerError, and EngineError when it stops."""
        if isinstance(prompt, str):
            raise TypeError("the engine takes token ids")
        params = SamplingParams(temperature=0.0, ignore_eos=True, max_tokens=output_len)
        moments: list[float] = []
        sent_s = time.perf_counter()
        try:
            async for delta in self._engine.generate(prompt, params, f"b{next(self._names)}"):
                moments += [time.perf_counter()] * len(delta.token_ids)
                if delta.error is not None:
                    raise AnswerError(delta.error, kind="EngineError")
        except RequestError as error:
            raise AnswerError(error.message, error.hint, error.reason) from error
        if not moments:
            raise AnswerError("the answer has no token", kind="NoTokens")
        return Answer(sent_s, tuple(moments), len(moments), len(prompt))


@contextlib.asynccontextmanager
async def running_engine(config: EngineConfig) -> AsyncIterator[EngineTarget]:
    """Load the model, and end the engine's process afterwards; raises StartupError."""
    folder = resolve_model(config.model, config.revision)
    engine = AsyncEngine(config, folder, None)
    started = time.perf_counter()
    engine.start()
    try:
        model = await engine.wait_ready()
        yield EngineTarget(engine, model, time.perf_counter() - started)
    finally:
        await engine.stop()
