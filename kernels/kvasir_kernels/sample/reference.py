"""Sampling in plain torch."""

from __future__ import annotations

import torch

from kvasir_kernels.sample.noise import exponential_noise

GREEDY = 1e-5  # a temperature below this takes the most likely token


def sample(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
    seed: torch.Tensor,
    position: torch.Tensor,
    *,
    rows: torch.Tensor | None = None,
    pool: torch.Tensor | None = None,
) -> torch.Tensor:
    """Choose a token for each row of logits, [rows, vocab], of any floating dtype.

    temperature, top_p, min_p: float32; top_k: int32; seed: int64; each with an entry for every row,
    or, where `rows` is given, row i's at rows[i] (int64 [rows]). position: int, [rows].
    pool: int64; row i's token is written there too, at rows[i].
    Top-k keeps the k largest logits (0 or less: all), top-p of those the fewest that hold at least
    that share of their probability (1 or more: all), min-p those at least that fraction as likely
    as the likeliest. A token as likely as the last one kept is kept too. The draw takes the largest
    p / Exp(1), which is distributed as p, by the noise of the row's seed and position.
    Returns int64 [rows]; the lowest id among equals; 0 for a row without a number.
    """
    if rows is not None:
        temperature, top_k, top_p = temperature[rows], top_k[rows], top_p[rows]
        min_p, seed = min_p[rows], seed[rows]
    logits = logits.float().nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
    tokens = logits.argmax(-1)
    drawn = (temperature >= GREEDY).nonzero().flatten()
    if len(drawn):  # what greedy rows don't need is most of the work
        limits = (top_k[drawn], top_p[drawn], min_p[drawn])
        noise = exponential_noise(seed[drawn], position[drawn].long(), logits.shape[1])
        tokens[drawn] = _draw(logits[drawn], 1.0 / temperature[drawn, None], *limits, noise)
    if pool is not None:
        pool[slice(len(tokens)) if rows is None else rows] = tokens
    return tokens


def _draw(
    logits: torch.Tensor,
    inverse: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
    noise: torch.Tensor,
) -> torch.Tensor:
    """Draw a token for each row; inverse: 1 / temperature, [rows, 1]; noise: [rows, vocab]."""
    score = logits * inverse - noise.log()
    truncated = ((top_k > 0) & (top_k < logits.shape[1])) | (top_p < 1.0) | (min_p > 0.0)
    if truncated.any():
        least = threshold(logits, inverse, top_k, top_p, min_p)
        score = score.masked_fill(logits < least, -torch.inf)
    return score.argmax(-1)


def threshold(
    logits: torch.Tensor,
    inverse: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
) -> torch.Tensor:
    """Return the least logit each row keeps, [rows, 1]; inverse: 1 / temperature, [rows, 1]."""
    vocab = logits.shape[1]
    ranked = logits.sort(dim=-1, descending=True).values
    last = torch.where((top_k <= 0) | (top_k > vocab), vocab, top_k).long() - 1
    least = ranked.gather(1, last[:, None])
    peak = ranked[:, :1]
    weight = torch.exp((ranked - peak) * inverse).masked_fill(ranked < least, 0.0)
    held = weight.double().cumsum(-1)  # float32 drifts over a vocabulary by more than a token
    enough = held >= top_p[:, None] * held[:, -1:]
    nucleus = ranked.gather(1, enough.int().argmax(-1, keepdim=True))
    least = torch.where(top_p[:, None] < 1.0, torch.maximum(least, nucleus), least)
    likely = peak + min_p.log()[:, None] / inverse
    return torch.where(min_p[:, None] > 0.0, torch.maximum(least, likely), least)
