"""What sampling needs to know of each running sequence, on the device, by the runner's row."""

from __future__ import annotations

import torch

from kvasir_runtime.engine.sequence import Sequence


class SamplingState:
    """Parameters, last tokens and token counts of up to `rows` running sequences.

    last_token: int64 [rows]. temperature, top_p, min_p: float32 [rows]; top_k: int32 [rows]; seed:
    int64 [rows]. generated: int32 [rows, vocab], how often each token was generated; in_prompt:
    bool [rows, vocab]; these two are kept for sequences with penalties alone.
    """

    def __init__(self, rows: int, vocab: int, device: torch.device) -> None:
        """Allocate for the largest batch."""
        self.device, self.vocab = device, vocab
        self.last_token = torch.zeros(rows, dtype=torch.long, device=device)
        self.generated = torch.zeros((rows, vocab), dtype=torch.int32, device=device)
        self.in_prompt = torch.zeros((rows, vocab), dtype=torch.bool, device=device)
        self._float = torch.ones((3, rows))
        self._top_k = torch.zeros(rows, dtype=torch.int32)
        self._seed = torch.zeros(rows, dtype=torch.long)
        self._upload()

    def enter(self, seqs: list[Sequence]) -> None:
        """Take over sequences that got their rows in this step."""
        for seq in seqs:
            params, row = seq.params, seq.slot
            self._float[:, row] = torch.tensor([params.temperature, params.top_p, params.min_p])
            self._top_k[row] = max(params.top_k, 0)
            self._seed[row] = seq.seed
            if params.penalised:
                self.generated[row] = self._count(seq.token_ids[seq.num_prompt :])
                self.in_prompt[row] = self._count(seq.token_ids[: seq.num_prompt]) > 0
        if seqs:
            self._upload()

    def _count(self, token_ids: list[int]) -> torch.Tensor:
        ids = torch.tensor(token_ids, dtype=torch.long)
        return torch.bincount(ids, minlength=self.vocab).to(self.device, non_blocking=True)

    def _upload(self) -> None:
        floats = self._float.to(self.device, non_blocking=True, copy=True)
        self.temperature, self.top_p, self.min_p = floats[0], floats[1], floats[2]
        self.top_k = self._top_k.to(self.device, non_blocking=True, copy=True)
        self.seed = self._seed.to(self.device, non_blocking=True, copy=True)
