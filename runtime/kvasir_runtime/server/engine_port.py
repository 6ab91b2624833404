"""What the server needs of an engine: the shape of `engine.client.AsyncEngine`.

The server's own modules know this alone, so that they can be run against a scripted engine.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Protocol

from kvasir_runtime.errors import KvasirError
from kvasir_runtime.messages import ModelInfo, OutputDelta, Progress, Stats
from kvasir_runtime.sampling_params import SamplingParams


class Engine(Protocol):
    """One engine, in a process of its own."""

    @property
    def progress(self) -> Progress:
        """How far loading is."""

    @property
    def model(self) -> ModelInfo | None:
        """What is loaded; None until it is."""

    @property
    def stats(self) -> Stats:
        """The newest figures."""

    @property
    def failure(self) -> KvasirError | None:
        """Why the engine stopped, if it did."""

    @property
    def healthy(self) -> bool:
        """Whether the process lives and its steps (or its loading) go on."""

    def start(self) -> None:
        """Begin to load; returns at once."""

    async def wait_ready(self) -> ModelInfo:
        """Return once requests are served; raises StartupError or EngineError."""

    def on_failure(self, callback: Callable[[KvasirError], None]) -> None:
        """Have `callback` called in the event loop when the engine stops by itself."""

    def generate(
        self, prompt_token_ids: Sequence[int], params: SamplingParams, request_id: str
    ) -> AsyncGenerator[OutputDelta, None]:
        """Yield one request's output; closing the iterator aborts the request."""

    async def stop(self) -> None:
        """End the engine process."""
