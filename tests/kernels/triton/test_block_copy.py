import pytest
import torch

from kvasir_kernels.block_copy import copy_blocks, reference


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.uint8, torch.float8_e4m3fn], ids=str
)
@pytest.mark.parametrize("shape", [(16, 2, 8), (2, 16, 8, 128)], ids=str)
def test_blocks_are_copied_within_a_pool_and_padding_is_not(shape, dtype, device):
    pool = torch.randint(0, 255, (9, *shape), device=device).to(dtype)
    expected = pool.clone()
    blocks = [torch.tensor(ids, device=device) for ids in ([0, 2, -1, 3], [8, 1, 4, -1])]
    reference.copy_blocks(expected, expected, *blocks)
    copy_blocks(pool, pool, *blocks)
    assert torch.equal(pool.float(), expected.float())
    assert torch.equal(pool[1].float(), pool[2].float())


def test_pools_may_be_strided_views(device):
    pools = torch.randn(6, 2, 3, 40, device=device)
    copy_blocks(pools[:, 0], pools[:, 1], *torch.tensor([[5, 0], [2, 3]], device=device))
    assert torch.equal(pools[2, 1], pools[5, 0])
    assert torch.equal(pools[3, 1], pools[0, 0])
