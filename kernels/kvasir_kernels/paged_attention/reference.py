"""Paged attention in plain torch, one sequence at a time: the yardstick, and what a CPU runs.

The block table follows PagedAttention (Kwon et al., SOSP 2023, https://arxiv.org/abs/2309.06180).
Only slots below a sequence's context length are ever read, so whatever lies in unowned blocks
(NaN in the tests) can't reach the output.
"""

from __future__ import annotations

import torch


def paged_attention(  # noqa: PLR0913  (the operation's operands)
    query: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    query_start: torch.Tensor,
    context_lens: torch.Tensor,
    block_tables: torch.Tensor,
    *,
    scale: float,
    window: int | None = None,
) -> torch.Tensor:
    """Attend each sequence's new tokens to all of its tokens so far, causally.

    query: [tokens, heads, dim], the new tokens of all sequences, one sequence after another.
    k_cache, v_cache: [blocks, block_size, kv_heads, dim], the new tokens' keys already written.
    query_start: int [seqs + 1], where each sequence's new tokens begin in `query`.
    context_lens: int [seqs], tokens of each sequence, the new ones included.
    block_tables: int [seqs, max_blocks]; only the first ceil(context / block_size) are read.
    window: each token sees itself and the window - 1 tokens before it; None sees all.
    Returns [tokens, heads, dim] in query's dtype.
    """
    output = torch.empty_like(query)
    starts, lens = query_start.tolist(), context_lens.tolist()
    block_size = k_cache.shape[1]
    for seq, context in enumerate(lens):
        rows = slice(starts[seq], starts[seq + 1])
        if rows.start == rows.stop:
            continue
        blocks = block_tables[seq, : -(-context // block_size)].long()
        keys = k_cache[blocks].flatten(0, 1)[:context]  # [context, kv_heads, dim]
        values = v_cache[blocks].flatten(0, 1)[:context]
        output[rows] = _attend(query[rows], keys, values, scale=scale, window=window)
    return output


def _attend(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    *,
    scale: float,
    window: int | None,
) -> torch.Tensor:
    """Attend one sequence: [new, heads, dim] over [context, kv_heads, dim]."""
    new, heads, dim = query.shape
    context, kv_heads, _ = keys.shape
    grouped = query.view(new, kv_heads, heads // kv_heads, dim).permute(1, 2, 0, 3)
    rows = grouped.reshape(kv_heads, -1, dim).float()  # [kv_heads, group * new, dim]
    scores = torch.bmm(rows, keys.permute(1, 2, 0).float()) * scale
    mask = _hidden(new, context, window, query.device)
    if mask is not None:
        scores.view(kv_heads, -1, new, context).masked_fill_(mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    mixed = torch.bmm(weights, values.transpose(0, 1).float())
    mixed = mixed.view(kv_heads, heads // kv_heads, new, dim).permute(2, 0, 1, 3)
    return mixed.reshape(new, heads, dim).to(query.dtype)


def _hidden(
    new: int, context: int, window: int | None, device: torch.device
) -> torch.Tensor | None:
    """Return which keys each new token must not see, bool [new, context]; None when it sees all."""
    if new == 1 and (window is None or context <= window):
        return None
    position = torch.arange(context - new, context, device=device)[:, None]
    key = torch.arange(context, device=device)[None, :]
    hidden = key > position
    if window is not None:
        hidden |= key <= position - window
    return hidden
