"""The requests being answered now: counted, ended when their client leaves, cut when time is up.

A request's whole life happens inside `RunningRequests.enter`. Its task is cancelled when the client
closes the connection or when the server cuts it; `RequestScope.explained` turns that cancellation
into the error that says which. Everything the request holds (an engine's iterator above all) is
freed by ordinary unwinding.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from starlette.types import Receive

from kvasir_runtime.server.errors import ApiError, ClientGoneError


class RequestScope:
    """One request's task, and why it was ended early, if it was."""

    def __init__(self, task: asyncio.Task[object]) -> None:
        """Watch over `task`, the one that answers the request."""
        self._task = task
        self._reason: ApiError | ClientGoneError | None = None

    def end(self, reason: ApiError | ClientGoneError) -> None:
        """Stop answering; the first reason counts."""
        if self._reason is None and not self._task.done():
            self._reason = reason
            self._task.cancel()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise the reason where the block ended because of `end`, instead of CancelledError."""
        try:
            yield
        except asyncio.CancelledError:
            if self._reason is None or self._task.uncancel() > 0:
                raise
            raise self._reason from None

    async def watch(self, receive: Receive) -> None:
        """End the request as soon as its client is gone."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self.end(ClientGoneError())


class RunningRequests:
    """Every request between its arrival and the last byte of its answer."""

    def __init__(self) -> None:
        """Begin with none."""
        self._scopes: set[RequestScope] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        """Return how many requests are being answered."""
        return len(self._scopes)

    @asynccontextmanager
    async def enter(self, receive: Receive) -> AsyncIterator[RequestScope]:
        """Answer a request inside; its body must have been read from `receive` before."""
        task = asyncio.current_task()
        if task is None:  # pragma: no cover - coroutines run in tasks
            raise RuntimeError("a request is answered in a task")
        scope = RequestScope(task)
        self._scopes.add(scope)
        self._idle.clear()
        watcher = asyncio.create_task(scope.watch(receive))
        try:
            with scope.explained():
                yield scope
        finally:
            watcher.cancel()
            self._scopes.discard(scope)
            if not self._scopes:
                self._idle.set()

    async def wait_idle(self, timeout_s: float) -> bool:
        """Wait until no request is left; return False where that takes longer than `timeout_s`."""
        if not self._scopes:
            return True
        try:
            await asyncio.wait_for(self._idle.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    def cut_all(self, reason: ApiError) -> int:
        """End every request with `reason`; return how many there were."""
        scopes = list(self._scopes)
        for scope in scopes:
            scope.end(reason)
        return len(scopes)
