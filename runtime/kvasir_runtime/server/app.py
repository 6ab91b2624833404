"""The web application: every route, and every error in OpenAI's shape."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException

from kvasir_runtime.errors import KvasirError
from kvasir_runtime.server.errors import ClientGoneError, as_api_error, error_body
from kvasir_runtime.server.openai_routes import openai_routes
from kvasir_runtime.server.probes import probe_routes
from kvasir_runtime.server.state import ServerState

CLIENT_CLOSED_REQUEST = 499  # nginx's status for it; nobody is left to read it
HTTP_CODES = {404: "not_found", 405: "method_not_allowed"}


def build_app(state: ServerState) -> FastAPI:
    """Return the application that serves `state`."""
    app = FastAPI(title="Kvasir", version=version("kvasir"), redirect_slashes=False, redoc_url=None)
    app.include_router(probe_routes(state))
    app.include_router(openai_routes(state))

    @app.get("/metrics", tags=["probes"])
    async def metrics() -> Response:
        """Answer what Prometheus scrapes; nothing until the model is loaded."""
        text = state.loaded.metrics.exposition() if state.loaded else b""
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    _answer_errors(app)
    return app


def _answer_errors(app: FastAPI) -> None:
    @app.exception_handler(KvasirError)
    async def known(request: Request, error: KvasirError) -> Response:
        return as_api_error(error).response()

    @app.exception_handler(ClientGoneError)
    async def client_gone(request: Request, error: ClientGoneError) -> Response:
        return Response(status_code=CLIENT_CLOSED_REQUEST)

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        path, code = request.url.path, HTTP_CODES.get(error.status_code)
        message = {
            404: f"there is no {path}: see /docs for what there is",
            405: f"{path} takes no {request.method}: see /docs",
        }.get(error.status_code, str(error.detail))
        body = error_body(message, "invalid_request_error", code=code)
        return JSONResponse(body, error.status_code, error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return JSONResponse(error_body(str(error), "invalid_request_error"), 400)

    @app.exception_handler(Exception)
    async def unknown(request: Request, error: Exception) -> Response:
        body = error_body("the server failed: its log says more", "server_error")
        return JSONResponse(body, 500)
