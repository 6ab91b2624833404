"""What offline generation returns, with the names that vLLM's users know."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kvasir_runtime.messages import OutputDelta, TokenLogprobs

Decode = Callable[[list[int]], str]


@dataclass(frozen=True, slots=True)
class Logprob:
    """One token's log-probability at a position, its rank there (1 is the likeliest), its text."""

    logprob: float
    rank: int
    decoded_token: str


Position = dict[int, Logprob]


@dataclass(slots=True)
class CompletionOutput:
    """One completion.

    `logprobs` has a mapping from token id to Logprob for each token, where they were asked for:
    the chosen token's, and the likeliest ones.
    """

    index: int
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[Position] | None = None
    cumulative_logprob: float | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None

    def add(self, delta: OutputDelta, decode: Decode) -> None:
        """Append what a step brought."""
        self.text += delta.text
        self.token_ids.extend(delta.token_ids)
        if delta.logprobs:
            self.logprobs = [*(self.logprobs or ()), *describe(delta.logprobs, decode)]
            gained = sum(entry.logprob for entry in delta.logprobs)
            self.cumulative_logprob = (self.cumulative_logprob or 0.0) + gained
        self.finish_reason, self.stop_reason = delta.finish_reason, delta.stop_reason


@dataclass(slots=True)
class RequestOutput:
    """A prompt and its completions; `prompt_logprobs` begins with None, for the first token."""

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    prompt_logprobs: list[Position | None] | None = None
    finished: bool = False
    num_cached_tokens: int = 0

    def add(self, delta: OutputDelta, decode: Decode) -> None:
        """Take what a step brought to one of the completions, or to the prompt."""
        if delta.prompt_logprobs:
            known = self.prompt_logprobs or [None]
            self.prompt_logprobs = [*known, *describe(delta.prompt_logprobs, decode)]
        self.outputs[delta.index].add(delta, decode)
        self.num_cached_tokens = max(self.num_cached_tokens, delta.num_cached_tokens)
        self.finished = all(output.finish_reason for output in self.outputs)


def describe(entries: Iterable[TokenLogprobs], decode: Decode) -> list[Position]:
    """Return each position's log-probabilities by token id, the chosen token's first."""
    positions: list[Position] = []
    for entry in entries:
        position = {entry.token_id: Logprob(entry.logprob, entry.rank, decode([entry.token_id]))}
        for rank, (token, logprob) in enumerate(entry.top, 1):
            position.setdefault(token, Logprob(logprob, rank, decode([token])))
        positions.append(position)
    return positions
