"""Log-probabilities of chosen and likely tokens: computed on the device, described on the host."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kvasir_runtime.messages import TokenLogprobs


@dataclass(frozen=True, slots=True)
class LogprobTensors:
    """Of some rows: the chosen token's log-probability and rank, and the top ones.

    chosen, rank: [rows]; values, ids: [rows, k]. On the host they are there once the step's event
    has happened.
    """

    tokens: torch.Tensor
    chosen: torch.Tensor
    rank: torch.Tensor
    values: torch.Tensor
    ids: torch.Tensor

    def describe(self, row: int, count: int) -> TokenLogprobs:
        """Return one row as a message, with its `count` most likely tokens."""
        top = zip(self.ids[row, :count].tolist(), self.values[row, :count].tolist(), strict=True)
        return TokenLogprobs(
            int(self.tokens[row]), float(self.chosen[row]), int(self.rank[row]), tuple(top)
        )


def compute(logits: torch.Tensor, tokens: torch.Tensor, count: int) -> LogprobTensors:
    """Return the log-probabilities of `tokens`, [rows], and of the `count` most likely ones."""
    scores = torch.log_softmax(logits.float(), -1)
    chosen = scores.gather(-1, tokens[:, None])
    rank = (scores > chosen).sum(-1) + 1
    values, ids = scores.topk(count, dim=-1)
    parts = (tokens, chosen[:, 0], rank, values, ids)
    return LogprobTensors(*(to_host(part) for part in parts))


def to_host(tensor: torch.Tensor) -> torch.Tensor:
    """Begin a copy to pinned memory; on a CPU, return a copy at once."""
    if not tensor.is_cuda:
        return tensor.clone()
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return host.copy_(tensor, non_blocking=True)
