import torch

from kvasir_runtime.engine.swap import STAGED_BLOCKS, HostCache, copy_blocks
from support.device import DEVICE

BLOCKS = 3 * STAGED_BLOCKS


def pool():
    """Two layers of keys and values, every number different."""
    shape = (2, 2, BLOCKS, 4, 2, 8)
    count = torch.Size(shape).numel()
    return torch.arange(count, dtype=torch.float32, device=DEVICE).view(shape)


def test_blocks_come_back_from_the_host_as_they_left():
    cache = pool()
    host = HostCache(cache, BLOCKS)
    left = list(range(5, 5 + STAGED_BLOCKS + 3))
    stored = [*range(20, 30), *range(2, 2 + len(left) - 10)]
    host.swap_out(list(zip(left, stored, strict=True)))
    before = cache.clone()
    cache[:, :, left] = torch.nan
    back = [(block + 7) % BLOCKS for block in left]
    host.swap_in(list(zip(stored, back, strict=True)))
    assert torch.equal(cache[:, :, back], before[:, :, left])
    untouched = [block for block in range(BLOCKS) if block not in {*left, *back}]
    assert torch.equal(cache[:, :, untouched], before[:, :, untouched])


def test_copies_within_the_pool_leave_the_rest():
    cache = pool()
    before = cache.clone()
    copy_blocks(cache, [(3, 9), (3, 11), (0, 1)])
    assert torch.equal(cache[:, :, [9, 11, 1]], before[:, :, [3, 3, 0]])
    rest = [block for block in range(BLOCKS) if block not in {9, 11, 1}]
    assert torch.equal(cache[:, :, rest], before[:, :, rest])


def test_a_round_trips_time_is_measured_and_grows_with_its_bytes():
    speed = HostCache(pool(), 16).measure_speed()
    assert speed.overhead_s >= 0
    assert speed.bytes_per_s > 0
    assert speed.round_trip_s(10**9) > speed.round_trip_s(1)
