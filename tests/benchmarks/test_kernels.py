"""The cases run on a CPU too, through the kernels' references; what times them needs a GPU."""

import pytest
import torch
from kernel_cases import Cases, serving_cases
from kernel_costs import Cost, Limits, Shape

import kernels

SMALL = Shape(hidden=64, inner=96, heads=4, kv_heads=2, dim=16, vocab=320)
CARD = Limits(bytes_per_s=4e12, flops_per_s=8e14)


def small_cases():
    torch.manual_seed(0)
    return Cases(SMALL, "cpu", torch.float32)


def test_every_case_runs_and_gives_what_its_size_says():
    shapes = {}
    for case in [*small_cases().of_tokens(5), small_cases().sample(3, top_p=0.9)]:
        result = case.make()()
        shapes[case.kernel] = [tuple(t.shape) for t in result] if isinstance(result, tuple) else (
            tuple(result.shape)
        )  # fmt: skip
    assert shapes == {
        "rotary_kv_write": (5, 4, 16), "add_rms_norm": [(5, 64), (5, 64)], "silu_mul": (5, 96),
        "embed": (5, 64), "sample top-p 0.9": (3,),
    }  # fmt: skip


@pytest.mark.parametrize("lengths", [[(40, 1)] * 3, [(40, 1), (33, 33)], [(20, 7)]])
def test_attention_is_over_the_lengths_it_names(lengths):
    case = small_cases().attention("mixed", lengths)
    assert case.make()().shape == (sum(new for _, new in lengths), 4, 16)


def test_equal_sequences_are_named_together():
    case = small_cases().attention("mixed", [(40, 1), (40, 1), (33, 33)])
    assert case.size == "2 x 1 of 40 + 1 x 33 of 33"


def test_block_copies_change_only_the_blocks_named():
    cases = small_cases()
    pool = torch.zeros(4, 16, 2, 16)
    cases._cache = lambda _blocks: pool.view(2, 2, 16, 2, 16)
    pool += torch.arange(4).view(4, 1, 1, 1)
    cases.block_copy(2).make()()
    assert len(pool[:, 0, 0, 0].unique()) == 2  # two of the four now hold copies


def test_serving_has_each_kernel_of_a_step():
    kernels_run = {case.kernel.split()[0] for case in serving_cases(small_cases(), 64)}
    assert kernels_run == {
        "rotary_kv_write", "add_rms_norm", "silu_mul", "embed", "attention", "sample", "block_copy",
    }  # fmt: skip


def test_a_share_is_the_least_time_over_the_time_taken():
    row = kernels.compare(Cost(8_000_000), 4e-6, CARD)
    assert (row["tb_per_s"], row["bound"], row["share"]) == (2.0, "memory", 0.5)
    row = kernels.compare(Cost(8, 1_600_000_000), 8e-6, CARD)
    assert (row["tflop_per_s"], row["bound"], row["share"]) == (200.0, "compute", 0.25)


def test_operands_overflow_the_cache_and_fit_the_memory():
    cache, free = 50 * 2**20, 100 * 2**30
    assert kernels.num_sets(Cost(10 * 2**20), cache, free) == 16
    assert kernels.num_sets(Cost(1), cache, free) == kernels.MOST_SETS
    assert kernels.num_sets(Cost(2**30), cache, 3 * 2**30) == 1


def test_a_machine_without_a_gpu_is_told_so(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert kernels.main([]) == 2
    assert "no GPU" in capsys.readouterr().err
