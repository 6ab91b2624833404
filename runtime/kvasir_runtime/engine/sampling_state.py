"""What sampling needs to know of each running sequence, on the device, by the runner's row."""

from __future__ import annotations

import torch

from kvasir_runtime.engine.sequence import Sequence


class SamplingState:
    """Parameters, last tokens and token counts of up to `rows` running sequences.

    last_token: int64 [rows + 1]; temperature, top_p, min_p: float32, top_k: int32, seed: int64,
    likewise; the last row is what a step's padding uses. They keep their addresses, as CUDA graphs
    read them. generated: int32 [rows, vocab], how often each token was generated; in_prompt: bool
    [rows, vocab]; these two are kept for sequences with penalties alone.
    """

    def __init__(self, rows: int, vocab: int, device: torch.device) -> None:
        """Allocate for the largest batch."""
        self.device, self.vocab = device, vocab
        self.last_token = torch.zeros(rows + 1, dtype=torch.long, device=device)
        self.generated = torch.zeros((rows, vocab), dtype=torch.int32, device=device)
        self.in_prompt = torch.zeros((rows, vocab), dtype=torch.bool, device=device)
        self._host = (
            torch.zeros((3, rows + 1)),  # a temperature of 0: padding takes the likeliest token
            torch.zeros(rows + 1, dtype=torch.int32),
            torch.zeros(rows + 1, dtype=torch.long),
        )
        self._device = tuple(tensor.to(device, copy=True) for tensor in self._host)
        floats, self.top_k, self.seed = self._device
        self.temperature, self.top_p, self.min_p = floats.unbind()

    def enter(self, seqs: list[Sequence]) -> None:
        """Take over sequences that got their rows in this step."""
        for seq in seqs:
            params, row = seq.params, seq.slot
            floats, top_k, seed = self._host
            floats[:, row] = torch.tensor([params.temperature, params.top_p, params.min_p])
            top_k[row] = max(params.top_k, 0)
            seed[row] = seq.seed
            if params.penalised:
                self.generated[row] = self._count(seq.token_ids[seq.num_prompt :])
                self.in_prompt[row] = self._count(seq.token_ids[: seq.num_prompt]) > 0
        if seqs:
            for host, on_device in zip(self._host, self._device, strict=True):
                on_device.copy_(host, non_blocking=True)

    def _count(self, token_ids: list[int]) -> torch.Tensor:
        ids = torch.tensor(token_ids, dtype=torch.long)
        return torch.bincount(ids, minlength=self.vocab).to(self.device, non_blocking=True)
