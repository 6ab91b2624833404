import math

import pytest
import torch

from kvasir_runtime.engine.logits import adjust
from kvasir_runtime.engine.logprobs import compute
from kvasir_runtime.engine.sampling_state import SamplingState
from kvasir_runtime.engine.scheduler import Chunk
from kvasir_runtime.engine.sequence import Sequence
from kvasir_runtime.messages import NewRequest
from kvasir_runtime.sampling_params import SamplingParams
from support.device import DEVICE

EOS = frozenset({0})


def sequence(prompt=(1, 2), generated=(), **params):
    request = NewRequest("r", tuple(prompt), SamplingParams(temperature=0, **params), 0.0)
    seq = Sequence.from_request(request, max_model_len=1000, seed=0)
    seq.token_ids.extend(generated)
    return seq


def adjusted(rows, seqs):
    """Scores after all rules, one row a sequence."""
    logits = torch.tensor(rows, device=DEVICE)
    chunks = []
    for slot, seq in enumerate(seqs):
        seq.slot = slot
        count = len(seq.token_ids)
        chunks.append(Chunk(seq, 0, count, samples=True, enters=True))
    state = SamplingState(len(seqs), logits.shape[-1], torch.device(DEVICE))
    state.enter(seqs)
    slots = torch.arange(len(seqs), device=DEVICE)
    adjust(logits, chunks, slots, state, EOS)
    return logits.cpu()


def best(row, seq):
    return adjusted([row], [seq]).argmax().item()


def test_presence_and_frequency_penalties_count_generated_tokens_alone():
    row = [0.0, 1.0, 0.9, 0.0]
    assert best(row, sequence((1,), presence_penalty=0.5)) == 1
    assert best(row, sequence((1,), [1], presence_penalty=0.5)) == 2
    assert best(row, sequence((1,), [1], frequency_penalty=0.05)) == 1
    assert best(row, sequence((1,), [1] * 4, frequency_penalty=0.05)) == 2


def test_repetition_penalty_counts_the_prompt_and_pushes_negative_scores_down():
    assert best([0.0, 1.0, 0.9], sequence((1,), repetition_penalty=2.0)) == 2
    assert best([-9.0, -1.0, -1.5], sequence((1,), repetition_penalty=2.0)) == 2


def test_no_end_before_min_tokens():
    params = {"min_tokens": 2, "stop_token_ids": [2]}
    assert best([5.0, 1.0, 2.0], sequence(generated=[1], **params)) == 1
    assert best([5.0, 1.0, 2.0], sequence(generated=[1, 1], **params)) == 0


def test_logit_bias_moves_scores():
    biased = adjusted([[0.0, 1.0, 2.0]], [sequence(logit_bias={0: 5.0, 2: -100.0})])
    assert biased.tolist() == [[5.0, 1.0, -98.0]]


def test_allowed_tokens_exclude_all_others():
    assert best([9.0, 5.0, 1.0, 2.0], sequence(allowed_token_ids=[2, 3])) == 3


@pytest.mark.parametrize(
    ("generated", "expected"), [([], 3), ([1], 3), ([2, 1], 2), ([2, 1, 1], 3)]
)
def test_a_bad_word_is_never_completed(generated, expected):
    # 3 after 2, 1 would complete it; otherwise 3 is the best.
    row = [0.0, 1.0, 2.0, 3.0]
    assert best(row, sequence(generated=generated, bad_word_ids=((2, 1, 3),))) == expected


def test_a_bad_word_of_one_token_never_comes():
    assert best([0.0, 1.0, 3.0, 2.0], sequence(bad_word_ids=((2,),))) == 3


def test_a_token_mask_is_asked_with_what_was_generated():
    class Mask:
        def allowed(self, generated):
            self.seen = list(generated)
            return torch.tensor([False, True, False])

    seq = sequence((5, 6), [1, 2])
    seq.token_mask = Mask()
    assert best([9.0, 1.0, 5.0], seq) == 1
    assert seq.token_mask.seen == [1, 2]


def test_rules_of_one_request_leave_the_others_alone():
    rows = [[0.0, 1.0, 2.0]] * 3
    seqs = [
        sequence(generated=[2], frequency_penalty=2.0),
        sequence(),
        sequence(allowed_token_ids=[0], logit_bias={0: 3.0}),
    ]
    changed = adjusted(rows, seqs)
    assert changed[1].tolist() == rows[1]
    assert changed[0].tolist() == [0.0, 1.0, 0.0]
    assert changed[2].tolist() == [3.0, -math.inf, -math.inf]


def test_logprobs_give_the_chosen_tokens_rank_and_the_likeliest():
    logits = torch.tensor([[0.0, 1.0, 2.0, 3.0]])
    expected = torch.log_softmax(logits[0], 0)
    described = compute(logits, torch.tensor([2]), 2).describe(0, 2)
    assert (described.token_id, described.rank) == (2, 2)
    assert math.isclose(described.logprob, expected[2], rel_tol=1e-5)
    assert [token for token, _ in described.top] == [3, 2]
    assert compute(logits, torch.tensor([2]), 2).describe(0, 0).top == ()
