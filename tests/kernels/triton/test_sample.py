import pytest
import torch
import triton
import triton.language as tl

from kvasir_kernels.sample import kernel, noise, reference, sample

ON_GPU = torch.cuda.is_available()
VOCAB = 152064 if ON_GPU else 5001
ROWS = 96 if ON_GPU else 24


def params(rows, device, **given):
    """Operands of a draw; keywords are values for every row, or lists repeated over the rows."""
    defaults = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
    dtypes = {"top_k": torch.int32}
    columns = []
    for name, default in defaults.items():
        value = given.get(name, default)
        values = value if isinstance(value, list) else [value]
        column = (values * rows)[:rows]
        columns.append(torch.tensor(column, dtype=dtypes.get(name, torch.float32), device=device))
    generator = torch.Generator().manual_seed(given.get("seed", 1))
    seeds = torch.randint(-(2**62), 2**62, (rows,), generator=generator).to(device)
    positions = torch.randint(2**20, (rows,), generator=generator).to(device)
    return (*columns, seeds, positions)


LOGITS = {
    "fine": lambda: torch.randn(ROWS, VOCAB) * 3,
    "half": lambda: (torch.randn(ROWS, VOCAB) * 3).half(),
    "tied": lambda: (torch.randn(ROWS, VOCAB) * 8).round() / 4,
    "peaked": lambda: torch.randn(ROWS, VOCAB).exp() * 4,
    "masked": lambda: (torch.randn(ROWS, VOCAB) * 3).masked_fill(
        torch.rand(ROWS, VOCAB) < 0.99, -torch.inf
    ),
}


@pytest.mark.parametrize("kind", LOGITS)
def test_kernel_and_reference_draw_the_same_tokens(kind, device):
    logits = LOGITS[kind]().to(device)
    operands = params(
        ROWS,
        device,
        temperature=[0.0, 0.5, 1.0, 2.0, 1.0],
        top_k=[0, 1, 5, 40, -1, VOCAB, 500],
        top_p=[1.0, 0.9, 0.3, 0.99, 1e-6, 0.0],
        min_p=[0.0, 0.0, 0.1, 0.0],
    )
    tokens = sample(logits, *operands)
    expected = reference.sample(logits, *operands)
    # Another order of a sum, or another last digit of a logarithm, may move one row in thousands.
    assert int((tokens != expected).sum()) <= (2 if ON_GPU else 1)


@pytest.mark.parametrize("kind", LOGITS)
@pytest.mark.parametrize("listed", [8, 4096])
def test_thresholds_are_exact(kind, listed, device, monkeypatch):
    monkeypatch.setattr(kernel.tuning, "LISTED", listed)
    logits = LOGITS[kind]().to(device)[: None if ON_GPU else 8]
    cases = [{"top_k": [1, 2, 7, 90, 1500]}, {"top_p": [0.01, 0.5, 0.9, 0.999]}]
    cases += [{"top_k": [50, 3], "top_p": [0.9, 0.2, 0.6]}, {"top_p": 0.9, "min_p": [0.2, 0.01]}]
    for case in cases:
        temperature, *limits, _, _ = params(
            len(logits), device, temperature=[1.0, 0.6, 2.0], **case
        )
        rows = torch.arange(len(logits), device=device)
        found = kernel.thresholds(logits, rows, temperature, *limits)
        expected = reference.threshold(logits.float(), (1 / temperature)[:, None], *limits)
        kept = ((logits >= found[:, None]) & logits.isfinite()).sum(-1)
        wanted = ((logits >= expected) & logits.isfinite()).sum(-1)
        # A nucleus ends where a rounded sum does: at the one or the other of two nearest values.
        allowed = wanted // 500 + 1 if "top_p" in case else 0
        assert ((kept - wanted).abs() <= allowed).all(), (case, kept, wanted)


