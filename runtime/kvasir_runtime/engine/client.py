"""The asyncio side of an engine process: requests out, deltas in, and what became of the engine."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import queue
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from kvasir_runtime import errors
from kvasir_runtime.config import EngineConfig
from kvasir_runtime.engine.detokenize import Decoder
from kvasir_runtime.engine.output import CompletionOutput, check_request, split
from kvasir_runtime.errors import EngineDiedError, EngineHungError, KvasirError
from kvasir_runtime.messages import (
    AbortRequests,
    EngineFailed,
    EngineMessage,
    EngineReady,
    FrontMessage,
    ModelInfo,
    OutputDelta,
    Progress,
    Shutdown,
    Stats,
    StepOutputs,
    TokenOutput,
)
from kvasir_runtime.sampling_params import SamplingParams

STOP_TIMEOUT_S = 10.0
WATCH_INTERVAL_S = 1.0


def _run_engine(
    connection: Connection, config: EngineConfig, folder: Path, setup_logging: Callable[[], None]
) -> None:
    """Run in the engine process; torch is imported there alone, so that the server stays small."""
    # Read once, when torch loads OpenMP. By default its threads spin while they wait for each
    # other, which on busy cores costs several times what it saves.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from kvasir_runtime.engine.process import run_engine

    run_engine(connection, config, folder, setup_logging)


def _no_setup() -> None:
    """Leave the engine process's logging as Python has it."""


