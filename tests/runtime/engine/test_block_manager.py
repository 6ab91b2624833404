"""The block manager as a state machine: whatever happens, no block is lost or owned wrongly."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kvasir_runtime.engine.block_manager import BlockManager
from kvasir_runtime.engine.sequence import Sequence
from kvasir_runtime.messages import NewRequest
from kvasir_runtime.sampling_params import SamplingParams

BLOCKS, SIZE = 12, 4


def sequence(tokens, name="r"):
    request = NewRequest(name, tuple(tokens), SamplingParams(max_tokens=99), 0.0)
    return Sequence.from_request(request, max_model_len=10_000, seed=0)


def compute(blocks, seq):
    seq.num_computed = len(seq.token_ids)
    blocks.publish(seq)


class Blocks(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.blocks = BlockManager(BLOCKS, SIZE)
        self.running = []

    @rule(stem=st.integers(0, 2), length=st.integers(1, 30), chunk=st.integers(1, 30))
    def admit(self, stem, length, chunk):
        seq = sequence([stem] * length)
        before = self.blocks.num_available
        if self.blocks.admit(seq, chunk) is None:
            assert not seq.blocks
            assert self.blocks.num_available == before
            return
        assert seq.num_computed < length
        assert len(seq.blocks) * SIZE >= min(seq.num_computed + chunk, length)
        self.running.append(seq)

    @precondition(lambda self: self.running)
    @rule(pick=st.integers(0, 99))
    def step(self, pick):
        seq = self.running[pick % len(self.running)]
        if self.blocks.grow(seq, len(seq.token_ids)):
            compute(self.blocks, seq)
            seq.token_ids.append(seq.token_ids[0])

    @precondition(lambda self: self.running)
    @rule(pick=st.integers(0, 99))
    def release(self, pick):
        self.blocks.release(self.running.pop(pick % len(self.running)))

    @invariant()
    def every_block_is_free_cached_or_used(self):
        blocks = self.blocks
        assert blocks.num_free + blocks.num_cached + blocks.num_used == BLOCKS

    @invariant()
    def owners_are_counted(self):
        owned = Counter(block for seq in self.running for block in seq.blocks)
        assert self.blocks.num_used == len(owned)
        assert not set(owned) & set(self.blocks.unowned_blocks())

    @invariant()
    def only_equal_prefixes_share_a_block(self):
        owners = {}
        for seq in self.running:
            for index, block in enumerate(seq.blocks):
                prefix = tuple(seq.token_ids[: (index + 1) * SIZE])
                assert owners.setdefault(block, prefix) == prefix


TestBlocks = Blocks.TestCase
TestBlocks.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_prefix_is_found_again_after_its_owner_has_left():
    blocks = BlockManager(8, SIZE)
    first = sequence(range(10))
    blocks.admit(first, 10)
    compute(blocks, first)
    blocks.release(first)
    second = sequence([*range(8), 77, 78])
    assert blocks.admit(second, 10) == 8
    assert blocks.hits_total == 8


def test_the_last_token_is_always_computed_anew():
    blocks = BlockManager(8, SIZE)
    for expected in (0, 4):
        seq = sequence(range(8))
        assert blocks.admit(seq, 8) == expected
        compute(blocks, seq)
        blocks.release(seq)


def test_cached_contents_are_given_up_least_recently_used_first():
    blocks = BlockManager(4, SIZE)
    for stem in (1, 2):
        seq = sequence([stem] * 8)
        blocks.admit(seq, 8)
        compute(blocks, seq)
        blocks.release(seq)
    assert (blocks.num_free, blocks.num_cached) == (0, 4)
    filler = sequence([9] * 8)
    assert blocks.admit(filler, 8) == 0
    assert blocks.find_prefix(sequence([1] * 9)) == []
    assert len(blocks.find_prefix(sequence([2] * 9))) == 2


def test_without_prefix_caching_nothing_is_kept():
    blocks = BlockManager(4, SIZE, prefix_caching=False)
    seq = sequence([1] * 8)
    blocks.admit(seq, 8)
    compute(blocks, seq)
    blocks.release(seq)
    assert (blocks.num_free, blocks.num_cached, blocks.queries_total) == (4, 0, 0)
