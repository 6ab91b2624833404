import math

import pytest
import torch

from kvasir_kernels.kv_scales import E4M3, LARGEST, KVScales, to_cache
from kvasir_kernels.kv_write import write_kv
from kvasir_kernels.paged_attention import paged_attention

BLOCK = 16


def naive(query, keys, values, window):
    """One sequence, one head and one token at a time."""
    new, heads, dim = query.shape
    context, kv_heads, _ = keys.shape
    output = torch.empty_like(query)
    for token in range(new):
        last = context - new + token
        first = 0 if window is None else max(0, last - window + 1)
        for head in range(heads):
            kv = head // (heads // kv_heads)
            scores = keys[first : last + 1, kv] @ query[token, head] / math.sqrt(dim)
            output[token, head] = torch.softmax(scores, 0) @ values[first : last + 1, kv]
    return output


def paged_batch(lengths, heads, kv_heads, dim):
    """Scatter random sequences over shuffled blocks of a cache that is NaN everywhere else."""
    generator = torch.Generator().manual_seed(3)
    needed = [-(-context // BLOCK) for context, _ in lengths]
    order = torch.randperm(sum(needed) + 5, generator=generator).tolist()
    k_cache = torch.full((len(order), BLOCK, kv_heads, dim), math.nan)
    v_cache = torch.full_like(k_cache, math.nan)
    tables = torch.zeros((len(lengths), max(needed)), dtype=torch.int32)
    queries, expected = [], []
    for row, (context, new) in enumerate(lengths):
        blocks = [order.pop() for _ in range(needed[row])]
        tables[row, : len(blocks)] = torch.tensor(blocks)
        keys, values = torch.randn(2, context, kv_heads, dim, generator=generator)
        position = torch.arange(context)
        slots = torch.tensor(blocks)[position // BLOCK] * BLOCK + position % BLOCK
        write_kv(keys, values, k_cache, v_cache, slots)
        queries.append(torch.randn(new, heads, dim, generator=generator))
        expected.append((queries[-1], keys, values))
    starts = torch.tensor([0, *(new for _, new in lengths)]).cumsum(0).to(torch.int32)
    contexts = torch.tensor([context for context, _ in lengths], dtype=torch.int32)
    return torch.cat(queries), k_cache, v_cache, starts, contexts, tables, expected


@pytest.mark.parametrize(("heads", "kv_heads", "dim"), [(4, 4, 16), (6, 2, 32), (9, 3, 64)])
@pytest.mark.parametrize("window", [None, 5, 40])
def test_ragged_mixed_batch_equals_naive_attention(heads, kv_heads, dim, window):
    lengths = [(1, 1), (16, 1), (17, 17), (50, 3), (33, 1), (64, 64), (47, 30)]
    *operands, expected = paged_batch(lengths, heads, kv_heads, dim)
    output = paged_attention(*operands, scale=dim**-0.5, window=window)
    reference = torch.cat([naive(q, k, v, window) for q, k, v in expected])
    torch.testing.assert_close(output, reference, rtol=1e-5, atol=1e-5)


def test_nothing_beyond_a_sequences_length_is_read():
    *operands, _ = paged_batch([(5, 2), (18, 1)], 4, 2, 16)
    assert not paged_attention(*operands, scale=0.25).isnan().any()


def test_half_precision_accumulates_in_float32():
    *operands, expected = paged_batch([(200, 1)], 4, 2, 32)
    query, k_cache, v_cache, *rest = operands
    output = paged_attention(query.half(), k_cache.half(), v_cache.half(), *rest, scale=32**-0.5)
    reference = torch.cat([naive(q, k, v, None) for q, k, v in expected])
    assert output.dtype == torch.float16
    torch.testing.assert_close(output.float(), reference, rtol=5e-3, atol=5e-3)


def test_an_e4m3_cache_is_attended_as_its_scaled_numbers():
    scales = KVScales(keys=0.02, values=7.0)
    query, k_cache, v_cache, *rest, _ = paged_batch(
        [(50, 3), (17, 17), (33, 1), (30, 1), (37, 1), (34, 1)], 6, 2, 32
    )
    small = [
        to_cache(cache, E4M3, scale)
        for cache, scale in ((k_cache, scales.keys), (v_cache, scales.values))
    ]
    plain = [cache.float() * s for cache, s in zip(small, (0.02, 7.0), strict=True)]
    output = paged_attention(query, *small, *rest, scale=0.2, scales=scales)
    expected = paged_attention(query, *plain, *rest, scale=0.2)
    torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-5)


def test_a_number_in_an_e4m3_cache_is_off_by_a_sixteenth_at_most_and_saturates():
    keys = torch.cat((torch.randn(2, 2, 32).clamp(min=0.01), torch.full((1, 2, 32), 1e9)))
    cache = torch.zeros(2, 1, 4, 2, 32).to(E4M3)
    scales = KVScales(keys=0.01, values=0.5)
    write_kv(keys, -keys, *cache, torch.tensor([2, 0, 1]), scales=scales)
    stored = cache.float()[:, 0, [2, 0, 1]] * torch.tensor([0.01, -0.5]).view(2, 1, 1, 1)
    assert torch.allclose(stored[0, :2], keys[:2], rtol=1 / 16 + 1e-6, atol=0)
    assert torch.allclose(stored[1, :2], keys[:2], rtol=1 / 16 + 1e-6, atol=0.5 * 2**-10)
    assert (stored[:, 2] == LARGEST * torch.tensor([0.01, 0.5]).view(2, 1, 1)).all()


def test_long_prompts_are_computed_in_parts_with_the_same_result(monkeypatch):
    from kvasir_kernels.paged_attention import reference

    *operands, _ = paged_batch([(50, 50), (33, 20)], 4, 2, 16)
    whole = paged_attention(*operands, scale=0.25, window=13)
    monkeypatch.setattr(reference, "MAX_SCORES", 4 * 50 * 7)
    torch.testing.assert_close(paged_attention(*operands, scale=0.25, window=13), whole)


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2), (3, 1)])
@pytest.mark.parametrize("window", [None, 7, 40])
def test_decodes_of_like_lengths_equal_naive_attention(heads, kv_heads, window):
    decodes = [1, 16, 17, 33, 40, 3, 200, 190, 170, 199, 64]
    lengths = [(context, 1) for context in decodes]
    lengths[2:2] = [(5, 5), (90, 70)]  # prompts between them
    *operands, expected = paged_batch(lengths, heads, kv_heads, 16)
    output = paged_attention(*operands, scale=0.25, window=window)
    reference = torch.cat([naive(q, k, v, window) for q, k, v in expected])
    torch.testing.assert_close(output, reference, rtol=1e-5, atol=1e-5)
