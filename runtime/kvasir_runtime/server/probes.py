"""/health, /ready, /live, /ping and /version: what the server says about itself.

`/ready` is for startup and readiness probes, `/live` for liveness; `/health` keeps the meaning that
vLLM users' manifests expect.
"""

from __future__ import annotations

import time
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from kvasir_runtime.server.state import ServerState


def probe_routes(state: ServerState) -> APIRouter:
    """Return the routes that report on `state`."""
    routes = APIRouter(tags=["probes"])

    @routes.get("/health")
    @routes.get("/ping")
    @routes.post("/ping")
    async def health() -> Response:
        """Answer 200 once the model is loaded and while the engine makes progress."""
        well = state.loaded is not None and state.healthy
        return Response(status_code=200) if well else _unavailable(state)

    @routes.get("/ready")
    async def ready() -> Response:
        """Answer 200 while new requests are welcome."""
        return JSONResponse(_report(state)) if state.ready else _unavailable(state)

    @routes.get("/live")
    async def live() -> Response:
        """Answer 503 only where a restart is the cure."""
        return Response(status_code=200) if state.healthy else _unavailable(state)

    @routes.get("/version")
    async def show_version() -> dict[str, str]:
        return {"version": version("kvasir")}

    return routes


def _unavailable(state: ServerState) -> JSONResponse:
    return JSONResponse(_report(state), 503)


def _report(state: ServerState) -> dict[str, Any]:
    """Return the stage, its percentage, and the seconds since the process started."""
    report: dict[str, Any] = {"stage": _stage(state), "percent": _percent(state)}
    report["seconds"] = round(time.monotonic() - state.started_s, 1)
    if state.failure is not None:
        failure = state.failure
        report |= {"reason": failure.reason, "message": failure.message, "hint": failure.hint}
    return report


def _stage(state: ServerState) -> str:
    if state.failure is not None:
        return "failed"
    if state.draining:
        return "draining"
    if state.loaded is None:
        return state.progress.stage
    return "ready" if state.healthy else "stalled"


def _percent(state: ServerState) -> int:
    return 100 if state.loaded is not None else state.progress.percent
