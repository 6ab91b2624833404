"""Token ids from the host or from the device's pool of sampled tokens, and their embedding."""

from __future__ import annotations

import torch

from kvasir_kernels.dispatch import use_kernel
from kvasir_kernels.embed import reference

__all__ = ["embed", "gather_tokens"]


def gather_tokens(
    token_ids: torch.Tensor, source: torch.Tensor, pool: torch.Tensor
) -> torch.Tensor:
    """Return pool[source] where source is at least 0, else token_ids; see the reference."""
    if not use_kernel(token_ids):
        return reference.gather_tokens(token_ids, source, pool)
    from kvasir_kernels.embed import kernel

    return kernel.gather_tokens(token_ids, source, pool)


def embed(
    token_ids: torch.Tensor, source: torch.Tensor, pool: torch.Tensor, table: torch.Tensor
) -> torch.Tensor:
    """Return the gathered tokens' rows of table, [tokens, hidden]; see the reference."""
    if not use_kernel(table):
        return reference.embed(token_ids, source, pool, table)
    from kvasir_kernels.embed import kernel

    return kernel.embed(token_ids, source, pool, table)
