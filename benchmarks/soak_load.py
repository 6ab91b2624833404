"""Random requests of every kind, for a soak: prompts, parameters, and when their client leaves."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lengths import chat_lengths

from kvasir_runtime.messages import ModelInfo
from kvasir_runtime.sampling_params import SamplingParams

LEAVING = 0.25  # share of the clients that leave before the end
PATIENCE_S = (0.0, 3.0)  # of those: from before the first step to somewhere in the answer
BEGINNINGS = 8  # prompts that others begin with
SHARING = 0.5  # share of the prompts that do


@dataclass(frozen=True, slots=True)
class SoakRequest:
    """A request; its client leaves after `patience_s`, None stays to the end."""

    prompt: list[int]
    params: SamplingParams
    patience_s: float | None


def soak_requests(model: ModelInfo, *, seed: int) -> Iterator[SoakRequest]:
    """Yield requests that `model` takes, without end; the same ones for the same seed."""
    source = random.Random(seed)
    longest = model.max_model_len // 2
    beginnings = [_tokens(source, model, longest // 4) for _ in range(BEGINNINGS)]
    while True:
        scale = min(1.0, longest / 2048)
        for prompt, output in chat_lengths(64, seed=source.getrandbits(32), scale=scale):
            own = _tokens(source, model, prompt)
            shared = source.choice(beginnings) if source.random() < SHARING else []
            patience = source.uniform(*PATIENCE_S) if source.random() < LEAVING else None
            params = _params(source, model, min(output, longest))
            yield SoakRequest((shared + own)[:longest], params, patience)


def _tokens(source: random.Random, model: ModelInfo, count: int) -> list[int]:
    return source.choices(range(model.vocab_size), k=max(1, count))


def _params(source: random.Random, model: ModelInfo, output: int) -> SamplingParams:
    """Draw parameters: how tokens are chosen, and now and then each thing that can be asked for."""
    asked: dict[str, Any] = source.choice([
        {"temperature": 0.0},
        {"temperature": source.uniform(0.1, 2.0)},
        {"temperature": 1.0, "top_p": source.uniform(0.1, 1.0)},
        {"temperature": 0.7, "top_k": source.randrange(1, 100), "top_p": 0.95},
        {"temperature": 1.5, "min_p": source.uniform(0.0, 0.5)},
    ])  # fmt: skip
    token = source.randrange(model.vocab_size)
    extras: list[dict[str, Any]] = [
        {"presence_penalty": 0.5, "frequency_penalty": 0.2, "repetition_penalty": 1.1},
        {"logit_bias": {token: source.uniform(-100, 100)}},
        {"bad_word_ids": ((token,), (token, token // 2))},
        {"allowed_token_ids": sorted(source.choices(range(model.vocab_size), k=50))},
        {"logprobs": source.randrange(21)},
        {"prompt_logprobs": source.randrange(3)},
        {"min_tokens": min(4, output)},
        {"stop_token_ids": [token]},
        {"seed": source.getrandbits(40)},
        {"ignore_eos": True},
        {"n": source.randrange(2, 5)},
    ]
    for extra in source.sample(extras, k=min(len(extras), math.floor(source.expovariate(0.7)))):
        asked |= extra
    return SamplingParams(max_tokens=output, **asked)
