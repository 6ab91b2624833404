"""How far another implementation's scores are from the engine's, on the engine's own tokens."""

from __future__ import annotations

from typing import Any

import torch

from kvasir_runtime.outputs import RequestOutput


def teacher_forced(reference: Any, outputs: list[RequestOutput]) -> tuple[float, float]:
    """The share of tokens that are the reference's likeliest too, and the largest |Δlogprob|.

    `reference` is a transformers model; `outputs` are greedy, with log-probabilities.
    """
    equal, worst, total = 0, 0.0, 0
    for output in outputs:
        prompt, completion = output.prompt_token_ids, output.outputs[0]
        ids = torch.tensor([prompt + completion.token_ids], device=reference.device)
        with torch.inference_mode():
            scores = reference(ids).logits[0, len(prompt) - 1 : -1].float().log_softmax(-1)
        for row, token, position in zip(
            scores, completion.token_ids, completion.logprobs or (), strict=True
        ):
            equal += int(row.argmax()) == token
            worst = max(worst, abs(float(row[token]) - position[token].logprob))
            total += 1
    return equal / total, worst
