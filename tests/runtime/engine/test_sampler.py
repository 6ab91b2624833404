import math

import pytest
import torch

from kvasir_runtime.engine.sampler import sample, truncate
from kvasir_runtime.engine.sequence import Sequence
from kvasir_runtime.messages import NewRequest
from kvasir_runtime.sampling_params import SamplingParams

EOS = frozenset({0})


def sequence(prompt=(1, 2), generated=(), seed=11, **params):
    request = NewRequest("r", tuple(prompt), SamplingParams(**params), 0.0)
    seq = Sequence.from_request(request, max_model_len=1000, seed=seed)
    seq.token_ids.extend(generated)
    return seq


def draw(logits, seq):
    return sample(logits.clone()[None], [seq], EOS)[0].token_id


def frequencies(logits, count=4000, **params):
    """Draw at `count` different positions, as one batch."""
    seqs = [sequence(seed=number, **params) for number in range(count)]
    tokens = [out.token_id for out in sample(logits.repeat(count, 1), seqs, EOS)]
    return torch.bincount(torch.tensor(tokens), minlength=len(logits)) / count


def test_temperature_zero_takes_the_most_likely():
    assert draw(torch.tensor([0.0, 3.0, 2.9]), sequence(temperature=0)) == 1


def test_draws_follow_the_distribution():
    logits = torch.tensor([0.0, 1.0, 2.0, -1.0])
    torch.testing.assert_close(
        frequencies(logits, temperature=1.0), torch.softmax(logits, 0), atol=0.03, rtol=0
    )


def test_temperature_flattens_the_distribution():
    logits = torch.tensor([0.0, 2.0])
    torch.testing.assert_close(
        frequencies(logits, temperature=4.0), torch.softmax(logits / 4, 0), atol=0.03, rtol=0
    )


@pytest.mark.parametrize(
    ("params", "kept"),
    [
        ({"top_k": 2}, {2, 3}),
        ({"top_p": 0.6}, {3}),
        ({"top_p": 0.7}, {2, 3}),
        ({"min_p": 0.3}, {2, 3}),
        ({"top_k": 3, "top_p": 0.95}, {1, 2, 3}),
        ({"top_k": -1}, {0, 1, 2, 3}),
    ],
)
def test_truncation_keeps_the_likely_tokens_alone(params, kept):
    logits = torch.tensor([0.0, 1.0, 2.0, 3.0])  # 0.032, 0.087, 0.237, 0.644
    seen = frequencies(logits, count=1500, **params)
    assert {token for token in range(4) if seen[token] > 0} == kept


def test_top_p_of_one_row_leaves_the_others_whole():
    logits = torch.tensor([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]])
    kept = truncate(logits, top_k=[0, 0], top_p=[0.1, 1.0], min_p=[0.0, 0.0])
    assert kept.isfinite().sum(-1).tolist() == [1, 3]


def test_a_seed_and_a_position_fix_the_token_in_any_company():
    logits = torch.randn(200, generator=torch.Generator().manual_seed(0))
    alone = draw(logits, sequence(seed=5, temperature=1.0))
    company = [sequence(seed=n, temperature=1.0) for n in (1, 5, 9)]
    assert sample(logits.repeat(3, 1), company, EOS)[1].token_id == alone
    later = {draw(logits, sequence(seed=5, temperature=1.0, generated=[7] * n)) for n in range(12)}
    assert len(later) > 1


def test_presence_and_frequency_penalties_count_generated_tokens_alone():
    logits = torch.tensor([0.0, 1.0, 0.9, 0.0])
    greedy = {"temperature": 0, "prompt": (1,)}
    assert draw(logits, sequence(presence_penalty=0.5, **greedy)) == 1
    assert draw(logits, sequence(presence_penalty=0.5, generated=[1], **greedy)) == 2
    assert draw(logits, sequence(frequency_penalty=0.05, generated=[1], **greedy)) == 1
    assert draw(logits, sequence(frequency_penalty=0.05, generated=[1] * 4, **greedy)) == 2


def test_repetition_penalty_counts_the_prompt_and_pushes_negative_scores_down():
    greedy = {"temperature": 0, "repetition_penalty": 2.0}
    assert draw(torch.tensor([0.0, 1.0, 0.9]), sequence(prompt=(1,), **greedy)) == 2
    assert draw(torch.tensor([-9.0, -1.0, -1.5]), sequence(prompt=(1,), **greedy)) == 2


def test_no_end_before_min_tokens():
    logits = torch.tensor([5.0, 1.0, 2.0])
    params = {"temperature": 0, "min_tokens": 2, "stop_token_ids": [2]}
    assert draw(logits, sequence(generated=[1], **params)) == 1
    assert draw(logits, sequence(generated=[1, 1], **params)) == 0


def test_logprobs_describe_the_models_scores_before_penalties():
    logits = torch.tensor([[0.0, 1.0, 2.0, 3.0]])
    expected = torch.log_softmax(logits[0], 0)
    seq = sequence(prompt=(3,), temperature=0, repetition_penalty=50.0, logprobs=2)
    out = sample(logits, [seq], EOS)[0]
    assert (out.token_id, out.logprobs.rank) == (2, 2)
    assert math.isclose(out.logprobs.logprob, expected[2], rel_tol=1e-5)
    assert [token for token, _ in out.logprobs.top] == [3, 2]


def test_logprobs_of_one_request_are_not_given_to_another():
    out = sample(
        torch.zeros(2, 4), [sequence(temperature=0, logprobs=0), sequence(temperature=0)], EOS
    )
    assert out[0].logprobs is not None
    assert out[0].logprobs.top == ()
    assert out[1].logprobs is None
