"""Loads what the server serves: the model's folder, its tokenizer, its defaults, the engine.

Enters: the settings. Leaves: `state.loaded`, set; or the StartupError that says why not. The slow
parts run in threads and in the engine's process, so the probes answer meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path

from kvasir_runtime.config import EngineConfig, ServerConfig
from kvasir_runtime.engine.client import AsyncEngine
from kvasir_runtime.models.resolve import resolve_model
from kvasir_runtime.server.engine_port import Engine
from kvasir_runtime.server.logs import configure_logging
from kvasir_runtime.server.metrics import Metrics
from kvasir_runtime.server.params import load_sampling_defaults
from kvasir_runtime.server.state import Loaded, ServerState
from kvasir_runtime.tokenizer import Tokenizer, load_tokenizer

logger = logging.getLogger(__name__)


class TokenizerToCome:
    """The engine's decoder: lets it load while the tokenizer does; no request comes before both."""

    def __init__(self) -> None:
        """Begin without a tokenizer."""
        self.tokenizer: Tokenizer | None = None

    def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
        """Return the text of token ids."""
        if self.tokenizer is None:
            raise RuntimeError("nothing is decoded before the tokenizer is loaded")
        return self.tokenizer.decode(ids, skip_special_tokens)


async def load(state: ServerState) -> Loaded:
    """Load the model and make the server ready; raises StartupError or EngineError."""
    config = state.engine_config
    state.enter_stage("download")
    folder = await asyncio.to_thread(resolve_model, config.model, config.revision)
    defaults = load_sampling_defaults(folder)
    decoder = TokenizerToCome()
    engine = create_engine(config, state.config, folder, decoder)
    engine.start()
    state.engine = engine
    decoder.tokenizer = await asyncio.to_thread(_load_tokenizer, config, state.config, folder)
    model = await engine.wait_ready()
    metrics = Metrics(state.names[0], engine, model, config)
    state.loaded = Loaded(engine, decoder.tokenizer, model, metrics, defaults)
    if defaults:
        logger.info("Sampling defaults of the model's generation_config.json: %s", defaults)
    return state.loaded


def create_engine(
    config: EngineConfig, server_config: ServerConfig, folder: Path, decoder: TokenizerToCome
) -> Engine:
    """Return the engine, not started; its process logs as this one does."""
    return AsyncEngine(
        config,
        folder,
        decoder,
        step_timeout_s=server_config.step_timeout_seconds,
        setup_logging=partial(configure_logging, server_config.log_level, server_config.log_format),
    )


def _load_tokenizer(config: EngineConfig, server_config: ServerConfig, folder: Path) -> Tokenizer:
    source = resolve_model(config.tokenizer, config.revision) if config.tokenizer else folder
    return load_tokenizer(source, None, config.trust_remote_code, server_config.chat_template)
