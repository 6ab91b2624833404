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
from support.real_shapes import SHAPES, prompts, save_checkpoint
from support.teacher_forcing import teacher_forced

pytestmark = pytest.mark.gpu

BOUNDS = {"bfloat16": (0.85, 0.25), "float16": (0.95, 0.05)}  # top-1 agreement, |Δlogprob|


@pytest.fixture(scope="module", params=SHAPES)
def folder(request, tmp_path_factory):
    """A checkpoint of two layers with the family's own head shapes."""
    return save_checkpoint(request.param, tmp_path_factory.mktemp(request.param))


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
