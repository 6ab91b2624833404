import kernel_costs as costs
import pytest
from kernel_costs import Cost, Limits, Shape

SMALL = Shape(hidden=64, inner=96, heads=4, kv_heads=2, dim=16, vocab=320)
CARD = Limits(bytes_per_s=4e12, flops_per_s=8e14)


def test_a_decode_reads_every_key_and_value_of_its_context_once():
    cost = costs.attention(SMALL, [(1000, 1)])
    assert cost.num_bytes == 2 * 1000 * 2 * 16 * 2 + 2 * 4 * 16 * 2
    assert cost.flops == 2 * 2 * 1000 * 4 * 16  # scores and values, times multiply and add


def test_a_prompt_sees_half_of_its_own_square():
    whole = costs.attention(SMALL, [(100, 100)])
    assert whole.flops == 4 * 4 * 16 * sum(range(1, 101))


def test_chunks_of_a_prompt_compute_what_the_whole_does():
    chunks = [costs.attention(SMALL, [(end, 25)]).flops for end in (25, 50, 75, 100)]
    assert sum(chunks) == costs.attention(SMALL, [(100, 100)]).flops


def test_sequences_add_up():
    parts = [costs.attention(SMALL, [length]) for length in ((768, 1), (512, 512))]
    both = costs.attention(SMALL, [(768, 1), (512, 512)])
    assert both.num_bytes == sum(part.num_bytes for part in parts)
    assert both.flops == sum(part.flops for part in parts)


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        (costs.rotary_kv_write(SMALL, 3), 3 * (2 * (4 + 2 + 2) * 16 * 2 + 2 * 8 * 4 + 2 * 8)),
        (costs.add_rms_norm(SMALL, 3), (3 * 4 + 1) * 64 * 2),
        (costs.silu_mul(SMALL, 3), 3 * 3 * 96 * 2),
        (costs.embed(SMALL, 3), 3 * (2 * 64 * 2 + 2 * 8)),
        (costs.sample(SMALL, 3), 3 * 320 * 4),
        (costs.block_copy(SMALL, 3, 16), 2 * 3 * 16 * 2 * 16 * 2),
    ],
)
def test_bytes_are_operands_read_and_results_written(cost, expected):
    assert cost == Cost(expected)


def test_the_slower_of_memory_and_arithmetic_bounds_a_kernel():
    streaming, product = Cost(8_000_000, 8), Cost(8, 1_600_000_000)
    assert (CARD.bound(streaming), CARD.least_s(streaming)) == ("memory", 2e-6)
    assert (CARD.bound(product), CARD.least_s(product)) == ("compute", 2e-6)
