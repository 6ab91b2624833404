"""Reads a request's JSON body into its pydantic model; anything wrong is one clear 400.

The content type is not looked at: `curl -d` sends a form's, and means JSON.
"""

from __future__ import annotations

from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from kvasir_runtime.server.errors import BadRequestError, BodyTooLargeError, ClientGoneError

MAX_BODY_BYTES = 32 * 1024**2

BodyT = TypeVar("BodyT", bound=BaseModel)


async def read_body(request: Request, kind: type[BodyT]) -> BodyT:
    """Return the checked body; raises BadRequestError, BodyTooLargeError or ClientGoneError."""
    raw = await _read_bytes(request)
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        raise _as_bad_request(error) from error


async def _read_bytes(request: Request) -> bytes:
    body = bytearray()
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            raise BodyTooLargeError(
                f"the request is larger than {MAX_BODY_BYTES:,} bytes", "send a shorter prompt"
            )
        if not message.get("more_body", False):
            return bytes(body)


def _as_bad_request(error: ValidationError) -> BadRequestError:
    """Say what is wrong with the first field at fault."""
    first = error.errors(include_url=False)[0]
    param = ".".join(str(part) for part in first["loc"]) or None
    if first["type"] == "json_invalid":
        return BadRequestError(f"the body is not valid JSON ({_reason(first)})", "correct it")
    if first["type"] == "missing":
        return BadRequestError(f"{param} is missing", "it is required", param)
    where = param or "the body"
    return BadRequestError(f"{where} is {_shown(first['input'])}", _reason(first), param)


def _reason(problem: Any) -> str:
    context = problem.get("ctx") or {}
    text = str(context.get("error") or problem["msg"])
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
