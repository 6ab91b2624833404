"""Paged attention in plain torch, one sequence at a time: the yardstick, and what a CPU runs.

The block table follows PagedAttention (Kwon et al., SOSP 2023, https://arxiv.org/abs/2309.06180).
Only slots below a sequence's context length are ever read, so whatever lies in unowned blocks
(NaN in the tests) can't reach the output.
"""

from __future__ import annotations

import torch

from kvasir_kernels.kv_scales import E4M3, UNSCALED, KVScales

MAX_SCORES = 2**26  # elements of scores held at once: 256 MiB in float32


def paged_attention(
    query: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    query_start: torch.Tensor,
    context_lens: torch.Tensor,
    block_tables: torch.Tensor,
    *,
    scale: float,
    window: int | None = None,
    scales: KVScales = UNSCALED,
    decode: bool | None = None,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attend each sequence's new tokens to all of its tokens so far, causally.

    query: [tokens, heads, dim], the new tokens of all sequences, one sequence after another.
    k_cache, v_cache: [blocks, block_size, kv_heads, dim], the new tokens' keys already written.
    query_start: int [seqs + 1], where each sequence's new tokens begin in `query`.
    context_lens: int [seqs], tokens of each sequence, the new ones included.
    block_tables: int [seqs, max_blocks]; only the first ceil(context / block_size) are read.
    scale: what scores are multiplied by, positive.
    window: each token sees itself and the window - 1 tokens before it; None sees all.
    scales: those of an e4m3 cache.
    decode: whether each sequence has one new token (none where its context is 0), in order; None
    tells so from the sizes, tokens == seqs.
    out: where to put the result; new memory if None.
    Returns [tokens, heads, dim] in query's dtype. Tokens from query_start[-1] on, and sequences of
    no new tokens, are padding: its rows are zeros.
    """
    output = torch.empty_like(query) if out is None else out
    starts, lens = query_start.tolist(), context_lens.tolist()
    output[starts[-1] :] = 0
    for seq, context in enumerate(lens):
        rows = slice(starts[seq], starts[seq + 1])
        if rows.start < rows.stop:
            output[rows] = attend_sequence(
                query[rows], k_cache, v_cache, context, block_tables[seq],
                scale=scale, window=window, scales=scales,
            )  # fmt: skip
    return output


def attend_sequence(
    query: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    context: int,
    table: torch.Tensor,
    *,
    scale: float,
    window: int | None,
    scales: KVScales,
) -> torch.Tensor:
    """Attend one sequence's new tokens, [new, heads, dim]; table: its blocks, int [max_blocks]."""
    if k_cache.dtype != E4M3:
        scales = UNSCALED
    blocks = table[: -(-context // k_cache.shape[1])].long()
    keys = k_cache[blocks].flatten(0, 1)[:context]  # [context, kv_heads, dim]
    values = v_cache[blocks].flatten(0, 1)[:context]
    scale *= scales.keys
    return _attend(query, keys, values, scale=scale, v_scale=scales.values, window=window)


def _attend(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    *,
    scale: float,
    v_scale: float,
    window: int | None,
) -> torch.Tensor:
    """Attend one sequence: [new, heads, dim] over [context, kv_heads, dim].

    The scores of a few tokens at a time are held, so that memory doesn't grow with the context
    squared.
    """
    new, heads, _ = query.shape
    context = keys.shape[0]
    keys, values = keys.permute(1, 2, 0).float(), values.transpose(0, 1).float()
    step = max(1, MAX_SCORES // (heads * context))
    parts = [
        _attend_rows(
            query[first : first + step],
            keys,
            values,
            scale=scale,
            v_scale=v_scale,
            hidden=_hidden(
                range(context - new + first, context - new + min(first + step, new)),
                context,
                window,
                query.device,
            ),
        )
        for first in range(0, new, step)
    ]
    return torch.cat(parts)


def _attend_rows(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    *,
    scale: float,
    v_scale: float,
    hidden: torch.Tensor | None,
) -> torch.Tensor:
    """Attend [rows, heads, dim] over [kv_heads, dim, context] and [kv_heads, context, dim]."""
    rows, heads, dim = query.shape
    kv_heads, _, context = keys.shape
    group = heads // kv_heads
    grouped = query.view(rows, kv_heads, group, dim).permute(1, 2, 0, 3)
    scores = torch.bmm(grouped.reshape(kv_heads, group * rows, dim).float(), keys) * scale
    if hidden is not None:
        scores.view(kv_heads, group, rows, context).masked_fill_(hidden, float("-inf"))
    mixed = torch.bmm(torch.softmax(scores, dim=-1), values) * v_scale
    mixed = mixed.view(kv_heads, group, rows, dim).permute(2, 0, 1, 3)
    return mixed.reshape(rows, heads, dim).to(query.dtype)


def _hidden(
    positions: range, context: int, window: int | None, device: torch.device
) -> torch.Tensor | None:
    """Return the keys that tokens at `positions` must not see, bool [rows, context], if any."""
    if positions.start == context - 1 and (window is None or context <= window):
        return None
    position = torch.arange(positions.start, positions.stop, device=device)[:, None]
    key = torch.arange(context, device=device)[None, :]
    hidden = key > position
    if window is not None:
        hidden |= key <= position - window
    return hidden
