"""One sequence inside the engine: its tokens, its blocks, and how far it has been computed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import torch

from kvasir_runtime.messages import FinishReason, NewRequest, Timings
from kvasir_runtime.sampling_params import SamplingParams


class TokenMask(Protocol):
    """Says which tokens may come next, for grammars and the like."""

    def allowed(self, generated: list[int]) -> torch.Tensor | None:
        """Return bool [vocab] after these generated tokens, on the CPU; None allows all."""
        ...


@dataclass(slots=True, eq=False)
class Sequence:
    """A sequence being generated.

    `token_ids` is the prompt, then what was generated and is known. A token that a step in flight
    is sampling is *pending*: it has a place and no value yet. The first `num_computed` tokens have
    their keys and values in the KV cache, or will have when the steps in flight are done; they lie
    at the slots of `blocks`, or of `host_blocks` while the sequence is swapped out.

    `block_hashes` names the full blocks of known tokens from the start, each by all tokens up to
    its end; the first `num_published` are known to the prefix cache. `num_cached` tokens came from
    that cache when the request first ran. `slot` is the sequence's row in the runner's state while
    it runs. A sequence with a `leader` is one of several completions of one prompt, and shares the
    leader's blocks.
    """

    request_id: str
    params: SamplingParams
    token_ids: list[int]
    num_prompt: int
    seed: int
    max_len: int
    arrived_s: float
    priority: int = 0
    leader: Sequence | None = None
    token_mask: TokenMask | None = None
    num_pending: int = 0
    num_computed: int = 0
    num_cached: int = 0
    num_published: int = 0
    num_prompt_scored: int = 0
    slot: int = -1
    blocks: list[int] = field(default_factory=list)
    host_blocks: list[int] = field(default_factory=list)
    block_hashes: list[bytes] = field(default_factory=list)
    scheduled_s: float | None = None
    first_token_s: float | None = None
    finish_reason: FinishReason | None = None
    stop_reason: int | str | None = None

    @classmethod
    def from_request(cls, request: NewRequest, *, max_model_len: int, seed: int) -> Sequence:
        """Start a sequence; `seed` is used where the request brings none."""
        params = request.params
        prompt = len(request.prompt_token_ids)
        limit = max_model_len if params.max_tokens is None else prompt + params.max_tokens
        return cls(
            request_id=request.request_id,
            params=params,
            token_ids=list(request.prompt_token_ids),
            num_prompt=prompt,
            seed=seed if params.seed is None else params.seed,
            max_len=min(limit, max_model_len),
            arrived_s=request.arrived_s,
            priority=request.priority,
        )

    @property
    def num_tokens(self) -> int:
        """Return the sequence's length, the pending token included."""
        return len(self.token_ids) + self.num_pending

    @property
    def num_uncomputed(self) -> int:
        """Return how many tokens still need their keys and values: 1 while decoding."""
        return self.num_tokens - self.num_computed

    @property
    def num_generated(self) -> int:
        """Return how many generated tokens are known."""
        return len(self.token_ids) - self.num_prompt

    @property
    def needs_known_tokens(self) -> bool:
        """Whether the next token can't be chosen while the last one is pending."""
        return self.token_mask is not None or bool(self.params.bad_word_ids)

    @property
    def is_full(self) -> bool:
        """Whether it reaches its length, once pending tokens are known."""
        return self.num_tokens >= self.max_len

    def append(self, token_id: int, eos_token_ids: frozenset[int], now_s: float) -> None:
        """Learn the pending token, and end the sequence where it or the length says so."""
        self.num_pending -= 1
        self.token_ids.append(token_id)
        if self.first_token_s is None:
            self.first_token_s = now_s
        if self.num_generated >= self.params.min_tokens:
            if token_id in self.params.stop_ids:
                self.finish_reason, self.stop_reason = "stop", token_id
            elif token_id in eos_token_ids and not self.params.ignore_eos:
                self.finish_reason = "stop"
        if self.finish_reason is None and len(self.token_ids) >= self.max_len:
            self.finish_reason = "length"

    def timings(self, now_s: float) -> Timings:
        """Return when the sequence reached each point, its last token being now."""
        return Timings(self.arrived_s, self.scheduled_s, self.first_token_s, now_s)
