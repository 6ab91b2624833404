"""The engine in a process of its own: messages in, steps, messages out.

HTTP and tokenization happen in the parent, so no request can stall a step. The process ends when
it is told to, when its parent is gone, or when the engine fails; it says why before it ends.
"""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from kvasir_runtime.config import EngineConfig
from kvasir_runtime.engine.core import Engine
from kvasir_runtime.errors import EngineDiedError, KvasirError
from kvasir_runtime.messages import (
    AbortRequests,
    EngineFailed,
    EngineMessage,
    EngineReady,
    NewRequest,
    Progress,
    Shutdown,
    StepOutputs,
)

logger = logging.getLogger(__name__)

HEARTBEAT_S = 1.0


def run_engine(
    connection: Connection, config: EngineConfig, folder: Path, setup_logging: Callable[[], None]
) -> None:
    """Serve `connection` until told to stop; the target of the engine process."""
    # Ctrl-C and the kubelet's SIGTERM are the parent's to handle: it drains first, then tells us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    setup_logging()

    def send(message: EngineMessage) -> None:
        connection.send(message)

    try:
        engine = Engine(config, folder, lambda stage, percent: send(Progress(stage, percent)))
        send(EngineReady(engine.model))
        serve(engine, connection)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        logger.warning("The server process is gone: the engine ends")
        sys.exit(1)
    except KvasirError as error:
        send(EngineFailed(error.reason, error.message, error.hint))
        sys.exit(1)
    except Exception as error:
        logger.exception("The engine failed")
        send(
            EngineFailed(
                EngineDiedError.reason,
                f"the engine failed: {type(error).__name__}: {error}",
                "the log of this container has the traceback",
            )
        )
        sys.exit(1)


def serve(engine: Engine, connection: Connection) -> None:
    """Take messages and step, until a Shutdown comes; raises EOFError when the parent is gone."""
    while True:
        timeout = 0.0 if engine.has_work() else HEARTBEAT_S
        while connection.poll(timeout):
            message = connection.recv()
            if isinstance(message, Shutdown):
                return
            if isinstance(message, NewRequest):
                engine.add(message)
            elif isinstance(message, AbortRequests):
                engine.abort(message.request_ids)
            timeout = 0.0
        connection.send(engine.step() if engine.has_work() else StepOutputs((), engine.stats()))