class AsyncEngine:
    """An engine process as seen from an event loop; every method is called in that loop."""

    def __init__(
        self,
        config: EngineConfig,
        folder: Path,
        decoder: Decoder | None,
        *,
        step_timeout_s: float = 300.0,
        loading_timeout_s: float = 600.0,
        setup_logging: Callable[[], None] = _no_setup,
    ) -> None:
        """Prepare an engine for the model in `folder`; `start` starts it.

        `decoder` turns tokens into text. A step may last `step_timeout_s`, and loading may make no
        progress for `loading_timeout_s`. `setup_logging` runs in the engine process and must be
        picklable.
        """
        self.progress = Progress("start", 0)
        self.model: ModelInfo | None = None
        self.stats = Stats()
        self.failure: KvasirError | None = None
        self._config, self._folder, self._decoder = config, folder, decoder
        self._step_timeout_s, self._loading_timeout_s = step_timeout_s, loading_timeout_s
        self._setup_logging = setup_logging
        self._outgoing: queue.SimpleQueue[FrontMessage | None] = queue.SimpleQueue()
        self._streams: dict[str, asyncio.Queue[TokenOutput | KvasirError]] = {}
        self._callbacks: list[Callable[[KvasirError], None]] = []
        self._stopping = False
        self._last_message_s = time.monotonic()

    def start(self) -> None:
        """Spawn the process and the two threads that carry messages."""
        self._loop = asyncio.get_running_loop()
        self._settled, self._exited = asyncio.Event(), asyncio.Event()
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_run_engine,
            args=(theirs, self._config, self._folder, self._setup_logging),
            name="kvasir-engine",
            daemon=True,
        )
        self._process.start()
        theirs.close()
        self._last_message_s = time.monotonic()
        for target in (self._receive, self._send):
            threading.Thread(target=target, args=(self._connection,), daemon=True).start()
        self._watcher = asyncio.create_task(self._watch())

    async def wait_ready(self) -> ModelInfo:
        """Wait for the model; raises the StartupError or EngineError that prevented it."""
        await self._settled.wait()
        if self.failure is not None:
            raise self.failure
        if self.model is None:
            raise EngineDiedError("the engine was stopped while it loaded")
        return self.model

    def on_failure(self, callback: Callable[[KvasirError], None]) -> None:
        """Call back, once, when the engine fails, dies or hangs."""
        self._callbacks.append(callback)

    @property
    def last_step_age_s(self) -> float:
        """Return the seconds since the engine's last message; an idle one sends one each second."""
        return time.monotonic() - self._last_message_s

    @property
    def healthy(self) -> bool:
        """Whether the engine loads or steps, and within its bound."""
        return self.failure is None and self.last_step_age_s < self._silence_bound_s

    @property
    def _silence_bound_s(self) -> float:
        """Return how long the engine may send nothing before it counts as hung."""
        return self._loading_timeout_s if self.model is None else self._step_timeout_s

    @property
    def num_unfinished(self) -> int:
        """Return the engine requests that have not ended."""
        return len(self._streams)

    async def generate(
        self,
        prompt_token_ids: Sequence[int],
        params: SamplingParams,
        request_id: str,
        priority: int = 0,
    ) -> AsyncGenerator[OutputDelta, None]:
        """Yield what each completion gains, until all `n` have ended.

        Raises RequestError before anything is queued when the request can't be served, and the
        engine's failure when that comes first. Leaving the iterator early aborts the request.
        """
        if self.failure is not None:
            raise self.failure
        if self.model is None:
            raise EngineDiedError("the engine is not ready", "ask /ready first")
        check_request(prompt_token_ids, params, self.model)
        requests = split(request_id, prompt_token_ids, params, time.monotonic(), priority)
        completions = {
            request.request_id: CompletionOutput(index, prompt_token_ids, params, self._decoder)
            for index, request in enumerate(requests)
        }
        stream: asyncio.Queue[TokenOutput | KvasirError] = asyncio.Queue()
        try:
            for request in requests:
                self._streams[request.request_id] = stream
                self._outgoing.put(request)
            while completions:
                output = await stream.get()
                if isinstance(output, KvasirError):
                    raise output
                completion = completions.get(output.request_id)
                if completion is None:
                    continue
                delta = completion.push(output)
                if completion.finished:
                    del completions[output.request_id]
                    self._forget((output.request_id,), abort=output.finish_reason is None)
                yield delta
        finally:
            self._forget(tuple(completions), abort=True)

    async def stop(self) -> None:
        """End the process: asked first, killed when it doesn't answer. Running requests fail."""
        self._stopping = True
        self._fail_streams(EngineDiedError("the engine was stopped", "send the request again"))
        self._outgoing.put(Shutdown())
        self._outgoing.put(None)
        try:
            await asyncio.wait_for(self._exited.wait(), STOP_TIMEOUT_S)
        except TimeoutError:
            self._process.kill()
            await self._exited.wait()
        self._watcher.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._watcher
        self._settled.set()

    def _forget(self, request_ids: tuple[str, ...], *, abort: bool) -> None:
        for request_id in request_ids:
            self._streams.pop(request_id, None)
        if request_ids and abort and self.failure is None:
            self._outgoing.put(AbortRequests(request_ids))

    def _send(self, connection: Connection) -> None:
        """Carry messages to the process; a full pipe blocks this thread alone."""
        while (message := self._outgoing.get()) is not None:
            try:
                connection.send(message)
            except OSError:
                return  # the process is gone: the receiving thread says so

    def _receive(self, connection: Connection) -> None:
        """Carry messages from the process into the event loop, then say how it ended."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                self._in_loop(self._handle, connection.recv())
        # This thread alone waits for the process: two waits at once can miss its end.
        self._process.join()
        self._in_loop(self._ended, self._process.exitcode)
        self._outgoing.put(None)

    def _in_loop(self, function: Callable[..., None], argument: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self._loop.call_soon_threadsafe(function, argument)

    def _handle(self, message: EngineMessage) -> None:
        self._last_message_s = time.monotonic()
        if isinstance(message, StepOutputs):
            self.stats = message.stats
            for output in message.outputs:
                stream = self._streams.get(output.request_id)
                if stream is not None:
                    stream.put_nowait(output)
        elif isinstance(message, Progress):
            self.progress = message
        elif isinstance(message, EngineReady):
            self.model = message.model
            self.progress = Progress("ready", 100)
            self._settled.set()
        else:
            self._fail(_as_error(message))

    def _ended(self, exit_code: int | None) -> None:
        self._exited.set()
        if not self._stopping and self.failure is None:
            self._fail(EngineDiedError(*_explain_exit(exit_code)))

    def _fail(self, error: KvasirError) -> None:
        if self.failure is not None:
            return
        self.failure = error
        self._settled.set()
        self._fail_streams(error)
        for callback in self._callbacks:
            callback(error)

    def _fail_streams(self, error: KvasirError) -> None:
        for stream in set(self._streams.values()):
            stream.put_nowait(error)

    async def _watch(self) -> None:
        """End a process whose step, or whose loading, stands still."""
        while self.failure is None:
            await asyncio.sleep(WATCH_INTERVAL_S)
            if not self.healthy:
                self._fail(self._hung())
                self._process.kill()

    def _hung(self) -> EngineHungError:
        age, bound = f"{self.last_step_age_s:.0f} s", f"{self._silence_bound_s:.0f} s"
        if self.model is None:
            return EngineHungError(
                f"loading made no progress for {age} in {self.progress.stage!r}, bound {bound}",
                "the storage or the device may have failed",
            )
        return EngineHungError(
            f"a step has run for {age}, its bound is {bound}",
            "the device may have failed; raise --step-timeout-seconds if it is only slow",
        )


def _as_error(message: EngineFailed) -> KvasirError:
    """Return the exception the engine process raised, as its own type."""
    kinds: list[type[KvasirError]] = [errors.StartupError, errors.EngineError]
    for kind in kinds:
        kinds.extend(kind.__subclasses__())
        if kind.reason == message.reason:
            return kind(message.message, message.hint)
    return EngineDiedError(message.message, message.hint)


def _explain_exit(exit_code: int | None) -> tuple[str, str]:
    """Return what an exit code that nobody announced means, and what to do."""
    if exit_code == -9:
        return (
            "the engine process was killed (SIGKILL)",
            "most often memory ran out: raise resources.memory, or lower the KV cache",
        )
    if exit_code is not None and exit_code < 0:
        return f"the engine process died of signal {-exit_code}", "see the container's log"
    return f"the engine process ended with exit code {exit_code}", "see the container's log"
