"""What the server is at this moment: loading, serving, draining or failed, and with which model.

One mutable object for the process; routes read it, `startup` and `process` change it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from kvasir_runtime.config import EngineConfig, ServerConfig
from kvasir_runtime.errors import KvasirError
from kvasir_runtime.messages import ModelInfo, Progress
from kvasir_runtime.server.engine_port import Engine
from kvasir_runtime.server.errors import NotServingError
from kvasir_runtime.server.metrics import Metrics
from kvasir_runtime.server.running import RunningRequests
from kvasir_runtime.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Loaded:
    """Everything a request needs; it exists once the model can answer."""

    engine: Engine
    tokenizer: Tokenizer
    model: ModelInfo
    metrics: Metrics
    sampling_defaults: dict[str, Any]


class ServerState:
    """The server's phase, its model and the requests it is answering."""

    def __init__(self, engine_config: EngineConfig, server_config: ServerConfig) -> None:
        """Begin in the loading phase."""
        self.engine_config = engine_config
        self.config = server_config
        self.names = server_config.served_model_name or (engine_config.model,)
        self.running = RunningRequests()
        self.loaded: Loaded | None = None
        self.engine: Engine | None = None
        self.failure: KvasirError | None = None
        self.draining = False
        self.started_s = time.monotonic()
        self.created = int(time.time())
        self._stage = Progress("start", 0)

    @property
    def progress(self) -> Progress:
        """How far loading is."""
        return self.engine.progress if self.engine else self._stage

    def enter_stage(self, stage: str) -> None:
        """Say what happens before the engine exists."""
        self._stage = Progress(stage, 0)

    @property
    def healthy(self) -> bool:
        """Whether the engine makes progress; while there is none yet, loading does."""
        return self.failure is None and (self.engine is None or self.engine.healthy)

    @property
    def ready(self) -> bool:
        """Whether new requests are welcome."""
        return self.loaded is not None and not self.draining and self.healthy

    def require_loaded(self) -> Loaded:
        """Return the model to answer with; raise NotServingError where none can."""
        if self.draining:
            raise NotServingError("the server is shutting down", "try again", code="draining")
        if self.failure is not None:
            raise NotServingError(
                f"the engine has stopped ({self.failure.message})",
                "try again shortly", code="engine_failed",
            )  # fmt: skip
        if self.loaded is None:
            progress = self.progress
            raise NotServingError(
                f"the model is still loading (stage {progress.stage}, {progress.percent} %)",
                "wait until /ready answers 200", code="model_loading",
            )  # fmt: skip
        return self.loaded
