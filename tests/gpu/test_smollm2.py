"""SmolLM2's real weights in sixteen bits on a GPU, against transformers on the same weights."""

from __future__ import annotations

import pytest
import torch
import transformers

from kvasir_runtime import LLM, SamplingParams
from support.teacher_forcing import teacher_forced

pytestmark = [pytest.mark.gpu, pytest.mark.model]

QUESTIONS = (
    "What is the capital of France?", "Why is the sky blue?", "Write a haiku about rain.",
    "List the planets of the solar system.", "Explain gravity to a child.",
    "Write a function that reverses a list.", "Who wrote Hamlet, and when?", "What is 7 times 8?",
)  # fmt: skip
BOUNDS = {"bfloat16": (0.95, 0.35), "float16": (0.98, 0.05)}  # top-1 agreement, |Δlogprob|


@pytest.mark.parametrize("eager", [True, False], ids=["eager", "graphs"])
@pytest.mark.parametrize("dtype", BOUNDS)
def test_scores_agree_with_transformers(demo_model, dtype, eager):
    llm = LLM(
        str(demo_model), dtype=dtype, enforce_eager=eager, gpu_memory_utilization=0.3,
        max_num_seqs=16, max_num_batched_tokens=512, use_tqdm=False,
    )  # fmt: skip
    chats = [[{"role": "user", "content": question}] for question in QUESTIONS]
    params = SamplingParams(temperature=0, max_tokens=64, logprobs=0)
    outputs = llm.chat(chats, params, use_tqdm=False)
    assert "Paris" in outputs[0].outputs[0].text
    reference = transformers.AutoModelForCausalLM.from_pretrained(
        demo_model, dtype=getattr(torch, dtype)
    ).cuda()
    agreement, worst = teacher_forced(reference, outputs)
    print(f"{dtype}: top-1 {agreement:.3f}, |dlogprob| {worst:.4f}")  # noqa: T201
    least, most = BOUNDS[dtype]
    assert agreement >= least
    assert worst <= most
