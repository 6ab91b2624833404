"""How an answer leaves: a request's life as one ASGI response, and a stream of events.

An error before the first byte becomes a status; after it, an event in the stream.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from kvasir_runtime.errors import KvasirError
from kvasir_runtime.server.errors import ClientGoneError, as_api_error, error_body
from kvasir_runtime.server.running import RequestScope, RunningRequests
from kvasir_runtime.server.writer import DONE, event

logger = logging.getLogger(__name__)

STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class Reply(Response):
    """A response that is made, and sent, while its request counts as running."""

    def __init__(
        self, running: RunningRequests, make: Callable[[RequestScope], Awaitable[Response]]
    ) -> None:
        """Answer with what `make` returns."""
        super().__init__()
        self._running, self._make = running, make

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Make and send the response, unless the client leaves first."""
        try:
            async with self._running.enter(receive) as request_scope:
                response = await self._make(request_scope)
                await response(scope, receive, send)
        except ClientGoneError:
            logger.debug("A client left before its answer was whole")


class EventStream(Response):
    """Server-sent events; they begin once the first one is there, and always end."""

    def __init__(self, events: AsyncGenerator[bytes, None], request_scope: RequestScope) -> None:
        """Send what `events` yields."""
        super().__init__()
        self._events, self._request_scope = events, request_scope

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events, an error event where they end with one, and `[DONE]`."""
        async with aclosing(self._events) as events:
            first = await anext(events)
            await send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
            await _send(send, first)
            await _send(send, await self._rest(events, send) + DONE, last=True)

    async def _rest(self, events: AsyncGenerator[bytes, None], send: Send) -> bytes:
        """Send all further events; return the event that says why they ended, if they broke off."""
        try:
            with self._request_scope.explained():
                async for body in events:
                    await _send(send, body)
        except KvasirError as error:
            return event(as_api_error(error).body())
        except ClientGoneError:
            raise
        except Exception:
            logger.exception("A stream broke off")
            return event(error_body("the server failed", "server_error"))
        return b""


async def _send(send: Send, body: bytes, *, last: bool = False) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": not last})
