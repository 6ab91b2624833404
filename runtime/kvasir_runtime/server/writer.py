"""What an answer looks like on the wire, whole or as a stream of events; the endpoints fill it in.

Enters: the deltas of a generation. Leaves: OpenAI's JSON, or server-sent events of it.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

from kvasir_runtime.messages import OutputDelta, TokenLogprobs
from kvasir_runtime.server.generation import Usage
from kvasir_runtime.tokenizer import Tokenizer

DONE = b"data: [DONE]\n\n"

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def event(body: dict[str, Any]) -> bytes:
    """Return one server-sent event."""
    return f"data: {_encode(body)}\n\n".encode("utf-8", errors="replace")


@dataclass(slots=True)
class Choice:
    """One choice of an answer that is sent whole."""

    texts: list[str] = field(default_factory=list)
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    finish_reason: str | None = None
    stop_reason: int | str | None = None

    def add(self, delta: OutputDelta) -> None:
        """Take what the choice gained."""
        self.texts.append(delta.text)
        self.logprobs.extend(delta.logprobs)
        self.finish_reason, self.stop_reason = delta.finish_reason, delta.stop_reason

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.texts)


@dataclass(frozen=True, slots=True)
class Answered:
    """What is being answered: names that every chunk repeats, and what the client asked to see."""

    request_id: str
    model: str
    logprobs: bool
    include_usage: bool
    continuous_usage: bool


class Writer(ABC):
    """Writes one request's answer."""

    whole_object: ClassVar[str]
    chunk_object: ClassVar[str]

    def __init__(self, answered: Answered, tokenizer: Tokenizer) -> None:
        """Prepare the part that all chunks share."""
        self.answered, self.tokenizer = answered, tokenizer
        self._created = int(time.time())
        head = _encode(self._frame(self.chunk_object))
        self._chunk_head = f'data: {head[:-1]},"choices":['

    def _frame(self, kind: str) -> dict[str, Any]:
        return {
            "id": self.answered.request_id,
            "object": kind,
            "created": self._created,
            "model": self.answered.model,
        }

    def chunk(self, choice: dict[str, Any] | None, usage: Usage) -> bytes:
        """Return one event: a choice's news, or with None the usage that ends a stream."""
        shown = ""
        if choice is None or self.answered.continuous_usage:
            shown = f',"usage":{_encode(usage.body())}'
        elif self.answered.include_usage:
            shown = ',"usage":null'
        body = "" if choice is None else _encode(choice)
        return f"{self._chunk_head}{body}]{shown}}}\n\n".encode("utf-8", errors="replace")

    def whole(self, choices: list[Choice], usage: Usage) -> dict[str, Any]:
        """Return the JSON of a whole answer."""
        return self._frame(self.whole_object) | {
            "choices": [self.choice(number, choice) for number, choice in enumerate(choices)],
            "usage": usage.body(),
            "system_fingerprint": None,
        }

    @abstractmethod
    def choice(self, number: int, choice: Choice) -> dict[str, Any]:
        """Return one choice of a whole answer."""

    @abstractmethod
    def events(self, number: int, delta: OutputDelta, usage: Usage) -> bytes:
        """Return the events that a delta makes; none where there is nothing to show yet."""
