import pytest
import torch

from kvasir_kernels import embed, rms_norm, rotary_kv_write, silu_mul

ON_GPU = torch.cuda.is_available()
DTYPES = [torch.float32, torch.float16, *([torch.bfloat16] if ON_GPU else [])]
# A unit in the last place, or two where a rounded value is rounded again.
CLOSE = {
    torch.float32: {"rtol": 2e-6, "atol": 2e-6},
    torch.float16: {"rtol": 2e-3, "atol": 1e-3},
    torch.bfloat16: {"rtol": 1.6e-2, "atol": 1e-2},
}
ROWS = [(1, 64), (5, 96), (3, 576), (2, 3584)] + ([(1000, 5120), (333, 8192)] if ON_GPU else [])
HEADS = [(4, 2, 32), (9, 3, 64), (3, 1, 96)] + ([(28, 4, 128), (40, 40, 128)] if ON_GPU else [])

pytestmark = pytest.mark.parametrize("dtype", DTYPES, ids=str)


@pytest.mark.parametrize("shape", ROWS, ids=str)
def test_norms_equal_the_reference(shape, dtype, device):
    x, residual = torch.randn(2, *shape, device=device).to(dtype)
    weight = torch.randn(shape[1], device=device).to(dtype)
    normal = rms_norm.rms_norm(x, weight, 1e-5)
    expected = rms_norm.reference.rms_norm(x, weight, 1e-5)
    torch.testing.assert_close(normal, expected, **CLOSE[dtype])
    both = rms_norm.add_rms_norm(x, residual, weight, 1e-5)
    expected = rms_norm.reference.add_rms_norm(x, residual, weight, 1e-5)
    torch.testing.assert_close(both, expected, **CLOSE[dtype])


def test_norms_take_the_heads_of_a_merged_projection(dtype, device):
    merged = torch.randn(37, 10, 32, device=device).to(dtype)
    heads, weight = merged[:, 2:7], torch.randn(32, device=device).to(dtype)
    expected = rms_norm.reference.rms_norm(heads, weight, 1e-6)
    torch.testing.assert_close(rms_norm.rms_norm(heads, weight, 1e-6), expected, **CLOSE[dtype])


@pytest.mark.parametrize("shape", [(1, 128), (3, 2000), (7, 2, 34)], ids=str)
def test_the_gated_activation_equals_the_reference(shape, dtype, device):
    gate_up = (3 * torch.randn(shape, device=device)).to(dtype)
    expected = silu_mul.reference.silu_mul(gate_up)
    torch.testing.assert_close(silu_mul.silu_mul(gate_up), expected, **CLOSE[dtype])


@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize("in_place", [False, True])
def test_rotation_and_write_equal_the_reference(heads, in_place, dtype, device):
    query_heads, kv_heads, dim = heads
    tokens = 11
    merged = torch.randn(tokens, query_heads + 2 * kv_heads, dim, device=device).to(dtype)
    query, keys, values = merged.split([query_heads, kv_heads, kv_heads], 1)
    angles = torch.outer(torch.arange(50.0), 100 ** -torch.linspace(0, 1, dim // 2)).to(device)
    positions = torch.randint(50, (tokens,), device=device)
    slots = torch.randperm(5 * 16, device=device)[:tokens]
    slots[[2, -1]] = -1
    tables = (angles.cos(), angles.sin(), positions, slots)
    caches = torch.randn(4, 5, 16, kv_heads, dim, device=device).to(dtype)
    caches[2:] = caches[:2]
    expected = rotary_kv_write.reference.rotary_kv_write(
        query, keys, values, caches[2], caches[3], *tables
    )
    out = query if in_place else None
    result = rotary_kv_write.rotary_kv_write(
        query, keys, values, caches[0], caches[1], *tables, out=out
    )
    assert not in_place or result is query
    torch.testing.assert_close(result, expected, **CLOSE[dtype])
    torch.testing.assert_close(caches[:2], caches[2:], **CLOSE[dtype])


@pytest.mark.parametrize("hidden", [70, 2048])
def test_tokens_the_device_sampled_are_embedded_from_its_pool(hidden, dtype, device):
    table = torch.randn(100, hidden, device=device).to(dtype)
    token_ids, pool = torch.randint(100, (2, 200), device=device)
    source = torch.randint(-1, 200, (200,), device=device)
    source[::3] = -1
    expected = embed.reference.embed(token_ids, source, pool, table)
    assert torch.equal(embed.embed(token_ids, source, pool, table), expected)
    ids = embed.reference.gather_tokens(token_ids, source, pool)
    assert torch.equal(embed.gather_tokens(token_ids, source, pool), ids)
