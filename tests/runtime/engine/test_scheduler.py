"""The scheduler without a model: a batch is 'computed' by counting its tokens."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kvasir_runtime.engine.block_manager import BlockManager
from kvasir_runtime.engine.scheduler import Scheduler
from kvasir_runtime.engine.sequence import Sequence
from kvasir_runtime.messages import NewRequest
from kvasir_runtime.sampling_params import SamplingParams

SIZE = 4


def make(num_blocks=32, seqs=8, tokens=16):
    blocks = BlockManager(num_blocks, SIZE, prefix_caching=False)
    return Scheduler(blocks, max_num_seqs=seqs, max_batched_tokens=tokens)


def add(scheduler, name, prompt, output=8):
    request = NewRequest(name, tuple(range(prompt)), SamplingParams(max_tokens=output), 0.0)
    seq = Sequence.from_request(request, max_model_len=10_000, seed=0)
    scheduler.add(seq)
    return seq


def compute(scheduler, batch):
    """Do what a step does to the sequences; return those that ended."""
    ended = []
    for chunk in batch:
        chunk.seq.num_computed = chunk.start + chunk.count
        if chunk.samples:
            chunk.seq.append(1, frozenset(), 0.0)
        if chunk.seq.finish_reason:
            scheduler.finish(chunk.seq)
            ended.append(chunk.seq.request_id)
    return ended


def sizes(batch):
    return {chunk.seq.request_id: chunk.count for chunk in batch}


def test_a_long_prompt_is_cut_into_chunks_of_the_budget():
    scheduler = make(tokens=16)
    add(scheduler, "long", 40)
    steps = []
    for _ in range(4):
        batch = scheduler.schedule(0.0)
        steps.append(sizes(batch)["long"])
        compute(scheduler, batch)
    assert steps == [16, 16, 8, 1]


def test_decodes_go_on_while_a_long_prompt_is_prefilled():
    scheduler = make(tokens=16)
    add(scheduler, "early", 4)
    compute(scheduler, scheduler.schedule(0.0))
    add(scheduler, "long", 60)
    for _ in range(3):
        batch = scheduler.schedule(0.0)
        assert sizes(batch) == {"early": 1, "long": 15}
        compute(scheduler, batch)


def test_no_more_sequences_run_than_allowed():
    scheduler = make(seqs=2, tokens=64)
    for name in "abc":
        add(scheduler, name, 4)
    assert set(sizes(scheduler.schedule(0.0))) == {"a", "b"}
    assert len(scheduler.waiting) == 1


def test_requests_are_admitted_first_come_first_served_even_when_a_later_one_would_fit():
    scheduler = make(num_blocks=6, tokens=64)
    add(scheduler, "a", 12)
    compute(scheduler, scheduler.schedule(0.0))
    add(scheduler, "big", 20)
    add(scheduler, "small", 4)
    assert set(sizes(scheduler.schedule(0.0))) == {"a"}


def test_when_blocks_run_out_the_youngest_is_preempted_and_the_oldest_goes_on():
    scheduler = make(num_blocks=4, tokens=64)
    add(scheduler, "old", 8, output=8)
    young = add(scheduler, "young", 8, output=8)
    compute(scheduler, scheduler.schedule(0.0))
    batch = scheduler.schedule(0.0)
    assert set(sizes(batch)) == {"old"}
    assert scheduler.preemptions_total == 1
    assert scheduler.waiting[0] is young
    assert (young.blocks, young.num_computed, young.num_generated) == ([], 0, 1)


def test_a_preempted_sequence_computes_its_generated_tokens_again_and_keeps_them():
    scheduler = make(num_blocks=5, tokens=64)
    add(scheduler, "old", 8, output=6)
    young = add(scheduler, "young", 8, output=6)
    generated = []
    while scheduler.has_work():
        batch = scheduler.schedule(0.0)
        assert batch
        compute(scheduler, batch)
        generated.append(young.num_generated)
    assert scheduler.preemptions_total >= 1
    assert generated == sorted(generated)
    assert generated[-1] == 6


def test_finishing_a_waiting_sequence_leaves_the_others():
    scheduler = make(seqs=1)
    add(scheduler, "a", 4)
    compute(scheduler, scheduler.schedule(0.0))
    waiting = add(scheduler, "b", 4)
    scheduler.finish(waiting)
    assert not scheduler.waiting
    assert len(scheduler.running) == 1


@settings(max_examples=80, deadline=None)
@given(
    requests=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 24)), min_size=1, max_size=12),
    num_blocks=st.integers(16, 40),
    tokens=st.integers(4, 32),
    seqs=st.integers(1, 4),
)
def test_every_request_ends_whatever_the_pressure(requests, num_blocks, tokens, seqs):
    scheduler = make(num_blocks, seqs, tokens)
    for number, (prompt, output) in enumerate(requests):
        add(scheduler, str(number), prompt, output)
    ended = []
    for _ in range(5_000):
        if not scheduler.has_work():
            break
        batch = scheduler.schedule(0.0)
        assert batch, "work is waiting, yet nothing is scheduled"
        assert sum(chunk.count for chunk in batch) <= tokens
        assert len(scheduler.running) <= seqs
        for chunk in batch:
            assert len(chunk.seq.blocks) * SIZE >= chunk.start + chunk.count
        ended += compute(scheduler, batch)
    assert sorted(ended) == sorted(str(number) for number in range(len(requests)))
    assert scheduler.blocks.num_free == num_blocks
