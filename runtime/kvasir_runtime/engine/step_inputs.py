"""From a plan's chunks to the tensors a step reads.

Everything is laid out in numpy buffers made once (pinned where the device is a GPU) and copied in
one go. Two sets take turns: while the device still reads one step's, the next step's is filled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from kvasir_runtime.engine.scheduler import Chunk


@dataclass(frozen=True, slots=True)
class StepInputs:
    """A step on the device, padded to `tokens` rows and `seqs` sequences.

    token_ids, positions, slots: int64 [tokens]; source: int64 [tokens], the runner's row whose last
    sampled token is the input, -1 where token_ids has it; query_start: int32 [seqs + 1];
    context_lens: int32 [seqs]; block_tables: int32 [seqs, max_blocks]; last_rows: int64 [seqs],
    each sequence's last token; state_rows: int64 [seqs], its row in the runner's state. Padding has
    slot -1, context 0, no query and the state's spare row.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    source: torch.Tensor
    query_start: torch.Tensor
    context_lens: torch.Tensor
    block_tables: torch.Tensor
    last_rows: torch.Tensor
    state_rows: torch.Tensor


@dataclass(frozen=True, slots=True)
class StepOutput:
    """What a step computes: hidden states, [tokens, hidden], and of each sequence the scores of
    every token, [seqs, vocab], and the token chosen by them, int64 [seqs]."""

    hidden: torch.Tensor
    logits: torch.Tensor
    tokens: torch.Tensor


@dataclass(frozen=True, slots=True)
class _Buffers:
    """One set of buffers, for the largest step.

    wide: int64 [4, tokens]; narrow: int32 [2, seqs + 1]; rows: int64 [2, seqs]; tables:
    int32 [seqs, blocks].
    """

    wide: torch.Tensor
    narrow: torch.Tensor
    rows: torch.Tensor
    tables: torch.Tensor

    @classmethod
    def on_host(cls, tokens: int, seqs: int, blocks: int, *, pinned: bool) -> _Buffers:
        """Allocate a set for the largest step."""
        return cls(
            torch.zeros((4, tokens), dtype=torch.long, pin_memory=pinned),
            torch.zeros((2, seqs + 1), dtype=torch.int32, pin_memory=pinned),
            torch.zeros((2, seqs), dtype=torch.long, pin_memory=pinned),
            torch.zeros((seqs, blocks), dtype=torch.int32, pin_memory=pinned),
        )

    def on(self, device: torch.device) -> _Buffers:
        """Allocate a set like this one on a device."""
        tensors = (self.wide, self.narrow, self.rows, self.tables)
        return _Buffers(*(torch.zeros_like(tensor, device=device) for tensor in tensors))

    def clear(self) -> None:
        """Make it a step of padding alone: harmless whatever part is run."""
        for tensor in (self.wide, self.narrow, self.rows, self.tables):
            tensor.zero_()
        self.wide[2:] = -1
        self.rows[1] = self.rows.shape[1]

    def view(self, tokens: int, seqs: int) -> StepInputs:
        """Return the part that a step padded to `tokens` and `seqs` reads."""
        return StepInputs(
            token_ids=self.wide[0, :tokens],
            positions=self.wide[1, :tokens],
            slots=self.wide[2, :tokens],
            source=self.wide[3, :tokens],
            query_start=self.narrow[0, : seqs + 1],
            context_lens=self.narrow[1, :seqs],
            block_tables=self.tables[:seqs],
            last_rows=self.rows[0, :seqs],
            state_rows=self.rows[1, :seqs],
        )


