"""An fp8 KV cache on a GPU: its own tokens, scored by other engines as one prompt.

The tokens come from the decode kernel, after prompts of all lengths. An engine in fp8 too reads the
same numbers by the mixed kernel, and differs by the rounding of bfloat16, which now and then tips
that of a number in the cache. One whose cache is in bfloat16 differs by what e4m3 costs. Random
weights make scores that lie close together, so both change the likeliest token more often than in
a trained model.
"""

from __future__ import annotations

import gc

import pytest
import torch

from kvasir_runtime import LLM, SamplingParams
from support.real_shapes import SHAPES, prompts, save_checkpoint

pytestmark = pytest.mark.gpu

# By the scoring engine's cache: top-1 agreement, |Δlogprob|. In float32 on a CPU the first is 1.00
# and 0.003 at most for these shapes, and the second, what e4m3 itself costs, down to 0.72 and 0.40.
BOUNDS = {"fp8": (0.8, 0.3), "auto": (0.55, 0.7)}
SETTINGS = {
    "dtype": "bfloat16", "gpu_memory_utilization": 0.5, "max_num_seqs": 16,
    "max_num_batched_tokens": 512, "use_tqdm": False,
}  # fmt: skip


@pytest.fixture(scope="module", params=SHAPES)
def folder(request, tmp_path_factory):
    """A checkpoint of two layers with the family's own head shapes."""
    return save_checkpoint(request.param, tmp_path_factory.mktemp(request.param))


def generate(folder, batch, params, **settings):
    """Generate with an engine of its own; return its outputs and how many blocks it had."""
    llm = LLM(str(folder), **SETTINGS, **settings)
    blocks = llm.engine.blocks
    blocks._free.reverse()  # the last blocks of the pool come first: far addresses
    outputs = llm.generate(batch, params, use_tqdm=False)
    llm.shutdown()
    gc.collect()
    torch.cuda.empty_cache()
    return outputs, blocks.num_blocks


def compare(outputs, scored):
    """The share of tokens that the other engine finds likeliest too, and the largest |Δlogprob|."""
    equal, differences = 0, []
    for output, other in zip(outputs, scored, strict=True):
        (completion,) = output.outputs
        expected = other.prompt_logprobs[-len(completion.token_ids) :]
        for token, mine, theirs in zip(
            completion.token_ids, completion.logprobs, expected, strict=True
        ):
            equal += theirs[token].rank == 1
            differences.append(abs(mine[token].logprob - theirs[token].logprob))
    return equal / len(differences), max(differences)


@pytest.mark.parametrize("eager", [True, False], ids=["eager", "graphs"])
def test_scores_agree_with_those_of_other_kernels_and_of_a_wider_cache(folder, eager):
    greedy = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True, logprobs=0)
    fp8 = {"kv_cache_dtype": "fp8", "enforce_eager": eager}
    outputs, narrow = generate(folder, prompts(), greedy, **fp8)
    whole = [output.prompt_token_ids + output.outputs[0].token_ids for output in outputs]
    scoring = SamplingParams(max_tokens=1, prompt_logprobs=0)
    for cache, (least, most) in BOUNDS.items():
        scored, blocks = generate(folder, whole, scoring, kv_cache_dtype=cache, enforce_eager=True)
        assert narrow / blocks == pytest.approx(1 if cache == "fp8" else 2, rel=0.1)
        agreement, worst = compare(outputs, scored)
        print(f"{folder.name} {cache}: top-1 {agreement:.3f}, |dlogprob| {worst:.4f}")  # noqa: T201
        assert agreement >= least
        assert worst <= most
