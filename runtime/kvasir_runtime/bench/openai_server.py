"""Any OpenAI-compatible server, as a target: streaming /v1/completions."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvasir_runtime.bench.latency import Answer
from kvasir_runtime.bench.workload import Prompt
from kvasir_runtime.errors import AnswerError, InvalidConfigError, MissingExtraError

if TYPE_CHECKING:
    import httpx


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """Where a server is, and what it wants to be told; without a model, the first it lists."""

    base_url: str
    model: str | None = None
    api_key: str | None = None
    ignore_eos: bool = True
    timeout_s: float = 600.0


class ServerTarget:
    """A server behind an HTTP client."""

    def __init__(self, client: httpx.AsyncClient, address: ServerAddress, model: str) -> None:
        """Use `client` for every request; `model` is the server's name of what answers."""
        self.model = model
        self._client, self._address = client, address

    async def ask(self, prompt: Prompt, output_len: int) -> Answer:
        """Return the answer; raises AnswerError for a status, a transport or a stream that fails.

        Its moments are those of the chunks with a choice; its tokens are those of the server's
        `usage`, or else the chunks.
        """
        stream, body = _Stream(), self._body(prompt, output_len)
        sent_s = time.perf_counter()
        with _naming_failures(self._address):
            async with self._client.stream("POST", "completions", json=body) as response:
                if response.status_code != 200:
                    raise _refused(response.status_code, await response.aread())
                async for line in response.aiter_lines():
                    stream.take(line, time.perf_counter())
        return stream.answer(sent_s)

    def _body(self, prompt: Prompt, output_len: int) -> dict[str, Any]:
        body = {
            "model": self.model,
            "prompt": prompt,
            "max_tokens": output_len,
            "temperature": 0.0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return body | ({"ignore_eos": True} if self._address.ignore_eos else {})


class _Stream:
    """A stream of server-sent events, read line by line."""

    def __init__(self) -> None:
        self._moments: list[float] = []
        self._usage: dict[str, Any] = {}
        self._done = False

    def take(self, line: str, now: float) -> None:
        """Take a line that came at `now`; raises AnswerError where it is an error."""
        data = line.removeprefix("data:").strip()
        if data == line.strip():
            return  # a comment, an event's name, or the empty line after each
        if data == "[DONE]":
            self._done = True
            return
        try:
            chunk = json.loads(data)
        except ValueError as error:
            raise AnswerError(f"the stream holds {data[:80]!r}", kind="NoJSON") from error
        if "error" in chunk:
            raise AnswerError(f"the stream ended with {chunk['error']}", kind="ErrorInStream")
        if chunk.get("choices"):
            self._moments.append(now)
        self._usage = chunk.get("usage") or self._usage

    def answer(self, sent_s: float) -> Answer:
        """Return what came, once the stream has ended."""
        if not self._done:
            raise AnswerError("the stream ended without [DONE]", kind="StreamCut")
        if not self._moments:
            raise AnswerError("the answer has no token", kind="NoTokens")
        tokens = self._usage.get("completion_tokens") or len(self._moments)
        return Answer(sent_s, tuple(self._moments), tokens, self._usage.get("prompt_tokens"))


@contextlib.asynccontextmanager
async def connected(address: ServerAddress) -> AsyncIterator[ServerTarget]:
    """Open a client without a bound on connections: the load decides how many there are.

    Raises MissingExtraError without httpx, InvalidConfigError for what is no URL, AnswerError where
    the server is asked for its model and doesn't say.
    """
    try:
        import httpx
    except ImportError as error:
        raise MissingExtraError(
            "--base-url needs httpx, which is not installed", "pip install 'kvasir[bench]'"
        ) from error
    try:
        client = httpx.AsyncClient(
            base_url=address.base_url,
            headers={"Authorization": f"Bearer {address.api_key}"} if address.api_key else {},
            timeout=address.timeout_s,
            limits=httpx.Limits(max_connections=None),
        )
    except httpx.InvalidURL as error:
        raise InvalidConfigError(
            f"--base-url is {address.base_url!r}: {error}", "write http://HOST:PORT/v1"
        ) from error
    async with client:
        model = address.model or await _first_model(client, address)
        yield ServerTarget(client, address, model)


async def _first_model(client: httpx.AsyncClient, address: ServerAddress) -> str:
    with _naming_failures(address):
        response = await client.get("models")
    if response.status_code != 200:
        raise _refused(response.status_code, response.content)
    try:
        return str(response.json()["data"][0]["id"])
    except (ValueError, LookupError, TypeError) as error:
        raise AnswerError(
            f"{address.base_url}/models names no model", "give --served-model-name"
        ) from error


@contextlib.contextmanager
def _naming_failures(address: ServerAddress) -> Iterator[None]:
    """Turn the client's errors into AnswerErrors of their kind."""
    import httpx

    try:
        yield
    except httpx.HTTPError as error:
        raise AnswerError(
            f"{address.base_url}: {type(error).__name__} {error}".rstrip(),
            "check --base-url, and the server's log",
            type(error).__name__,
        ) from error


def _refused(status: int, body: bytes) -> AnswerError:
    return AnswerError(
        f"the server answered {status}: {body[:300].decode(errors='replace')}",
        "401 wants --api-key; 404 another --served-model-name, or /v1 in --base-url",
        f"HTTP {status}",
    )
