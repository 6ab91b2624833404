"""SmolLM2-135M-Instruct against transformers: 20 prompts, greedy, float32, batch 1 and 8."""

import pytest
import torch
import transformers

from kvasir_runtime import LLM, SamplingParams

pytestmark = pytest.mark.model

TOKENS = 24
QUESTIONS = [
    "What is the capital of France?", "Name three colours.", "Why is the sky blue?",
    "Write a haiku about rain.", "Translate 'good morning' into Spanish.", "What is 7 times 8?",
    "Who wrote Hamlet?", "List the planets.", "Explain gravity to a child.",
    "What is a prime number?",
]  # fmt: skip
TEXTS = [
    "Once upon a time", "The capital of Italy is", "def fibonacci(n):", "1, 2, 3, 4,",
    "In 1969, people first", "Water boils at", "Überraschung: ein Text", "日本の首都は",
    "The quick brown fox " * 20, "\n",
]  # fmt: skip


@pytest.fixture(scope="module")
def prompts(demo_model):
    tokenizer = transformers.AutoTokenizer.from_pretrained(demo_model)
    chats = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], add_generation_prompt=True, return_dict=False
        )
        for question in QUESTIONS
    ]
    return chats + [tokenizer.encode(text) for text in TEXTS]


@pytest.fixture(scope="module")
def expected(demo_model, prompts):
    model = transformers.AutoModelForCausalLM.from_pretrained(demo_model, dtype=torch.float32)
    outputs = []
    for ids in prompts:
        out = model.generate(
            torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long),
            max_new_tokens=TOKENS, do_sample=False,
        )  # fmt: skip
        outputs.append(out[0, len(ids) :].tolist())
    return outputs


@pytest.mark.parametrize("batch", [1, 8])
def test_greedy_tokens_equal_transformers_generate(demo_model, prompts, expected, batch):
    llm = LLM(str(demo_model), device="cpu", dtype="float32", kv_cache_gib=0.5, max_num_seqs=batch)
    params = SamplingParams(temperature=0, max_tokens=TOKENS)
    outputs = llm.generate(prompts, params, use_tqdm=False)
    assert len(outputs) == 20
    assert [out.outputs[0].token_ids for out in outputs] == expected
