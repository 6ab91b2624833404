"""Kernels over an e4m3 cache: against their references, and the references against plain floats."""

import dataclasses

import pytest
import torch

from kvasir_kernels import rotary_kv_write
from kvasir_kernels.kv_scales import E4M3, KVScales
from kvasir_kernels.paged_attention import paged_attention, reference, tuning

if torch.cuda.is_available():
    from kvasir_kernels.paged_attention import prefill_launch

ON_GPU = torch.cuda.is_available()
# Both read the same e4m3 numbers, so they differ as over a cache of the queries' own dtype.
ERROR = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1e-2}
DTYPES = [torch.float32, torch.float16, *([torch.bfloat16] if ON_GPU else [])]
SCALES = KVScales(keys=0.03, values=0.25)
HEADS = [(4, 4, 64), (4, 2, 96), (7, 1, 128), (8, 1, 64)]
HEADS += [(28, 4, 128), (40, 40, 128), (64, 8, 128), (9, 3, 64)] if ON_GPU else []
MIXED = [(1, 1), (16, 1), (17, 17), (50, 3), (33, 1)]
DECODES = [(1, 1), (16, 1), (170, 1), (33, 1)]
if ON_GPU:
    MIXED += [(5000, 1), (1111, 700), (4096, 1000)]
    DECODES += [(5000, 1), (32000, 1), *[(97 * n + 1, 1) for n in range(30)]]


class Heads(tuple):
    query, kv, dim = (property(lambda self, at=at: self[at]) for at in range(3))


