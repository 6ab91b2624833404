"""Sixteen bits on a GPU: the engine against transformers, on real head shapes and random weights.

Random weights make scores that lie close together, the hardest case for agreement: two right
implementations differ by the rounding of their dtype, and now and then in the likeliest token. The
bounds are a few times what transformers itself differs from float32 on the same weights.
"""

from __future__ import annotations

import gc

import pytest
import torch
import transformers

from kvasir_runtime import LLM, SamplingParams
from support.teacher_forcing import teacher_forced
from support.tiny_models import save_byte_tokenizer

pytestmark = pytest.mark.gpu

SHAPES = {
    "llama-2": (
        "Llama",
        {"hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 32},
    ),
    "llama-3": (
        "Llama",
        {"hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
         "rope_parameters": {
             "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
             "high_freq_factor": 4.0, "original_max_position_embeddings": 1024}},
    ),
    "mistral": (
        "Mistral",
        {"hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
         "sliding_window": 512},
    ),
    "qwen2.5": (
        "Qwen2",
        {"hidden_size": 3584, "num_attention_heads": 28, "num_key_value_heads": 4},
    ),
    "qwen3": (
        "Qwen3",
        {"hidden_size": 2560, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128},
    ),
    "smollm2": ("Llama", {"hidden_size": 576, "num_attention_heads": 9, "num_key_value_heads": 3}),
}  # fmt: skip
BOUNDS = {"bfloat16": (0.85, 0.25), "float16": (0.95, 0.05)}  # top-1 agreement, |Δlogprob|
PROMPTS = (5, 17, 300, 1500)


@pytest.fixture(scope="module", params=SHAPES)
def folder(request, tmp_path_factory):
    """A checkpoint of two layers with the family's own head shapes."""
    name, extra = SHAPES[request.param]
    config = getattr(transformers, f"{name}Config")(
        vocab_size=32000, intermediate_size=4096, num_hidden_layers=2,
        max_position_embeddings=4096, bos_token_id=1, eos_token_id=2, **extra,
    )  # fmt: skip
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp(request.param)
    getattr(transformers, f"{name}ForCausalLM")(config).save_pretrained(folder)
    save_byte_tokenizer(folder)
    return folder


def prompts():
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(0, 32000, (n,), generator=generator).tolist() for n in PROMPTS]


@pytest.mark.parametrize("eager", [True, False], ids=["eager", "graphs"])
@pytest.mark.parametrize("dtype", BOUNDS)
def test_scores_agree_with_transformers(folder, dtype, eager):
    llm = LLM(
        str(folder), dtype=dtype, enforce_eager=eager, gpu_memory_utilization=0.5,
        max_num_seqs=16, max_num_batched_tokens=512, use_tqdm=False,
    )  # fmt: skip
    blocks = llm.engine.blocks
    assert blocks.num_blocks > 32_768
    assert llm.engine.runner.pool.numel() > 2**31
    blocks._free.reverse()  # the last blocks of the pool come first: far addresses
    params = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True, logprobs=0)
    outputs = llm.generate(prompts(), params, use_tqdm=False)
    assert (llm.engine.runner.graphs is None) == eager
    llm.shutdown()
    gc.collect()
    torch.cuda.empty_cache()
    reference = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=getattr(torch, dtype)
    ).cuda()
    agreement, worst = teacher_forced(reference, outputs)
    print(f"{folder.name} {dtype}: top-1 {agreement:.3f}, |dlogprob| {worst:.4f}")  # noqa: T201
    least, most = BOUNDS[dtype]
    assert agreement >= least
    assert worst <= most
