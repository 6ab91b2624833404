"""How the tokens of one request are chosen: the sampling parameters vLLM and OpenAI users know.

Enters: what a user wrote. Leaves: a frozen, checked value that the scheduler and sampler trust.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvasir_runtime.errors import InvalidParamsError

GREEDY_BELOW = 1e-5
MAX_LOGPROBS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """Parameters of one request; a wrong value raises InvalidParamsError.

    `temperature` 0 is greedy. `top_k` 0 or -1 considers every token. `max_tokens` None means
    as many as the model's length allows. `bad_words` are never completed; `tokenized` turns them
    into `bad_word_ids`. `stop` strings end the text before them; `logprobs` is
    the number of alternatives returned beside each chosen token.
    """

    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    stop: str | Sequence[str] | None = None
    stop_token_ids: Sequence[int] | None = None
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    logit_bias: Mapping[int, float] | None = None
    allowed_token_ids: Sequence[int] | None = None
    bad_words: Sequence[str] = ()
    bad_word_ids: tuple[tuple[int, ...], ...] = ()
    skip_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    stop_strings: tuple[str, ...] = field(init=False, default=())
    stop_ids: frozenset[int] = field(init=False, default=frozenset())

    def __post_init__(self) -> None:
        """Normalise the stops and check every range."""
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        object.__setattr__(self, "stop_strings", stop)
        object.__setattr__(self, "stop_ids", frozenset(self.stop_token_ids or ()))
        self._check_ranges()
        if self.allowed_token_ids is not None and not self.allowed_token_ids:
            raise InvalidParamsError(
                "allowed_token_ids is empty", "name at least one token", "allowed_token_ids"
            )
        if "" in self.bad_words:
            raise InvalidParamsError("bad_words holds an empty string", "remove it", "bad_words")
        for token, bias in (self.logit_bias or {}).items():
            _in_range(f"logit_bias of token {token}", bias, -100.0, 100.0, "logit_bias")
        if "" in stop:
            raise InvalidParamsError("stop holds an empty string", "remove it", "stop")
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise InvalidParamsError(
                f"min_tokens is {self.min_tokens} but max_tokens is {self.max_tokens}",
                "min_tokens can be at most max_tokens",
                "min_tokens",
            )

    def _check_ranges(self) -> None:
        _in_range("n", self.n, 1, 128)
        _in_range("temperature", self.temperature, 0.0, 100.0)
        _in_range("top_k", self.top_k, -1, None)
        _in_range("min_p", self.min_p, 0.0, 1.0)
        _in_range("presence_penalty", self.presence_penalty, -2.0, 2.0)
        _in_range("frequency_penalty", self.frequency_penalty, -2.0, 2.0)
        _in_range("max_tokens", self.max_tokens, 1, None)
        _in_range("min_tokens", self.min_tokens, 0, None)
        _in_range("logprobs", self.logprobs, 0, MAX_LOGPROBS)
        _in_range("prompt_logprobs", self.prompt_logprobs, 0, MAX_LOGPROBS)
        _in_range("seed", self.seed, -(2**63), 2**63 - 1)
        if not 0.0 < self.top_p <= 1.0:
            raise InvalidParamsError(
                f"top_p is {self.top_p}", "it must be above 0 and at most 1", "top_p"
            )
        if not 0.0 < self.repetition_penalty <= 100.0:
            raise InvalidParamsError(
                f"repetition_penalty is {self.repetition_penalty}",
                "it must be above 0 and at most 100; 1 leaves the scores as they are",
                "repetition_penalty",
            )

    def tokenized(self, encode: Callable[[str], Sequence[int]]) -> SamplingParams:
        """Return the parameters with their bad words as token ids, each with and without a space.

        `encode` adds no special tokens. A word in the middle of a text begins with the space before
        it, so both spellings are kept out.
        """
        if not self.bad_words:
            return self
        spelled = {tuple(encode(form)) for word in self.bad_words for form in (word, f" {word}")}
        ids = (*self.bad_word_ids, *sorted(ids for ids in spelled if ids))
        return dataclasses.replace(self, bad_words=(), bad_word_ids=ids)

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is always taken."""
        return self.temperature < GREEDY_BELOW

    @property
    def penalised(self) -> bool:
        """Whether earlier tokens change the scores."""
        return bool(
            self.presence_penalty or self.frequency_penalty or self.repetition_penalty != 1.0
        )


def _in_range(
    name: str, value: Any, low: float, high: float | None, param: str | None = None
) -> None:
    """Raise InvalidParamsError unless low <= value <= high; None passes, NaN doesn't."""
    if value is None or (value >= low and (high is None or value <= high)):
        return
    bounds = f"at least {low}" if high is None else f"between {low} and {high}"
    raise InvalidParamsError(f"{name} is {value}", f"it must be {bounds}", param or name)
