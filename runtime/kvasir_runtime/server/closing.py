"""Sends clients away from a server that drains: every answer ends its connection.

A kept-alive connection stays with the pod it was made to, however the Service's endpoints change;
its client would be refused until the pod is gone. A new connection reaches another pod.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kvasir_runtime.server.state import ServerState

CLOSE = (b"connection", b"close")


class CloseWhenDraining:
    """An ASGI application around another; adds `Connection: close` while the server drains."""

    def __init__(self, app: ASGIApp, state: ServerState) -> None:
        """Wrap `app`, whose server's state is `state`."""
        self._app, self._state = app, state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def send_closing(message: Message) -> None:
            if message["type"] == "http.response.start" and self._state.draining:
                message["headers"] = [*message.get("headers", ()), CLOSE]
            await send(message)

        await self._app(scope, receive, send_closing)