def assert_equals_reference(batch, scales, **options):
    scale = batch.query.shape[-1] ** -0.5
    out = torch.full_like(batch.query, torch.nan)  # every element must be written
    paged_attention(*batch, scale=scale, scales=scales, out=out, **options)
    options.pop("decode", None)
    wide = dataclasses.replace(batch, query=batch.query.float())
    expected = reference.paged_attention(*wide, scale=scale, scales=scales, **options)
    error = torch.linalg.vector_norm(out.float() - expected)
    assert error <= ERROR[out.dtype] * torch.linalg.vector_norm(expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize("lengths", [MIXED, DECODES], ids=["mixed", "decodes"])
def test_attention_over_ragged_batches_equals_the_reference(paged_batch, lengths, heads, dtype):
    if dtype == torch.float16 and not ON_GPU and heads != HEADS[1]:
        pytest.skip("the interpreter's arithmetic is the same for every shape")
    if dtype == torch.float32 and lengths is MIXED:
        lengths = MIXED[:5]
    batch = paged_batch(lengths, Heads(heads), dtype=dtype).in_e4m3(SCALES)
    assert_equals_reference(batch, SCALES)


@pytest.mark.parametrize("decode", [True, False])
def test_a_window_hides_older_keys_and_padding_is_zero(paged_batch, decode):
    batch = paged_batch([(40, 1), (7, 1)], Heads((4, 2, 64)), pad_seqs=1, pad_tokens=1)
    assert_equals_reference(batch.in_e4m3(SCALES), SCALES, window=5, decode=decode)


def test_parts_of_long_contexts_are_scaled_before_they_are_merged(paged_batch, monkeypatch):
    monkeypatch.setattr(tuning, "LEAST_SPLIT", ((2**30, 16),))
    monkeypatch.setattr(tuning, "PROGRAMS_PER_PROCESSOR", 64)
    batch = paged_batch([(900, 1), (5, 1), (64, 1)], Heads((4, 2, 64)))
    assert_equals_reference(batch.in_e4m3(SCALES), SCALES)


@pytest.mark.parametrize("lengths", [MIXED, DECODES], ids=["mixed", "decodes"])
def test_attention_is_near_that_over_the_numbers_before_they_were_rounded(paged_batch, lengths):
    exact = paged_batch(lengths, Heads((4, 2, 64)))
    expected = reference.paged_attention(*exact, scale=0.125)
    result = paged_attention(*exact.in_e4m3(SCALES), scale=0.125, scales=SCALES)
    error = torch.linalg.vector_norm(result - expected) / torch.linalg.vector_norm(expected)
    assert 1e-3 < error < 0.05  # a mantissa of three bits is off by 6 % at most, 2 % on average


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("heads", [(9, 3, 64), (3, 1, 96), (7, 1, 128)], ids=str)
def test_keys_and_values_are_written_as_the_reference_does(heads, dtype, device):
    query_heads, kv_heads, dim = heads
    tokens = 11
    merged = 8 * torch.randn(tokens, query_heads + 2 * kv_heads, dim, device=device).to(dtype)
    query, keys, values = merged.split([query_heads, kv_heads, kv_heads], 1)
    angles = torch.outer(torch.arange(50.0), 100 ** -torch.linspace(0, 1, dim // 2)).to(device)
    positions = torch.randint(50, (tokens,), device=device)
    slots = torch.randperm(5 * 16, device=device)[:tokens]
    slots[[2, -1]] = -1
    where = (angles.cos(), angles.sin(), positions, slots)
    caches = torch.zeros(4, 5, 16, kv_heads, dim, device=device).to(E4M3)
    scales = KVScales(keys=0.03, values=0.04)  # some numbers are beyond 448 scales
    operands = (query, keys, values)
    write = rotary_kv_write.rotary_kv_write
    expected = rotary_kv_write.reference.rotary_kv_write(
        *operands, caches[2], caches[3], *where, scales=scales
    )
    result = write(*operands, caches[0], caches[1], *where, scales=scales)
    torch.testing.assert_close(result, expected, rtol=1e-2, atol=1e-2)
    written, wanted = caches[:2].float(), caches[2:].float()
    assert wanted.abs().amax() == 448
    # A key that rotation rounds the other way may become the next e4m3 number, an eighth off.
    torch.testing.assert_close(written, wanted, rtol=0.13, atol=0.002)
    assert (written != wanted).float().mean() < 0.01
    assert torch.equal(written[1], wanted[1])


def test_too_large_numbers_saturate_and_nan_stays_nan(device):
    numbers = [1e30, -1e30, torch.inf, -torch.inf, torch.nan, 447.0, 500.0, 2**-9]
    values = torch.tensor(numbers, device=device).view(1, 1, 8)
    caches = torch.zeros(2, 1, 8, 1, 8, device=device).to(E4M3)
    zero = torch.zeros(1, dtype=torch.int64, device=device)
    angles = torch.ones(1, 4, device=device), torch.zeros(1, 4, device=device)
    rotary_kv_write.rotary_kv_write(values, values, values, *caches, *angles, zero, zero)
    expected = torch.tensor([448.0, -448, 448, -448, torch.nan, 448, 448, 2**-9], device=device)
    torch.testing.assert_close(caches[1, 0, 0, 0].float(), expected, equal_nan=True, rtol=0, atol=0)


@pytest.mark.skipif(not ON_GPU, reason="bfloat16 runs compiled alone")
@pytest.mark.parametrize("decode", [True, False])
def test_queries_beyond_float16_saturate(paged_batch, decode):
    batch = paged_batch([(40, 1), (7, 1)], Heads((4, 2, 64)), dtype=torch.bfloat16)
    batch = batch.in_e4m3(SCALES)
    batch.query.mul_(1e6)
    assert paged_attention(*batch, scale=0.1, scales=SCALES, decode=decode).isfinite().all()


@pytest.mark.skipif(not ON_GPU, reason="written for Hopper's units")
def test_the_16_bit_prefill_kernel_leaves_an_8_bit_cache_to_the_mixed_one(paged_batch):
    batch = paged_batch([(2000, 2000)], Heads((8, 2, 128)), dtype=torch.float16)
    assert prefill_launch.suits(batch.query, batch.k_cache, 1)
    batch = batch.in_e4m3(SCALES)
    assert not prefill_launch.suits(batch.query, batch.k_cache, 1)
    assert_equals_reference(batch, SCALES)
