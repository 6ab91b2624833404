"""From scores to tokens, for a whole batch at once.

Penalties, then temperature, then top-k, top-p and min-p, then a draw by exponential noise: the
largest p / Exp(1) is distributed as p. The noise of a row depends on its request's seed and the
position alone, so a request draws the same tokens in whatever company, and after a preemption.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows
from dataclasses import dataclass

import torch

from kvasir_runtime.engine.sequence import Sequence
from kvasir_runtime.messages import TokenLogprobs


@dataclass(frozen=True, slots=True)
class Sampled:
    """One row's token, with its log-probabilities where the request wants them."""

    token_id: int
    logprobs: TokenLogprobs | None


def sample(logits: torch.Tensor, seqs: Rows[Sequence], eos: frozenset[int]) -> list[Sampled]:
    """Choose a token for each sequence; logits: float32 [rows, vocab], changed in place."""
    wanted = [seq.params.logprobs for seq in seqs]
    raw = torch.log_softmax(logits, -1) if any(n is not None for n in wanted) else None
    _penalise(logits, seqs)
    _forbid_early_end(logits, seqs, eos)
    tokens = logits.argmax(-1)
    drawn = [row for row, seq in enumerate(seqs) if not seq.params.greedy]
    if drawn:
        tokens[drawn] = _draw(logits[drawn], [seqs[row] for row in drawn])
    chosen = tokens.tolist()
    if raw is None:
        return [Sampled(token, None) for token in chosen]
    return [
        Sampled(token, None if n is None else _logprobs(raw[row], token, n))
        for row, (token, n) in enumerate(zip(chosen, wanted, strict=True))
    ]


def _penalise(logits: torch.Tensor, seqs: Rows[Sequence]) -> None:
    for row, seq in enumerate(seqs):
        params = seq.params
        if not params.penalised:
            continue
        scores = logits[row]
        if params.repetition_penalty != 1.0:
            seen, penalty = _counts(seq.token_ids, scores) > 0, params.repetition_penalty
            penalised = torch.where(scores > 0, scores / penalty, scores * penalty)
            scores.copy_(torch.where(seen, penalised, scores))
        if params.presence_penalty or params.frequency_penalty:
            counts = _counts(seq.token_ids[seq.num_prompt :], scores)
            scores -= params.presence_penalty * (counts > 0) + params.frequency_penalty * counts


def _counts(token_ids: list[int], scores: torch.Tensor) -> torch.Tensor:
    """Return how often each token of the vocabulary occurs, [vocab]."""
    ids = torch.tensor(token_ids, dtype=torch.long, device=scores.device)
    return torch.bincount(ids, minlength=len(scores))


def _forbid_early_end(logits: torch.Tensor, seqs: Rows[Sequence], eos: frozenset[int]) -> None:
    for row, seq in enumerate(seqs):
        if seq.num_generated < seq.params.min_tokens:
            ends = sorted(seq.params.stop_ids | eos)
            logits[row, torch.tensor(ends, device=logits.device, dtype=torch.long)] = float("-inf")


def _draw(logits: torch.Tensor, seqs: Rows[Sequence]) -> torch.Tensor:
    """Draw one token a row, [rows], from the truncated distributions."""
    temperature = [seq.params.temperature for seq in seqs]
    logits = logits / torch.tensor(temperature, device=logits.device)[:, None]
    logits = truncate(
        logits,
        top_k=[seq.params.top_k for seq in seqs],
        top_p=[seq.params.top_p for seq in seqs],
        min_p=[seq.params.min_p for seq in seqs],
    )
    noise = torch.stack([_noise(seq, logits.shape[-1]) for seq in seqs]).to(logits.device)
    return (torch.softmax(logits, -1) / noise).argmax(-1)


def _noise(seq: Sequence, vocab: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(hash((seq.seed, len(seq.token_ids))) % 2**63)
    return torch.empty(vocab).exponential_(generator=generator)


def truncate(
    logits: torch.Tensor, *, top_k: list[int], top_p: list[float], min_p: list[float]
) -> torch.Tensor:
    """Return logits, [rows, vocab], with -inf wherever top-k, top-p or min-p exclude a token.

    top_k at or below 0, top_p of 1 and min_p of 0 exclude nothing. Top-p keeps the smallest set of
    most likely tokens that holds at least that probability, so always at least one.
    """
    vocab = logits.shape[-1]
    if all(k <= 0 or k >= vocab for k in top_k) and all(p >= 1 for p in top_p):
        return _apply_min_p(logits, min_p)
    ranked, order = logits.sort(dim=-1, descending=True)
    limits = torch.tensor([k if k > 0 else vocab for k in top_k], device=logits.device)
    ranks = torch.arange(vocab, device=logits.device)
    ranked = ranked.masked_fill(ranks[None, :] >= limits[:, None], float("-inf"))
    probabilities = torch.softmax(ranked, -1)
    before = probabilities.cumsum(-1) - probabilities
    share = torch.tensor(top_p, device=logits.device)[:, None]
    # A share of 1 keeps everything, however the cumulative sum was rounded.
    ranked = ranked.masked_fill((before >= share) & (share < 1), float("-inf"))
    kept = torch.full_like(logits, float("-inf")).scatter(-1, order, ranked)
    return _apply_min_p(kept, min_p)


def _apply_min_p(logits: torch.Tensor, min_p: list[float]) -> torch.Tensor:
    if not any(min_p):
        return logits
    # log(p / p_max) is the distance to the largest score: no softmax is needed.
    floor = torch.tensor(min_p, device=logits.device).log()[:, None]
    return logits.masked_fill(logits < logits.amax(-1, keepdim=True) + floor, float("-inf"))


def _logprobs(raw: torch.Tensor, token: int, count: int) -> TokenLogprobs:
    """Describe one position: the chosen token's log-probability and rank, and the top `count`."""
    own = raw[token]
    rank = int((raw > own).sum()) + 1
    values, ids = raw.topk(count)
    top = tuple(zip(ids.tolist(), values.tolist(), strict=True))
    return TokenLogprobs(token, float(own), rank, top)
