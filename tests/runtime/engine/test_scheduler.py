"""The scheduler and the block manager on a simulated device (support/simulator.py)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kvasir_runtime.engine.preemption import (
    ALWAYS_RECOMPUTE,
    ALWAYS_SWAP,
    CopySpeed,
    PreemptionCosts,
)
from support.simulator import Simulator


def sizes(plan):
    return {chunk.seq.request_id: chunk.count for chunk in plan.chunks}


def alone(prompt, output, seed=0):
    """The tokens a request gets when it has the whole device to itself."""
    simulator = Simulator(num_blocks=200, max_tokens=500)
    simulator.add(prompt, output, name="alone", seed=seed)
    simulator.run()
    return simulator.ended["alone"]


def test_a_long_prompt_is_cut_into_chunks_of_the_budget():
    simulator = Simulator()
    simulator.add(range(40), name="long")
    assert [sizes(simulator.step())["long"] for _ in range(4)] == [16, 16, 8, 1]


@pytest.mark.parametrize("overlap", [False, True])
def test_decodes_go_on_while_a_long_prompt_is_prefilled(overlap):
    simulator = Simulator(overlap=overlap)
    simulator.add(range(4), name="early")
    simulator.step()
    simulator.add(range(100, 160), name="long")
    for _ in range(3):
        assert sizes(simulator.step()) == {"early": 1, "long": 15}


def test_no_more_sequences_run_than_allowed():
    simulator = Simulator(max_num_seqs=2, max_tokens=64)
    for name in "abc":
        simulator.add([ord(name)] * 4, name=name)
    assert set(sizes(simulator.step())) == {"a", "b"}
    assert len(simulator.scheduler.waiting) == 1


def test_requests_are_admitted_first_come_first_served_even_when_a_later_one_would_fit():
    simulator = Simulator(num_blocks=6, max_tokens=64)
    simulator.add(range(12), name="a")
    simulator.step()
    simulator.add(range(50, 70), name="big")
    simulator.add(range(90, 94), name="small")
    assert set(sizes(simulator.step())) == {"a"}


@pytest.mark.parametrize("costs", [ALWAYS_RECOMPUTE, ALWAYS_SWAP])
def test_when_blocks_run_out_the_youngest_makes_room_and_the_oldest_goes_on(costs):
    simulator = Simulator(num_blocks=4, max_tokens=64, host_blocks=8, costs=costs)
    simulator.add(range(8), name="old")
    simulator.add(range(50, 58), name="young")
    simulator.step()
    assert set(sizes(simulator.step())) == {"old"}
    scheduler = simulator.scheduler
    assert scheduler.preemptions_total == 1
    assert scheduler.waiting.head().request_id == "young"
    assert scheduler.num_swapped == scheduler.swaps_total == (costs is ALWAYS_SWAP)
    simulator.run()
    assert simulator.ended["young"] == alone(range(50, 58), 8)


def test_a_swapped_sequence_comes_back_without_computing_its_prompt_again():
    simulator = Simulator(
        num_blocks=4, max_tokens=64, host_blocks=8, costs=ALWAYS_SWAP, prefix_caching=False
    )
    simulator.add(range(8), name="old")
    simulator.add(range(50, 58), name="young")
    computed = 0
    while simulator.has_work():
        computed += sizes(simulator.step()).get("young", 0)
    assert simulator.scheduler.swaps_total > 0
    assert computed == 8 + 7
    assert simulator.scheduler.host.num_used == 0


def test_a_full_host_pool_falls_back_to_recomputing():
    simulator = Simulator(num_blocks=4, max_tokens=64, host_blocks=1, costs=ALWAYS_SWAP)
    simulator.add(range(8), name="old")
    simulator.add(range(50, 58), name="young")
    simulator.run()
    assert (simulator.scheduler.swaps_total, simulator.scheduler.recomputes_total > 0) == (0, True)


def test_the_cheaper_preemption_is_chosen_by_measured_speeds():
    quick_link = PreemptionCosts(CopySpeed(0.002, 25e9), 40_000, block_bytes=2_000_000)
    slow_link = PreemptionCosts(CopySpeed(0.002, 0.5e9), 40_000, block_bytes=2_000_000)
    # 256 tokens in 16 blocks: 3.3 ms or 66 ms by copies, 6.4 ms by computing.
    assert quick_link.prefers_swap(256, 16)
    assert not slow_link.prefers_swap(256, 16)
    # One block of 16 tokens: 2.1 ms by copies, 0.4 ms by computing.
    assert not quick_link.prefers_swap(16, 1)


def test_one_run_swaps_long_sequences_and_computes_short_ones_again():
    # Equal at 27 tokens: 20 ms and 1 ms a block of four, against 1 ms a token.
    costs = PreemptionCosts(CopySpeed(0.02, 1e9), 1_000, block_bytes=1_000_000)
    simulator = Simulator(num_blocks=24, host_blocks=24, max_tokens=64, costs=costs)
    simulator.add(range(40), output=50, name="old")
    simulator.add(range(200, 230), output=30, name="long")
    simulator.add(range(100, 104), output=30, name="short")
    simulator.run()
    assert simulator.scheduler.swaps_total > 0
    assert simulator.scheduler.recomputes_total > 0
    assert simulator.ended["long"] == alone(range(200, 230), 30)
    assert simulator.ended["short"] == alone(range(100, 104), 30)


def test_completions_of_one_prompt_share_its_blocks_and_copy_what_they_write():
    simulator = Simulator(num_blocks=32, max_tokens=64)
    simulator.add(range(10), output=6, n=3, name="r")
    simulator.step()
    assert simulator.blocks.num_used == 3
    plan = simulator.step()
    # Ten tokens are two full blocks and half of a third, which each but one has to copy.
    assert simulator.blocks.num_used == 5
    assert len(plan.copies) == 2
    simulator.run()
    for index in range(3):
        assert simulator.ended[f"r-{index}"] == alone(range(10), 6, seed=index)
    assert len({tuple(tokens) for tokens in simulator.ended.values()}) == 3


def test_completions_go_on_alone_when_their_leader_is_gone():
    simulator = Simulator(max_tokens=4)
    simulator.add(range(10), output=6, n=2, name="r")
    simulator.step()
    simulator.abort("r-0")
    simulator.run()
    assert simulator.ended["r-1"] == alone(range(10), 6, seed=1)


def test_priority_runs_the_urgent_first_and_takes_room_from_the_less_urgent():
    simulator = Simulator(policy="priority", max_num_seqs=1, max_tokens=64)
    simulator.add(range(8), output=20, name="patient", priority=5)
    simulator.add(range(20, 28), output=20, name="also patient", priority=5)
    simulator.step()
    simulator.add(range(50, 58), output=3, name="urgent", priority=-1)
    simulator.run()
    assert list(simulator.ended) == ["urgent", "patient", "also patient"]
    assert simulator.ended["patient"] == alone(range(8), 20)
    assert simulator.first_token_s["urgent"] < 0.1


def test_under_fcfs_priorities_change_nothing():
    simulator = Simulator(max_num_seqs=1, max_tokens=64)
    simulator.add(range(8), output=4, name="first", priority=5)
    simulator.step()
    simulator.add(range(50, 58), output=3, name="second", priority=-1)
    simulator.run()
    assert list(simulator.ended) == ["first", "second"]


@pytest.mark.parametrize("overlap", [False, True])
def test_a_short_request_behind_a_long_prompt_waits_for_its_prefill_alone(overlap):
    simulator = Simulator(num_blocks=500, max_tokens=64, overlap=overlap)
    simulator.add(range(1000), output=50, name="long")
    simulator.step()
    simulator.add(range(5000, 5008), output=1, name="short")
    simulator.run()
    assert simulator.first_token_s["short"] < simulator.first_token_s["long"] + 0.05


def test_with_overlap_a_step_is_scheduled_before_the_last_ones_tokens_are_known():
    simulator = Simulator(overlap=True)
    simulator.add(range(4), output=3, name="a")
    assert sizes(simulator.step()) == {"a": 4}
    assert simulator.alive["a"].num_generated == 0
    assert sizes(simulator.step()) == {"a": 1}
    assert simulator.alive["a"].num_generated == 1


def test_with_overlap_a_stop_token_is_learnt_a_step_late_and_gives_nothing_more():
    expected = alone(range(4), 9)
    simulator = Simulator(overlap=True)
    simulator.add(range(4), output=9, name="a", stop=[expected[2]])
    simulator.run()
    assert simulator.ended["a"] == expected[:3]
    assert simulator.blocks.num_used == 0


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("costs", [ALWAYS_RECOMPUTE, ALWAYS_SWAP])
def test_a_pool_oversubscribed_forty_times_finishes_every_request(overlap, costs):
    simulator = Simulator(
        num_blocks=10, host_blocks=20, max_tokens=32, overlap=overlap, costs=costs
    )
    # Each needs all ten blocks at its end; eighty at once ask for eighty pools.
    for number in range(80):
        simulator.add([number] * 20, output=20, name=str(number), seed=number)
    simulator.run(limit=20_000)
    assert len(simulator.ended) == 80
    assert simulator.ended["7"] == alone([7] * 20, 20, seed=7)


class Engine(RuleBasedStateMachine):
    """Random adds, forks, aborts and steps; the simulator checks every read."""

    @initialize(
        overlap=st.booleans(), caching=st.booleans(), swap=st.booleans(),
        policy=st.sampled_from(["fcfs", "priority"]), blocks=st.integers(12, 30),
        tokens=st.integers(4, 24), seqs=st.integers(1, 5), host=st.integers(0, 12),
        typical=st.sampled_from([0, 8, 500]),
    )  # fmt: skip
    def start(self, overlap, caching, swap, policy, blocks, tokens, seqs, host, typical):
        self.simulator = Simulator(
            num_blocks=blocks, max_tokens=tokens, max_num_seqs=seqs, host_blocks=host,
            overlap=overlap, prefix_caching=caching, policy=policy, typical_output=typical,
            costs=ALWAYS_SWAP if swap else ALWAYS_RECOMPUTE,
        )  # fmt: skip
        self.wanted = {}

    @rule(
        stem=st.integers(0, 2), length=st.integers(1, 30), output=st.integers(1, 16),
        n=st.integers(1, 3), priority=st.integers(0, 2), seed=st.integers(0, 3),
    )  # fmt: skip
    def add(self, stem, length, output, n, priority, seed):
        prompt = [stem] * length
        names = self.simulator.add(prompt, output, n=n, priority=priority, seed=seed)
        self.wanted |= {name: (prompt, output, seed + i) for i, name in enumerate(names)}

    @rule(count=st.integers(1, 6))
    def step(self, count):
        for _ in range(count):
            self.simulator.step()

    @precondition(lambda self: self.simulator.alive)
    @rule(pick=st.integers(0, 99))
    def abort(self, pick):
        name = list(self.simulator.alive)[pick % len(self.simulator.alive)]
        self.simulator.abort(name)
        del self.wanted[name]

    @invariant()
    def every_block_is_free_cached_or_used(self):
        if not hasattr(self, "simulator"):
            return
        blocks = self.simulator.blocks
        owned = {block for seq in self.simulator.alive.values() for block in seq.blocks}
        assert blocks.num_used == len(owned)
        assert blocks.num_free + blocks.num_cached + blocks.num_used == blocks.num_blocks
        assert not owned & set(blocks.unowned_blocks())

    def teardown(self):
        if not hasattr(self, "simulator"):
            return
        self.simulator.run()
        assert self.simulator.ended.keys() == self.wanted.keys()
        for name, (prompt, output, seed) in self.wanted.items():
            assert self.simulator.ended[name] == alone(prompt, output, seed)
        blocks, scheduler = self.simulator.blocks, self.simulator.scheduler
        assert (blocks.num_used, scheduler.host.num_used, scheduler.num_swapped) == (0, 0, 0)


TestEngine = Engine.TestCase
TestEngine.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)


@settings(max_examples=60, deadline=None)
@given(
    requests=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 24)), min_size=1, max_size=12),
    num_blocks=st.integers(16, 40),
    tokens=st.integers(4, 32),
    seqs=st.integers(1, 4),
    overlap=st.booleans(),
)
def test_every_request_ends_whatever_the_pressure(requests, num_blocks, tokens, seqs, overlap):
    simulator = Simulator(
        num_blocks=num_blocks, max_tokens=tokens, max_num_seqs=seqs, overlap=overlap
    )
    for number, (prompt, output) in enumerate(requests):
        simulator.add([number] * prompt, output, name=str(number))
    simulator.run()
    assert len(simulator.ended) == len(requests)
