"""What passes between the front (tokenizer, HTTP, LLM) and the engine, in both directions.

Plain frozen values: they cross a process border by pickle, so nothing here holds a tensor, a lock
or a callback. Times are `time.monotonic()` seconds, one clock for all processes of a machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kvasir_runtime.sampling_params import SamplingParams

FinishReason = Literal["stop", "length", "abort", "error"]


# front → engine


@dataclass(frozen=True, slots=True)
class NewRequest:
    """One sequence to generate.

    Smaller `priority` runs earlier under that policy. A request with a `leader_id` has the same
    prompt as that one, sent before it, and shares its blocks.
    """

    request_id: str
    prompt_token_ids: tuple[int, ...]
    params: SamplingParams
    arrived_s: float
    priority: int = 0
    leader_id: str | None = None


@dataclass(frozen=True, slots=True)
class AbortRequests:
    """Forget these requests and free their blocks before the next step."""

    request_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shutdown:
    """End the engine process."""


FrontMessage = NewRequest | AbortRequests | Shutdown


# engine → front


@dataclass(frozen=True, slots=True)
class Progress:
    """How far start-up is: a stage's name and its share done, in percent."""

    stage: str
    percent: int


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What the loaded engine is, once it can serve."""

    architecture: str
    dtype: str
    vocab_size: int
    max_model_len: int
    eos_token_ids: tuple[int, ...]
    block_size: int
    num_gpu_blocks: int
    num_cpu_blocks: int
    max_num_seqs: int
    max_num_batched_tokens: int


@dataclass(frozen=True, slots=True)
class EngineReady:
    """Start-up is over; requests are served from now on."""

    model: ModelInfo


@dataclass(frozen=True, slots=True)
class EngineFailed:
    """The engine process is about to end, and why."""

    reason: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """One position's log-probabilities: the chosen token's, and the most likely ones."""

    token_id: int
    logprob: float
    rank: int
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Timings:
    """When one request reached each point of its life; None where it didn't."""

    arrived_s: float
    scheduled_s: float | None = None
    first_token_s: float | None = None
    last_token_s: float | None = None


@dataclass(frozen=True, slots=True)
class TokenOutput:
    """The tokens one step gave one request; the last one carries why it ended.

    `prompt_logprobs` describe the next prompt tokens, from the second one on.
    """

    request_id: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprobs, ...] = ()
    prompt_logprobs: tuple[TokenLogprobs, ...] = ()
    finish_reason: FinishReason | None = None
    stop_reason: int | str | None = None
    num_cached_tokens: int = 0
    timings: Timings | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Stats:
    """The engine's figures after a step. Counters only grow; the rest are gauges."""

    running: int = 0
    waiting: int = 0
    swapped: int = 0
    gpu_blocks_used: int = 0
    gpu_blocks_total: int = 0
    cpu_blocks_used: int = 0
    cpu_blocks_total: int = 0
    prompt_tokens_total: int = 0
    generation_tokens_total: int = 0
    preemptions_total: int = 0
    swaps_total: int = 0
    prefix_cache_queries_total: int = 0
    prefix_cache_hits_total: int = 0
    steps_total: int = 0
    late_kernels_total: int = 0  # compiled, or loaded from disk, while serving


@dataclass(frozen=True, slots=True)
class StepOutputs:
    """Everything one step produced; sent empty, as a heartbeat, while the engine idles."""

    outputs: tuple[TokenOutput, ...] = ()
    stats: Stats = field(default_factory=Stats)


EngineMessage = Progress | EngineReady | EngineFailed | StepOutputs


# front → user


@dataclass(frozen=True, slots=True)
class OutputDelta:
    """What one completion of a request gained: text that is final, and its tokens.

    `text` never ends inside a UTF-8 character, and never holds what might still turn out to be
    the beginning of a stop string. `token_ids` may be ahead of `text`.
    """

    index: int
    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprobs, ...] = ()
    prompt_logprobs: tuple[TokenLogprobs, ...] = ()
    finish_reason: FinishReason | None = None
    stop_reason: int | str | None = None
    num_cached_tokens: int = 0
    timings: Timings | None = None
    error: str | None = None
