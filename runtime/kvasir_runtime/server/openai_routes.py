"""OpenAI's API: /v1/models, /v1/completions and /v1/chat/completions."""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response

from kvasir_runtime.server.body import read_body
from kvasir_runtime.server.chat_request import ChatRequest
from kvasir_runtime.server.chat_writer import ChatWriter
from kvasir_runtime.server.completion_request import CompletionRequest
from kvasir_runtime.server.completion_writer import CompletionWriter
from kvasir_runtime.server.errors import UnauthorizedError, UnknownModelError
from kvasir_runtime.server.fields import SamplingFields
from kvasir_runtime.server.generation import Generation, with_default_length
from kvasir_runtime.server.params import sampling_params
from kvasir_runtime.server.prompts import encode_chat, encode_prompts
from kvasir_runtime.server.reply import EventStream, Reply
from kvasir_runtime.server.running import RequestScope
from kvasir_runtime.server.state import Loaded, ServerState
from kvasir_runtime.server.writer import Answered, Choice, Writer
from kvasir_runtime.tokenizer import Tokenizer

RequestT = TypeVar("RequestT", bound=SamplingFields)


@dataclass(frozen=True, slots=True)
class Endpoint(Generic[RequestT]):
    """What the two completion endpoints differ in."""

    id_prefix: str
    body: type[RequestT]
    encode: Callable[[RequestT, Tokenizer, int], Awaitable[list[list[int]]]]
    writer: type[Writer]
    short_by_default: bool


COMPLETIONS = Endpoint("cmpl", CompletionRequest, encode_prompts, CompletionWriter, True)
CHAT = Endpoint("chatcmpl", ChatRequest, encode_chat, ChatWriter, False)


def openai_routes(state: ServerState) -> APIRouter:
    """Return the /v1 routes; all want a key where the server has any."""
    guard = Depends(partial(require_key, state.config.api_key))
    routes = APIRouter(prefix="/v1", tags=["openai"], dependencies=[guard])

    @routes.get("/models")
    async def models() -> dict[str, Any]:
        loaded = state.require_loaded()
        return {"object": "list", "data": [_card(state, loaded, name) for name in state.names]}

    @routes.get("/models/{name:path}")
    async def model(name: str) -> dict[str, Any]:
        loaded = state.require_loaded()
        return _card(state, loaded, served_name(state, name))

    @routes.post("/completions")
    async def completions(request: Request) -> Response:
        return await answer(state, COMPLETIONS, request)

    @routes.post("/chat/completions")
    async def chat_completions(request: Request) -> Response:
        return await answer(state, CHAT, request)

    return routes


async def require_key(keys: tuple[str, ...], request: Request) -> None:
    """Raise UnauthorizedError unless the request carries one of `keys`; no keys, no lock."""
    if not keys:
        return
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    sent = given.strip().encode()
    matches = [secrets.compare_digest(sent, key.encode()) for key in keys]
    if scheme.lower() != "bearer" or not any(matches):
        raise UnauthorizedError(
            "the API key is missing or wrong", "send `Authorization: Bearer KEY`"
        )


def served_name(state: ServerState, name: str | None) -> str:
    """Return the name to answer under: the one asked for, or the first where none was."""
    if name is None:
        return state.names[0]
    if name not in state.names:
        raise UnknownModelError(
            f"the model {name[:200]!r} is not served here",
            f"this server has {', '.join(state.names)}",
            "model",
        )
    return name


async def answer(state: ServerState, endpoint: Endpoint[RequestT], request: Request) -> Response:
    """Check a request and return the response that will generate its answer."""
    arrived_s = time.monotonic()
    state.require_loaded()
    body = await read_body(request, endpoint.body)
    body.check_fields()
    model = served_name(state, body.model)

    async def make(scope: RequestScope) -> Response:
        loaded = state.require_loaded()
        params = sampling_params(body, loaded.sampling_defaults).tokenized(
            partial(loaded.tokenizer.encode, add_special_tokens=False)
        )
        longest = loaded.model.max_model_len
        prompts = await endpoint.encode(body, loaded.tokenizer, longest)
        if endpoint.short_by_default:
            params = with_default_length(params, prompts, longest)
        answered = _answered(f"{endpoint.id_prefix}-{uuid.uuid4().hex}", model, body)
        generation = Generation(loaded, answered.request_id, prompts, params, arrived_s)
        writer = endpoint.writer(answered, loaded.tokenizer)
        if body.stream:
            return EventStream(_events(generation, writer), scope)
        return JSONResponse(await _whole(generation, writer))

    return Reply(state.running, make)


async def _whole(generation: Generation, writer: Writer) -> dict[str, Any]:
    choices = [Choice() for _ in range(generation.num_choices)]
    async with aclosing(generation.deltas()) as deltas:
        async for number, delta in deltas:
            choices[number].add(delta)
    return writer.whole(choices, generation.usage)


async def _events(generation: Generation, writer: Writer) -> AsyncGenerator[bytes, None]:
    async with aclosing(generation.deltas()) as deltas:
        async for number, delta in deltas:
            if events := writer.events(number, delta, generation.usage):
                yield events
    if writer.answered.include_usage:
        yield writer.chunk(None, generation.usage)


def _answered(request_id: str, model: str, body: SamplingFields) -> Answered:
    options = body.stream_options
    continuous = bool(options and options.continuous_usage_stats)
    return Answered(
        request_id=request_id,
        model=model,
        logprobs=body.num_logprobs() is not None,
        include_usage=bool(options and options.include_usage),
        continuous_usage=continuous,
    )


def _card(state: ServerState, loaded: Loaded, name: str) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": state.created,
        "owned_by": "kvasir",
        "root": state.engine_config.model,
        "parent": None,
        "max_model_len": loaded.model.max_model_len,
    }
