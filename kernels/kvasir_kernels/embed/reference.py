"""Gathering of token ids and embedding in plain torch."""

from __future__ import annotations

import torch
from torch.nn import functional


def gather_tokens(
    token_ids: torch.Tensor, source: torch.Tensor, pool: torch.Tensor
) -> torch.Tensor:
    """Return each token's id: pool[source] where source is at least 0, else its entry of token_ids.

    token_ids: int64 [tokens], ids the host knows. source: int64 [tokens]. pool: int64, ids sampled
    on the device that the host hasn't seen yet. Returns int64 [tokens].
    """
    return torch.where(source >= 0, pool[source.clamp(min=0)], token_ids)


def embed(
    token_ids: torch.Tensor, source: torch.Tensor, pool: torch.Tensor, table: torch.Tensor
) -> torch.Tensor:
    """Return the rows of table, [vocab, hidden], of the gathered tokens: [tokens, hidden]."""
    return functional.embedding(gather_tokens(token_ids, source, pool), table)
