"""What the HTTP door answers when a request can't be served, in OpenAI's shape.

    KvasirError
    └── ApiError                 a status, OpenAI's type and code, the field at fault
        ├── BadRequestError          400
        ├── UnauthorizedError        401
        ├── UnknownModelError        404
        ├── BodyTooLargeError        413
        ├── RequestFailedError       500: the engine gave this one request up
        └── NotServingError          503: loading, draining or failed
    ClientGoneError              nobody is left to answer

`as_api_error` turns what the engine raises into these.
"""

from __future__ import annotations

from typing import Any, ClassVar

from fastapi.responses import JSONResponse

from kvasir_runtime.errors import (
    InvalidParamsError,
    KvasirError,
    PromptTooLongError,
    RequestError,
)


class ApiError(KvasirError):
    """A request that gets an error for an answer."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"
    default_code: ClassVar[str | None] = None
    retry_after_s: ClassVar[int | None] = None

    def __init__(
        self, message: str, hint: str = "", param: str | None = None, code: str | None = None
    ) -> None:
        """Keep which field is at fault and OpenAI's code, where there is one."""
        super().__init__(message, hint)
        self.param = param
        self.code = code or self.default_code

    def body(self) -> dict[str, Any]:
        """Return OpenAI's error JSON."""
        return error_body(str(self), self.type, self.param, self.code)

    def response(self) -> JSONResponse:
        """Return the whole HTTP answer."""
        headers = {"Retry-After": str(self.retry_after_s)} if self.retry_after_s else {}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return JSONResponse(self.body(), self.status, headers)


class BadRequestError(ApiError):
    """The request is wrong, and `param` says where."""

    status = 400
    type = "invalid_request_error"


class UnauthorizedError(ApiError):
    """The API key is missing or wrong."""

    status = 401
    type = "invalid_request_error"
    default_code = "invalid_api_key"


class UnknownModelError(ApiError):
    """The request names a model that isn't served here."""

    status = 404
    type = "invalid_request_error"
    default_code = "model_not_found"


class BodyTooLargeError(ApiError):
    """The request is larger than any prompt could be."""

    status = 413
    type = "invalid_request_error"
    default_code = "request_too_large"


class RequestFailedError(ApiError):
    """The engine gave up on this request; others go on."""

    default_code = "request_failed"


class NotServingError(ApiError):
    """No request can be served now: the model loads, the server drains, or the engine failed."""

    status = 503
    type = "service_unavailable"
    retry_after_s = 5


class ClientGoneError(Exception):
    """The client closed its connection before the answer was whole."""


def error_body(
    message: str, kind: str, param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """Return OpenAI's error JSON; all four keys are always there."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def as_api_error(error: KvasirError) -> ApiError:
    """Return what the client is told about `error`."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, PromptTooLongError):
        return BadRequestError(error.message, error.hint, "prompt", code="context_length_exceeded")
    if isinstance(error, RequestError):
        param = error.param if isinstance(error, InvalidParamsError) else None
        return BadRequestError(error.message, error.hint, param)
    return NotServingError(
        f"the engine has stopped ({error.message})", "try again shortly", code="engine_failed"
    )
