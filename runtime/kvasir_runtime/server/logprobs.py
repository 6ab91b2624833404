"""Log-probabilities in the two shapes that OpenAI gives them, for completions and for chats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvasir_runtime.messages import TokenLogprobs
from kvasir_runtime.tokenizer import Tokenizer

LOWEST = -9999.0  # JSON has no -inf


class CompletionLogprobs:
    """Writes a completion's log-probabilities, keeping count of where each token's text begins."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Begin at the text's start."""
        self._tokenizer = tokenizer
        self._offset = 0

    def body(self, entries: Sequence[TokenLogprobs]) -> dict[str, Any]:
        """Return the object for the next tokens; the chosen token is always among the best."""
        text = self._tokenizer.token_text
        tokens = [text(entry.token_id) for entry in entries]
        offsets = []
        for token in tokens:
            offsets.append(self._offset)
            self._offset += len(token)
        return {
            "tokens": tokens,
            "token_logprobs": [_finite(entry.logprob) for entry in entries],
            "top_logprobs": [
                {text(token_id): _finite(value) for token_id, value in entry.top}
                | {text(entry.token_id): _finite(entry.logprob)}
                for entry in entries
            ],
            "text_offset": offsets,
        }


def chat_logprobs(tokenizer: Tokenizer, entries: Sequence[TokenLogprobs]) -> dict[str, Any]:
    """Return a chat choice's `logprobs` object."""
    return {
        "content": [
            _token(tokenizer, entry.token_id, entry.logprob)
            | {"top_logprobs": [_token(tokenizer, *best) for best in entry.top]}
            for entry in entries
        ],
        "refusal": None,
    }


def _token(tokenizer: Tokenizer, token_id: int, logprob: float) -> dict[str, Any]:
    raw = tokenizer.token_bytes(token_id)
    return {
        "token": raw.decode("utf-8", errors="replace"),
        "logprob": _finite(logprob),
        "bytes": list(raw),
    }


def _finite(logprob: float) -> float:
    return max(logprob, LOWEST)
