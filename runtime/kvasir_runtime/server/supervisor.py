"""The life of the server process: it listens, loads, serves, drains and ends.

Enters: the settings. Leaves: the exit status: 0 after a drain, 1 where start-up or the engine
failed (the cause is then in the log and in the termination message). The port is open from the
beginning, so that probes are answered while the model loads.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator

import uvicorn

from kvasir_runtime.engine.startup import process_age_s
from kvasir_runtime.errors import InvalidConfigError, KvasirError, StartupError
from kvasir_runtime.server.app import build_app
from kvasir_runtime.server.closing import CloseWhenDraining
from kvasir_runtime.server.errors import NotServingError
from kvasir_runtime.server.load_report import report_load
from kvasir_runtime.server.startup import load
from kvasir_runtime.server.state import Loaded, ServerState
from kvasir_runtime.server.termination import write_termination

CUT_TIMEOUT_S = 2.0  # for the error events of streams that are cut
ENGINE_STOP_TIMEOUT_S = 5.0
LOADING_STOP_TIMEOUT_S = 0.5  # an engine that loads listens to nobody, and ends with its parent
CONNECTIONS_TIMEOUT_S = 1
KEEP_ALIVE_S = 75  # above the usual 60 s of proxies, so that they close first

logger = logging.getLogger(__name__)

Loader = Callable[[ServerState], Awaitable[Loaded]]


class WebServer(uvicorn.Server):
    """uvicorn without its signal handlers: the supervisor decides when connections end."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


class Supervisor:
    """Runs one server from its first to its last moment."""

    def __init__(self, state: ServerState, loader: Loader = load) -> None:
        """Prepare to serve what `loader` loads."""
        self.state = state
        self._loader = loader
        self._listener = bind(state.config.host, state.config.port)
        self._web = WebServer(_web_config(state))
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """The port that is listened on, also where any free one was asked for."""
        return int(self._listener.getsockname()[1])

    async def run(self) -> int:
        """Serve until a signal or a failure; return the exit status."""
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._install_signals()
        serving = asyncio.create_task(self._web.serve(sockets=[self._listener]))
        logger.info("Listening on http://%s:%d", self.state.config.host, self.port)
        self._begin(self._load())
        await asyncio.wait((self._end, serving), return_when=asyncio.FIRST_COMPLETED)
        await self._drain()
        for task in self._tasks:
            task.cancel()
        await self._stop_engine()
        self._web.should_exit = True
        await serving
        return 0 if self.state.failure is None else 1

    def stop(self) -> None:
        """Begin to drain, as the first SIGTERM does."""
        if not self._end.done():
            self._end.set_result(None)

    def _install_signals(self) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(RuntimeError, ValueError):  # outside the main thread: no signals
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: signal.Signals) -> None:
        if self._end.done():
            logger.warning("%s again: ending at once", number.name)
            leave(128 + number)
        logger.info("%s: draining (the same again ends at once)", number.name)
        self.stop()

    def _begin(self, work: Awaitable[None]) -> None:
        async def run() -> None:
            await work

        self._tasks.add(asyncio.create_task(run()))

    async def _load(self) -> None:
        try:
            loaded = await self._loader(self.state)
        except KvasirError as error:
            self._fail(error)
        except Exception as error:
            logger.exception("Start-up failed")
            self._fail(StartupError(f"start-up failed: {type(error).__name__}: {error}"))
        else:
            loaded.engine.on_failure(self._fail)
            if loaded.engine.failure is not None:
                self._fail(loaded.engine.failure)
            names, length = ", ".join(self.state.names), loaded.model.max_model_len
            logger.info(
                "Ready: serving %s, up to %d tokens a request, %.1f s after the process began",
                names, length, process_age_s(),
            )  # fmt: skip
            self._begin(report_load(loaded.metrics))

    def _fail(self, error: KvasirError) -> None:
        """Say once why the process ends, then end it."""
        if self.state.failure is not None:
            return
        self.state.failure = error
        logger.error("%s: %s", error.reason, " ".join(str(error).split()))
        write_termination(error)
        self.stop()

    async def _drain(self) -> None:
        """Let running requests end, and cut those that don't in time; a failed engine's end now."""
        state = self.state
        state.draining = True
        allowed_s = state.config.drain_seconds if state.failure is None else CUT_TIMEOUT_S
        if len(state.running):
            logger.info("%d requests are running, they have %g s", len(state.running), allowed_s)
        if not await state.running.wait_idle(allowed_s):
            cut = state.running.cut_all(
                NotServingError("the server shut down before the answer was whole",
                                "send the request again", code="draining")
            )  # fmt: skip
            logger.warning("%d requests were cut off", cut)
            await state.running.wait_idle(CUT_TIMEOUT_S)

    async def _stop_engine(self) -> None:
        state = self.state
        if state.engine is None:
            return
        allowed_s = ENGINE_STOP_TIMEOUT_S if state.loaded else LOADING_STOP_TIMEOUT_S
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(state.engine.stop(), allowed_s)


def bind(host: str, port: int) -> socket.socket:
    """Return a socket bound to the address; raises InvalidConfigError where that can't be."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise InvalidConfigError(
            f"{host}:{port} can't be listened on ({error.strerror or error})",
            "choose another --port or --host, or end the process that uses it",
        ) from error
    return listener


def leave(status: int) -> None:
    """End the process now.

    Threads that download or tokenize can't be interrupted; waiting for them would break the
    promise to be gone in time. The engine process ends by itself once its parent is gone.
    """
    logging.shutdown()
    os._exit(status)


def _web_config(state: ServerState) -> uvicorn.Config:
    return uvicorn.Config(
        CloseWhenDraining(build_app(state), state),
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=2048,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=CONNECTIONS_TIMEOUT_S,
    )
