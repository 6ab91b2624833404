"""Every family against transformers: the same random weights, the same greedy tokens."""

import pytest
import torch

from kvasir_runtime import LLM, SamplingParams
from support.device import SMALL
from support.tiny_models import FAMILIES, VOCAB


def prompts():
    generator = torch.Generator().manual_seed(1)
    lengths = (3, 16, 17, 40, 70)
    return [torch.randint(0, 256, (n,), generator=generator).tolist() for n in lengths]


def expected_tokens(model, ids, count):
    """Greedy decoding without a cache: every step sees the whole sequence."""
    tokens = list(ids)
    for _ in range(count):
        with torch.inference_mode():
            tokens.append(model(torch.tensor([tokens])).logits[0, -1].argmax().item())
    return tokens[len(ids) :]


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_tokens_equal_transformers(tiny_models, family):
    folder = tiny_models.folder(family)
    reference = tiny_models.reference(family)
    # A budget below the prompts' lengths makes chunks of them.
    llm = LLM(str(folder), max_num_batched_tokens=33, max_num_seqs=4, **SMALL)
    params = SamplingParams(temperature=0, max_tokens=40, ignore_eos=True)
    outputs = llm.generate(prompts(), params, use_tqdm=False)
    for ids, output in zip(prompts(), outputs, strict=True):
        tokens = output.outputs[0].token_ids
        assert tokens == expected_tokens(reference, ids, 40)
        assert all(token < VOCAB for token in tokens)
