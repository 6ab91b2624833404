"""Sampling in plain torch (temporary; the branch `kernels` has the real one)."""

from __future__ import annotations

import torch


def sample(logits, temperature, top_k, top_p, min_p, seed, position):  # type: ignore[no-untyped-def]
    """Return a token a row, int64 [rows]."""
    greedy = logits.argmax(-1)
    drawn = temperature >= 1e-5
    if not bool(drawn.any()):
        return greedy
    scaled = logits / temperature.clamp_min(1e-5)[:, None]
    ranked, order = scaled.sort(-1, descending=True)
    vocab = logits.shape[-1]
    limit = torch.where(top_k > 0, top_k, vocab)[:, None]
    ranked = ranked.masked_fill(torch.arange(vocab)[None] >= limit, float("-inf"))
    p = torch.softmax(ranked, -1)
    ranked = ranked.masked_fill((p.cumsum(-1) - p >= top_p[:, None]) & (top_p[:, None] < 1), float("-inf"))
    ranked = ranked.masked_fill(ranked < ranked[:, :1] + min_p.log()[:, None], float("-inf"))
    kept = torch.full_like(scaled, float("-inf")).scatter(-1, order, ranked)
    noise = torch.stack([
        torch.empty(vocab).exponential_(generator=torch.Generator().manual_seed(hash((s, n)) % 2**63))
        for s, n in zip(seed.tolist(), position.tolist(), strict=True)
    ])
    return torch.where(drawn, (torch.softmax(kept, -1) / noise).argmax(-1), greedy)