class InputBuilder:
    """Fills the buffers of one runner."""

    def __init__(
        self, *, max_tokens: int, max_seqs: int, max_len: int, block_size: int, device: torch.device
    ) -> None:
        """Allocate for the largest step there can be."""
        self.block_size = block_size
        blocks = -(-max_len // block_size) + 1
        self._sets = [
            _Buffers.on_host(max_tokens, max_seqs, blocks, pinned=device.type == "cuda")
            for _ in range(2)
        ]
        self._device_set = self._sets[0].on(device)
        self._turn = 0
        self._tables = np.zeros((max_seqs, blocks), dtype=np.int32)  # by the runner's row
        self._filled = np.zeros(max_seqs, dtype=np.int64)

    def build(self, chunks: list[Chunk], tokens: int, seqs: int) -> StepInputs:
        """Lay out `chunks`, padded to `tokens` and `seqs`; they must not be fewer than needed."""
        self._turn ^= 1
        host, target = self._sets[self._turn], self._device_set
        width = self._fill(host, chunks, tokens, seqs)
        target.wide[:, :tokens].copy_(host.wide[:, :tokens], non_blocking=True)
        target.narrow.copy_(host.narrow, non_blocking=True)
        target.rows.copy_(host.rows, non_blocking=True)
        target.tables[:seqs, :width].copy_(host.tables[:seqs, :width], non_blocking=True)
        return self.view(tokens, seqs)

    def view(self, tokens: int, seqs: int) -> StepInputs:
        """Return what a step padded so reads on the device: always the same memory."""
        return self._device_set.view(tokens, seqs)

    def clear(self) -> None:
        """Make what is on the device a step of padding alone."""
        self._device_set.clear()

    def _fill(self, host: _Buffers, chunks: list[Chunk], tokens: int, seqs: int) -> int:
        """Write the step into the host's buffers; return the block tables' width in use."""
        wide, narrow, rows = host.wide.numpy(), host.narrow.numpy(), host.rows.numpy()
        counts = np.array([chunk.count for chunk in chunks], dtype=np.int64)
        starts = np.array([chunk.start for chunk in chunks], dtype=np.int64)
        slots = np.array([chunk.seq.slot for chunk in chunks], dtype=np.int64)
        ends = counts.cumsum()
        total, n = int(ends[-1]), len(chunks)
        self._update_tables(chunks)
        width = int((starts + counts - 1).max()) // self.block_size + 1
        np.take(self._tables[:, :width], slots, axis=0, out=host.tables.numpy()[:n, :width])
        of_token = np.repeat(np.arange(n), counts)
        positions = np.arange(total) - np.repeat(ends - counts - starts, counts)
        block = host.tables.numpy()[of_token, positions // self.block_size]
        wide[0, :total], wide[3, :total] = _tokens(chunks, ends, total)
        wide[1, :total] = positions
        wide[2, :total] = block.astype(np.int64) * self.block_size + positions % self.block_size
        wide[:, total:tokens] = np.array([[0], [0], [-1], [-1]])
        narrow[0, 0], narrow[0, 1 : n + 1], narrow[0, n + 1 :] = 0, ends, total
        narrow[1, :n], narrow[1, n:] = starts + counts, 0
        rows[0, :n], rows[0, n:] = ends - 1, 0
        rows[1, :n], rows[1, n:] = slots, rows.shape[1]
        return width

    def _update_tables(self, chunks: list[Chunk]) -> None:
        """Write the blocks that each sequence got since its last step."""
        for chunk in chunks:
            seq, row = chunk.seq, chunk.seq.slot
            known = 0 if chunk.enters else int(self._filled[row])
            # The block that is written next may have been replaced by a copy.
            first = min(known, chunk.start // self.block_size)
            if first < len(seq.blocks):
                self._tables[row, first : len(seq.blocks)] = seq.blocks[first:]
                self._filled[row] = len(seq.blocks)


def _tokens(chunks: list[Chunk], ends: np.ndarray, total: int) -> tuple[np.ndarray, np.ndarray]:
    """Return each input token's id, and the row whose pending token it is (-1: the id is known)."""
    ids = np.zeros(total, dtype=np.int64)
    source = np.full(total, -1, dtype=np.int64)
    for chunk, end in zip(chunks, ends.tolist(), strict=True):
        known = chunk.seq.token_ids
        if chunk.count == 1:  # decoding: by far the most
            if chunk.start < len(known):
                ids[end - 1] = known[chunk.start]
            else:
                source[end - 1] = chunk.seq.slot
            continue
        part = known[chunk.start : chunk.start + chunk.count]
        ids[end - chunk.count : end - chunk.count + len(part)] = part
        if len(part) < chunk.count:
            source[end - 1] = chunk.seq.slot
    return ids, source
