"""The answers of /v1/completions."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from kvasir_runtime.messages import OutputDelta
from kvasir_runtime.server.generation import Usage
from kvasir_runtime.server.logprobs import CompletionLogprobs
from kvasir_runtime.server.writer import Answered, Choice, Writer
from kvasir_runtime.tokenizer import Tokenizer


class CompletionWriter(Writer):
    """Writes text completions; whole answers and chunks have the same shape."""

    whole_object = chunk_object = "text_completion"

    def __init__(self, answered: Answered, tokenizer: Tokenizer) -> None:
        """Keep a text position for each choice."""
        super().__init__(answered, tokenizer)
        self._logprobs = defaultdict[int, CompletionLogprobs](lambda: CompletionLogprobs(tokenizer))

    def choice(self, number: int, choice: Choice) -> dict[str, Any]:
        """Return one choice of a whole answer."""
        wanted = self.answered.logprobs
        return {
            "index": number,
            "text": choice.text,
            "logprobs": self._logprobs[number].body(choice.logprobs) if wanted else None,
            "finish_reason": choice.finish_reason,
            "stop_reason": choice.stop_reason,
        }

    def events(self, number: int, delta: OutputDelta, usage: Usage) -> bytes:
        """Return the delta as a chunk."""
        if not (delta.text or delta.finish_reason or (self.answered.logprobs and delta.logprobs)):
            return b""
        news = Choice([delta.text], list(delta.logprobs), delta.finish_reason, delta.stop_reason)
        return self.chunk(self.choice(number, news), usage)
