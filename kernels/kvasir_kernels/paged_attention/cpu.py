"""Paged attention as a CPU runs it: decodes together in groups of like lengths, prompts one by one.

One sequence at a time, as the reference goes, a decode step of many sequences would be thousands of
small operations. Here a group's keys and values are gathered at once, padded to its longest context
by repeating each sequence's last slot, so that only slots below a context's length are ever read.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch

from kvasir_kernels.kv_scales import E4M3, UNSCALED, KVScales
from kvasir_kernels.paged_attention import reference

LIKE = 1.3  # a group's contexts are at most so many times its shortest, and some tokens more
MORE = 32
FEWEST = 4  # below this a group isn't worth its gathering


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
    """Attend as the reference does."""
    output = torch.empty_like(query) if out is None else out
    starts, lens = query_start.tolist(), context_lens.tolist()
    new = [end - start for start, end in pairwise(starts)]
    alone = [seq for seq, count in enumerate(new) if count > 1]
    for group in _alike([seq for seq, count in enumerate(new) if count == 1], lens):
        if len(group) < FEWEST:
            alone += group
            continue
        rows = query_start[group].long()
        output[rows] = _attend_group(
            query[rows], k_cache, v_cache, context_lens[group], block_tables[group],
            scale=scale, window=window, scales=scales,
        )  # fmt: skip
    for seq in alone:
        own = slice(starts[seq], starts[seq + 1])
        output[own] = reference.attend_sequence(
            query[own], k_cache, v_cache, lens[seq], block_tables[seq],
            scale=scale, window=window, scales=scales,
        )  # fmt: skip
    output[starts[-1] :] = 0
    return output


def _alike(seqs: list[int], lens: list[int]) -> Iterator[list[int]]:
    """Yield the sequences in groups of like context lengths."""
    group: list[int] = []
    for seq in sorted(seqs, key=lens.__getitem__):
        if group and lens[seq] > LIKE * lens[group[0]] + MORE:
            yield group
            group = []
        group.append(seq)
    if group:
        yield group


def _attend_group(
    query: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    lens: torch.Tensor,
    tables: torch.Tensor,
    *,
    scale: float,
    window: int | None,
    scales: KVScales,
) -> torch.Tensor:
    """Attend one token of each sequence: [seqs, heads, dim]; tables: [seqs, blocks]."""
    seqs, heads, dim = query.shape
    block_size, kv_heads = k_cache.shape[1:3]
    last = lens[:, None].long() - 1
    first = (last + 1 - window).clamp(min=0) if window is not None else torch.zeros_like(last)
    position = first + torch.arange(
        int((last - first).max()) + 1, device=lens.device
    )  # [seqs, keys]
    inside = position.minimum(last)
    slot = tables.long().gather(1, inside // block_size) * block_size + inside % block_size
    hidden = position > last
    keys, values = (cache.flatten(0, 1)[slot].float() for cache in (k_cache, v_cache))
    k_scale, v_scale = (scales.keys, scales.values) if k_cache.dtype == E4M3 else (1.0, 1.0)
    grouped = query.view(seqs, kv_heads, heads // kv_heads, dim).float()
    output = torch.empty_like(grouped)
    for head in range(kv_heads):  # a head's keys are a matrix in place: nothing is copied again
        scores = torch.bmm(grouped[:, head], keys[:, :, head].transpose(1, 2))
        scores.mul_(scale * k_scale).masked_fill_(hidden[:, None], float("-inf"))
        output[:, head] = torch.bmm(torch.softmax(scores, -1), values[:, :, head])
    return output.mul_(v_scale).view(seqs, heads, dim).to(query.dtype)
