import pytest
import torch

from kvasir_kernels.paged_attention import paged_attention, reference, tuning

if torch.cuda.is_available():
    from kvasir_kernels.paged_attention import prefill_launch

ON_GPU = torch.cuda.is_available()
ERROR = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1e-2}
GPU_HEADS = [
    *[(group * kv, kv, dim) for dim in (64, 128) for group, kv in ((1, 8), (2, 4), (4, 4), (7, 4))],
    *[(3, 1, 96), (6, 2, 96), (10, 2, 128), (9, 3, 64), (64, 8, 128), (40, 40, 128)],
]
CPU_HEADS = [(2, 2, 16), (3, 1, 32), (7, 1, 64), (8, 1, 16)]
HEADS = GPU_HEADS if ON_GPU else CPU_HEADS
DTYPES = [torch.float32, torch.float16, *([torch.bfloat16] if ON_GPU else [])]

MIXED = [(1, 1), (16, 1), (17, 17), (50, 3), (33, 1), (64, 64), (47, 30)]
DECODES = [(1, 1), (16, 1), (170, 1), (33, 1)]
if ON_GPU:
    MIXED += [(5000, 1), (1111, 700), (32000, 1), (4096, 1000), (300, 2)]
    DECODES += [(5000, 1), (4096, 1), (32000, 1), *[(97 * n + 1, 1) for n in range(30)]]


class Heads(tuple):
    query, kv, dim = (property(lambda self, at=at: self[at]) for at in range(3))


def assert_equals_reference(batch, *, window=None, decode=None):
    scale = batch.query.shape[-1] ** -0.5
    out = torch.full_like(batch.query, torch.nan)  # every element must be written
    result = paged_attention(*batch, scale=scale, window=window, decode=decode, out=out)
    assert result is out
    expected = reference.paged_attention(*batch, scale=scale, window=window).float()
    error = torch.linalg.vector_norm(out.float() - expected)
    assert error <= ERROR[out.dtype] * torch.linalg.vector_norm(expected)
    torch.testing.assert_close(out.float(), expected, rtol=0, atol=6 * ERROR[out.dtype])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize("lengths", [MIXED, DECODES], ids=["mixed", "decodes"])
def test_ragged_batches_equal_the_reference(paged_batch, lengths, heads, dtype):
    if dtype == torch.float16 and not ON_GPU and heads != HEADS[0]:
        pytest.skip("the interpreter's arithmetic is the same for every shape")
    if dtype == torch.float32 and ON_GPU and heads[2] == 128 and lengths is MIXED:
        lengths = MIXED[:7]
    assert_equals_reference(paged_batch(lengths, Heads(heads), dtype=dtype))


@pytest.mark.parametrize("window", [1, 5, 40])
@pytest.mark.parametrize("heads", HEADS[: 3 if ON_GPU else 2], ids=str)
@pytest.mark.parametrize("lengths", [MIXED, DECODES], ids=["mixed", "decodes"])
def test_a_window_hides_older_keys(paged_batch, lengths, heads, window):
    assert_equals_reference(paged_batch(lengths[:7], Heads(heads)), window=window)


@pytest.mark.parametrize("block_size", [8, 32, 64, 128] if ON_GPU else [8, 64])
def test_any_block_size_gives_the_same(paged_batch, block_size):
    for lengths in (MIXED[:7], DECODES[:4]):
        assert_equals_reference(paged_batch(lengths, Heads((4, 2, 16)), block_size=block_size))


@pytest.mark.parametrize(("pad_seqs", "pad_tokens"), [(0, 1), (3, 0), (2, 2), (1, 45), (4, 300)])
def test_padding_is_written_as_zeros(paged_batch, pad_seqs, pad_tokens):
    for lengths in ([(17, 17), (50, 1), (9, 2)], [(50, 1), (3, 1)]):
        batch = paged_batch(lengths, Heads((4, 2, 16)), pad_seqs=pad_seqs, pad_tokens=pad_tokens)
        assert_equals_reference(batch, decode=False)


def test_a_mixed_batch_may_have_as_many_tokens_as_sequences(paged_batch):
    batch = paged_batch([(20, 3), (30, 1)], Heads((4, 2, 16)), pad_seqs=2)
    assert len(batch.query) == len(batch.context_lens)
    assert_equals_reference(batch, decode=False)


def test_an_idle_sequence_between_others_costs_nothing(paged_batch):
    assert_equals_reference(paged_batch([(20, 3), (40, 0), (30, 1)], Heads((4, 2, 16))))


def test_more_sequences_than_are_searched_at_once_find_their_own(paged_batch):
    lengths = [(1 + n % 5, 1) for n in range(260)] + [(9, 4)]
    assert_equals_reference(paged_batch(lengths, Heads((1, 1, 16))), decode=False)


