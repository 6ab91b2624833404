import pytest

from kvasir_runtime import LLM
from kvasir_runtime.config import GIB
from kvasir_runtime.engine.host_memory import memory_limit_bytes, require_swap_fits
from kvasir_runtime.errors import InvalidConfigError
from support.device import SMALL


def test_a_cgroups_limit_counts_where_it_is_below_the_machines(tmp_path):
    limit = tmp_path / "memory.max"
    limit.write_text(f"{GIB}\n")
    assert memory_limit_bytes((limit,)) == GIB


@pytest.mark.parametrize("text", ["max", str(2**62)])
def test_no_limit_means_the_machines_memory(tmp_path, text):
    limit = tmp_path / "memory.max"
    limit.write_text(text)
    assert memory_limit_bytes((limit,)) == memory_limit_bytes((tmp_path / "absent",)) > GIB


def test_a_swap_space_beyond_the_limit_is_refused_with_both_numbers():
    require_swap_fits(4 * GIB, 5 * GIB)
    with pytest.raises(InvalidConfigError, match=r"4\.0 GiB.*3\.0 GiB"):
        require_swap_fits(4 * GIB, 3 * GIB)


def test_the_host_pool_is_never_larger_than_the_devices(tiny_models):
    # 256 blocks of 12 KiB: a swap space of a thousand GiB asks for no more than those.
    folder = str(tiny_models.folder("llama"))
    llm = LLM(folder, swap_space=1000, preemption_mode="swap", **SMALL)
    assert llm.engine.model.num_cpu_blocks == llm.engine.model.num_gpu_blocks == 256


def test_a_cpu_swaps_only_when_told_to(tiny_models):
    llm = LLM(str(tiny_models.folder("llama")), **(SMALL | {"device": "cpu"}))
    assert llm.engine.model.num_cpu_blocks == 0