def test_noise_is_tritons_philox_bit_for_bit(device):
    seeds = torch.tensor([0, 1, -1, 2**40 + 7], device=device)
    positions = torch.tensor([0, 5, 2**31 - 1, 9], device=device)
    words = torch.empty(4, 64, dtype=torch.int32, device=device)
    for row in range(4):
        _philox[1,](words[row], seeds[row : row + 1], positions[row : row + 1], num_warps=1)
    expected = noise.random_words(seeds, positions, 64)
    assert torch.equal(words.long() & noise.MASK, expected)


@triton.jit
def _philox(words, seed, position):
    counter = tl.arange(0, 16)
    zero = counter * 0
    at = zero + tl.load(position).to(tl.int32)
    drawn = tl.philox(tl.load(seed), counter, at, zero, zero)
    for word in tl.static_range(4):
        tl.store(words + counter * 4 + word, drawn[word].to(tl.int32, bitcast=True))


def test_greedy_rows_take_the_first_of_the_most_likely(device):
    logits = torch.zeros(3, 9000, device=device)
    logits[0, 8999], logits[1, [4, 8000]], logits[2] = 1.0, 2.0, -torch.inf
    operands = params(3, device, temperature=0.0, top_k=5, top_p=0.5)
    assert sample(logits, *operands).tolist() == [8999, 4, 0]


def test_a_row_draws_the_same_in_any_company(device):
    logits = torch.randn(21, 3000, device=device)
    operands = params(21, device, top_p=[1.0, 0.9], top_k=[0, 0, 30])
    together = sample(logits, *operands)
    alone = [
        sample(logits[row : row + 1], *[column[row : row + 1] for column in operands])
        for row in range(0, 21, 7)
    ]
    assert torch.cat(alone).tolist() == together[::7].tolist()


def test_draws_follow_the_distribution(device):
    rows = 4096 if ON_GPU else 300
    logits = torch.tensor([0.0, 1.0, 2.0, -1.0, -3.0], device=device)
    tokens = sample(logits.repeat(rows, 1), *params(rows, device, temperature=0.8))
    seen = torch.bincount(tokens, minlength=5) / rows
    torch.testing.assert_close(seen, torch.softmax(logits / 0.8, 0), rtol=0, atol=0.07)


def test_truncated_rows_never_leave_the_kept_tokens(device):
    rows = 400 if ON_GPU else 25
    logits = torch.tensor([0.0, 1.0, 2.0, 3.0], device=device)  # 0.032, 0.087, 0.237, 0.644
    cases = [({"top_k": 2}, 2), ({"top_p": 0.7}, 2), ({"top_p": 0.6}, 3), ({"min_p": 0.3}, 2)]
    for given, least in cases:
        tokens = sample(logits.repeat(rows, 1), *params(rows, device, **given))
        assert set(tokens.tolist()) == set(range(least, 4))


def test_rows_of_strange_numbers_still_give_a_token(device):
    logits = torch.full((3, 2000), torch.nan, device=device)
    logits[1], logits[2, :50] = -torch.inf, 1.0
    operands = params(3, device, top_k=3, top_p=0.9, min_p=0.1)
    tokens = sample(logits, *operands)
    assert tokens[:2].tolist() == [0, 0]
    assert 0 <= int(tokens[2]) < 50


def test_rows_find_their_parameters_and_leave_their_tokens_in_the_pool(device):
    logits = torch.randn(5, 3000, device=device)
    operands = params(9, device, temperature=[0.0, 1.0, 0.7], top_k=[0, 0, 30])
    rows = torch.tensor([8, 0, 3, 5, 1], device=device)
    *columns, positions = operands
    expected = sample(logits, *[column[rows] for column in columns], positions[:5])
    pool = torch.full((9,), -1, device=device)
    tokens = sample(logits, *columns, positions[:5].int(), rows=rows, pool=pool)
    assert tokens.tolist() == expected.tolist()
    assert pool[rows].tolist() == tokens.tolist()
    assert pool.tolist().count(-1) == 4
    assert reference.sample(logits, *columns, positions[:5], rows=rows, pool=pool).tolist() == (
        tokens.tolist()
    )
