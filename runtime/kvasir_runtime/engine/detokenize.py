"""From token ids to text, as they come: no broken characters, no half-seen stop strings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

REPLACEMENT = "\ufffd"  # what a decoder writes for bytes that are no whole character
CONTEXT_TOKENS = 6  # prompt tokens kept before the first generated one: spaces depend on them


class Decoder(Protocol):
    """The one thing needed of a tokenizer."""

    def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
        """Return the text of token ids."""
        ...


class IncrementalDetokenizer:
    """Turns a growing list of tokens into a growing text.

    A token's text depends on its neighbours, so the text of a short window is decoded with and
    without the new tokens, and the difference is what they add. It is held back while it ends in
    an incomplete UTF-8 character.
    """

    def __init__(
        self, decoder: Decoder, prompt: Sequence[int], *, skip_special_tokens: bool
    ) -> None:
        """Begin after `prompt`, whose text is not repeated."""
        self._decoder, self._skip = decoder, skip_special_tokens
        self._window = list(prompt[-CONTEXT_TOKENS:])
        self._read = len(self._window)  # tokens of the window whose text was given out

    def push(self, token_ids: Sequence[int], *, last: bool = False) -> str:
        """Return the text that `token_ids` complete; all that is left when they are the last."""
        self._window.extend(token_ids)
        known = self._decode(self._window[: self._read])
        text = self._decode(self._window)
        if not last and text.endswith(REPLACEMENT):
            return ""
        fresh = text[len(known) :]
        if fresh:
            self._window = self._window[self._read :]
            self._read = len(self._window)
        return fresh

    def _decode(self, ids: list[int]) -> str:
        return self._decoder.decode(ids, skip_special_tokens=self._skip)


class StopStrings:
    """Finds the first stop string in a text that comes in pieces."""

    def __init__(self, stops: Sequence[str], *, include: bool) -> None:
        """Look for any of `stops`; `include` keeps the one found at the end of the text."""
        self._stops, self._include = tuple(stops), include
        self._held = ""

    def push(self, text: str, *, last: bool = False) -> tuple[str, str | None]:
        """Return the text that is certain now, and the stop string that ended it, if one did."""
        if not self._stops:
            return text, None
        text = self._held + text
        found = [(text.find(stop), stop) for stop in self._stops if stop in text]
        if found:
            self._held = ""
            start, stop = min(found)
            return text[: start + len(stop) if self._include else start], stop
        keep = 0 if last else self._possible_beginning(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep], None

    def _possible_beginning(self, text: str) -> int:
        """Return the length of the longest end of `text` that a stop string begins with."""
        longest = min(len(text), max(len(stop) for stop in self._stops) - 1)
        for length in range(longest, 0, -1):
            if any(stop.startswith(text[-length:]) for stop in self._stops):
                return length
        return 0
