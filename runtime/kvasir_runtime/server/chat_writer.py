"""The answers of /v1/chat/completions."""

from __future__ import annotations

from typing import Any

from kvasir_runtime.messages import OutputDelta
from kvasir_runtime.server.generation import Usage
from kvasir_runtime.server.logprobs import chat_logprobs
from kvasir_runtime.server.writer import Answered, Choice, Writer
from kvasir_runtime.tokenizer import Tokenizer


class ChatWriter(Writer):
    """Writes an assistant's message; a stream begins with its role and ends with its reason."""

    whole_object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def __init__(self, answered: Answered, tokenizer: Tokenizer) -> None:
        """Remember which choices have begun."""
        super().__init__(answered, tokenizer)
        self._begun: set[int] = set()

    def choice(self, number: int, choice: Choice) -> dict[str, Any]:
        """Return one choice of a whole answer."""
        wanted = self.answered.logprobs
        return {
            "index": number,
            "message": {"role": "assistant", "content": choice.text, "refusal": None},
            "logprobs": chat_logprobs(self.tokenizer, choice.logprobs) if wanted else None,
            "finish_reason": choice.finish_reason,
            "stop_reason": choice.stop_reason,
        }

    def events(self, number: int, delta: OutputDelta, usage: Usage) -> bytes:
        """Return the role, the text and the reason, each in a chunk of its own, as they come."""
        events = b""
        if number not in self._begun:
            self._begun.add(number)
            events += self._chunk(number, {"role": "assistant", "content": ""}, usage)
        logprobs = None
        if self.answered.logprobs and delta.logprobs:
            logprobs = chat_logprobs(self.tokenizer, delta.logprobs)
        if delta.text or logprobs:
            events += self._chunk(number, {"content": delta.text}, usage, {"logprobs": logprobs})
        if delta.finish_reason:
            ended = {"finish_reason": delta.finish_reason, "stop_reason": delta.stop_reason}
            events += self._chunk(number, {}, usage, ended)
        return events

    def _chunk(
        self,
        number: int,
        delta: dict[str, Any],
        usage: Usage,
        more: dict[str, Any] | None = None,
    ) -> bytes:
        base = {"index": number, "delta": delta, "logprobs": None, "finish_reason": None}
        return self.chunk(base | (more or {}), usage)
