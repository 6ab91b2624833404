"""Runs a batch of chunks through the model: token ids in, sampled tokens out."""

from __future__ import annotations

import torch

from kvasir_runtime.engine.sampler import Sampled, sample
from kvasir_runtime.engine.scheduler import Chunk
from kvasir_runtime.layers.attention import AttentionInputs, KVCache
from kvasir_runtime.layers.rope import rope_tables
from kvasir_runtime.models.decoder import Decoder


class ModelRunner:
    """A model, its KV caches, and the tensors a step needs."""

    def __init__(self, model: Decoder, *, block_size: int, max_len: int) -> None:
        """Wrap a loaded model; positions up to `max_len` get their rotary angles here."""
        self.model, self.block_size = model, block_size
        self.device = model.embed_tokens.device
        self.caches: list[KVCache] = []
        config = model.config
        self.eos = frozenset(config.eos_token_ids)
        self.cos, self.sin = rope_tables(dict(config.rope), config.head_dim, max_len, self.device)

    @torch.inference_mode()
    def run(self, batch: list[Chunk]) -> list[Sampled | None]:
        """Compute every chunk; return a token for each that reaches its sequence's end."""
        ids = [token for c in batch for token in c.seq.token_ids[c.start : c.start + c.count]]
        hidden = self.model(self._tensor(ids, torch.long), self.caches, self._inputs(batch))
        sampling = [chunk for chunk in batch if chunk.samples]
        ends = torch.tensor([chunk.count for chunk in batch]).cumsum(0) - 1
        rows = ends[[chunk.samples for chunk in batch]].to(self.device)
        if not sampling:
            return [None] * len(batch)
        logits = self.model.logits(hidden[rows])
        sampled = iter(sample(logits, [chunk.seq for chunk in sampling], self.eos))
        return [next(sampled) if chunk.samples else None for chunk in batch]

    @torch.inference_mode()
    def profile(self, num_tokens: int, num_seqs: int) -> None:
        """Run the largest batch there can be, so that the memory it takes is known.

        The sequences share one scratch block, which is all the cache there is at that time.
        """
        per_seq = [num_tokens // num_seqs + (i < num_tokens % num_seqs) for i in range(num_seqs)]
        starts = torch.tensor([0, *per_seq]).cumsum(0)
        zeros = torch.zeros(num_tokens, dtype=torch.long, device=self.device)
        inputs = AttentionInputs(
            query_start=starts.to(torch.int32).to(self.device),
            context_lens=torch.zeros(num_seqs, dtype=torch.int32, device=self.device),
            block_tables=torch.zeros((num_seqs, 1), dtype=torch.int32, device=self.device),
            slots=torch.zeros_like(zeros),
            cos=self.cos[zeros],
            sin=self.sin[zeros],
        )
        hidden = self.model(zeros, self.caches, inputs)
        self.model.logits(hidden[:num_seqs]).softmax(-1)

    def _inputs(self, batch: list[Chunk]) -> AttentionInputs:
        """Lay out where each token of the batch lies in its sequence and in the cache."""
        size = self.block_size
        positions = torch.cat([torch.arange(c.start, c.start + c.count) for c in batch])
        width = max(-(-(c.start + c.count) // size) for c in batch)
        tables = torch.zeros((len(batch), width), dtype=torch.int32)
        for row, chunk in enumerate(batch):
            used = chunk.seq.blocks[:width]
            tables[row, : len(used)] = torch.tensor(used, dtype=torch.int32)
        counts = torch.tensor([chunk.count for chunk in batch])
        rows = torch.arange(len(batch)).repeat_interleave(counts)
        slots = tables[rows, positions // size].long() * size + positions % size
        starts = torch.cat((torch.zeros(1, dtype=torch.long), counts.cumsum(0)))
        on_device = positions.to(self.device)
        return AttentionInputs(
            query_start=starts.to(torch.int32).to(self.device),
            context_lens=self._tensor([c.start + c.count for c in batch], torch.int32),
            block_tables=tables.to(self.device),
            slots=slots.to(self.device),
            cos=self.cos[on_device],
            sin=self.sin[on_device],
        )

    def _tensor(self, values: list[int], dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype).to(self.device)