@pytest.mark.parametrize("heads", [(2, 2, 16), (4, 2, 16)], ids=str)
def test_long_contexts_are_split_and_merged(paged_batch, heads, monkeypatch):
    monkeypatch.setattr(tuning, "LEAST_SPLIT", ((2**30, 16),))
    monkeypatch.setattr(tuning, "PROGRAMS_PER_PROCESSOR", 64)
    assert_equals_reference(paged_batch([(900, 1), (5, 1), (64, 1)], Heads(heads)))


def test_queries_may_be_a_view_of_the_merged_projection(paged_batch):
    for lengths in (MIXED[:7], DECODES[:4]):
        batch = paged_batch(lengths, Heads((4, 2, 16)))
        merged = torch.randn(len(batch.query), 8, 16, device=batch.query.device)
        object.__setattr__(batch, "query", merged[:, 1:5])
        scale = 0.25
        torch.testing.assert_close(
            paged_attention(*batch, scale=scale), reference.paged_attention(*batch, scale=scale)
        )


def test_a_full_card_splits_only_long_contexts_and_an_empty_one_all():
    assert tuning.split(programs=1024, longest=1024, processors=132).parts == 1
    long = tuning.split(programs=1024, longest=32768, processors=132)
    assert long.parts > 1
    assert long.least >= 1024
    alone = tuning.split(programs=4, longest=32768, processors=132)
    assert 4 * alone.parts >= 132


@pytest.mark.skipif(not ON_GPU, reason="written for Hopper's units")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize(
    ("heads", "block_size"),
    [
        *[(heads, 16) for heads in [(4, 4), (4, 2), (6, 2), (28, 4), (16, 2), (40, 40)]],
        *[((28, 4), block_size) for block_size in [8, 32, 128]],
    ],
    ids=str,
)
def test_prefill_equals_the_reference(paged_batch, heads, block_size, dtype, long, monkeypatch):
    monkeypatch.setattr(tuning, "PREFILL_TOKENS", 0)
    monkeypatch.setattr(tuning, "PREFILL_TOKENS_MULTI_HEAD", 0)
    monkeypatch.setattr(tuning, "PREFILL_LONG_TOKENS", 0 if long else 10**9)
    if block_size > tuning.prefill_tile(1, 1).keys:
        pytest.skip("a block is at most a tile")
    ragged = [(1, 1), (128, 128), (129, 129), (17, 17), (50, 3), (1, 1), (700, 300), (5000, 1)]
    for lengths in (ragged, [(3000, 2000)], [(127, 1), (4096, 257)]):
        batch = paged_batch(
            lengths, Heads((*heads, 128)), dtype=dtype, block_size=block_size,
            pad_seqs=len(lengths) - 1, pad_tokens=33 * (len(lengths) - 1),
        )  # fmt: skip
        assert prefill_launch.suits(batch.query, batch.k_cache, len(batch.context_lens))
        assert_equals_reference(batch, decode=False)


@pytest.mark.skipif(not ON_GPU, reason="needs 9 GB of a GPU's memory")
@pytest.mark.parametrize("decode", [True, False])
def test_caches_may_have_more_elements_than_32_bits_count(device, decode):
    blocks = 2**31 // (16 * 8 * 128) + 1000
    caches = torch.zeros(2, blocks, 16, 8, 128, dtype=torch.float16, device=device)
    caches[:, -40:] = torch.randn_like(caches[:, -40:])
    tables = torch.arange(blocks - 40, blocks, dtype=torch.int32, device=device)[None]
    operands = (
        torch.randn(1, 32, 128, dtype=torch.float16, device=device),
        *(caches[0], caches[1], torch.tensor([0, 1], device=device, dtype=torch.int32)),
        *(torch.tensor([600], device=device, dtype=torch.int32), tables),
    )
    result = paged_attention(*operands, scale=0.1, decode=decode)
    expected = reference.paged_attention(*operands, scale=0.1)
    torch.testing.assert_close(result, expected, rtol=0, atol=5e-3)


@pytest.mark.skipif(not ON_GPU, reason="CUDA graphs")
@pytest.mark.parametrize("decode", [True, False])
def test_a_captured_launch_serves_other_batches_of_its_sizes(paged_batch, decode):
    first = paged_batch([(900, 1), (800, 1), (40, 1)], Heads((14, 2, 128)), dtype=torch.bfloat16)
    paged_attention(*first, scale=0.1, decode=decode)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = paged_attention(*first, scale=0.1, decode=decode)
    for contexts in ([900, 800, 40], [30, 700, 1], [899, 0, 0]):
        first.context_lens.copy_(torch.tensor(contexts))
        starts = torch.tensor([0, 1, 2, 3]).clamp(max=sum(c > 0 for c in contexts))
        first.query_start.copy_(starts)
        graph.replay()
        expected = reference.paged_attention(*first, scale=0.1)
        torch.testing.assert_close(out, expected, rtol=0, atol=2e-2)
