"""One request inside the engine: its tokens, its blocks, and how far it has been computed."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvasir_runtime.messages import FinishReason, NewRequest, Timings, TokenOutput
from kvasir_runtime.sampling_params import SamplingParams


@dataclass(slots=True, eq=False)
class Sequence:
    """A sequence being generated.

    `token_ids` is the prompt, then what was generated. The first `num_computed` of them have their
    keys and values in the KV cache, at the slots of `blocks`. `block_hashes` names the full blocks
    from the start, each by all tokens up to its end; the first `num_published` are known to the
    prefix cache. `num_cached` tokens came from that cache when the request first ran.
    """

    request_id: str
    params: SamplingParams
    token_ids: list[int]
    num_prompt: int
    seed: int
    max_len: int
    arrived_s: float
    num_computed: int = 0
    num_cached: int = 0
    num_published: int = 0
    blocks: list[int] = field(default_factory=list)
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
        )

    @property
    def num_uncomputed(self) -> int:
        """Return how many tokens still need their keys and values: 1 while decoding."""
        return len(self.token_ids) - self.num_computed

    @property
    def num_generated(self) -> int:
        """Return how many tokens were generated so far."""
        return len(self.token_ids) - self.num_prompt

    def append(self, token_id: int, eos_token_ids: frozenset[int], now_s: float) -> None:
        """Add a generated token, and end the sequence where the token or the length says so."""
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

    def final_output(self, now_s: float, error: str | None = None) -> TokenOutput:
        """Return an output that ends the request without a new token."""
        return TokenOutput(
            self.request_id,
            (),
            finish_reason=self.finish_reason,
            timings=self.timings(now_s),
            error=error,
        )
