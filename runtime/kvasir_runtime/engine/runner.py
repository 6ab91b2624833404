"""Runs a batch of chunks through the model: token ids in, sampled tokens out."""

from __future__ import annotations

import torch

from kvasir_runtime.engine.sampler import Sampled, sample
from kvasir_runtime.engine.scheduler import Chunk
from kvasir_runtime.engine.sequence import Sequence
from kvasir_runtime.layers.attention import AttentionInputs, KVCache
from kvasir_runtime.layers.rope import rope_tables
from kvasir_runtime.messages import NewRequest
from kvasir_runtime.models.decoder import Decoder
from kvasir_runtime.sampling_params import SamplingParams


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

    def profile(self, num_tokens: int, num_seqs: int) -> None:
        """Run a batch of `num_seqs` prompts, `num_tokens` in all, so that its memory is known.

        They share the blocks at the start of the cache, which is scratch at that time.
        """
        per_seq = min(-(-num_tokens // num_seqs), self.cos.shape[0] - 1)
        blocks = list(range(-(-per_seq // self.block_size)))
        params = SamplingParams(max_tokens=1, top_p=0.9)
        request = NewRequest("profile", (0,) * per_seq, params, arrived_s=0.0)
        batch = []
        for _ in range(num_seqs):
            seq = Sequence.from_request(request, max_model_len=per_seq + 1, seed=0)
            seq.blocks = blocks
            batch.append(Chunk(seq, 0, per_seq))
        self.run(batch)

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
