"""What requests change about the scores before a token is chosen.

Each function changes logits, float32 [rows, vocab], in place, for the rows that ask for it. Row i
belongs to chunk i of the step. Only what a request asks for costs anything.
"""

from __future__ import annotations

import torch

from kvasir_runtime.engine.sampling_state import SamplingState
from kvasir_runtime.engine.scheduler import Chunk

NEVER = float("-inf")


def concern(chunks: list[Chunk]) -> bool:
    """Say whether any sequence may want its scores changed."""
    return any(
        seq.token_mask is not None
        or params.penalised
        or params.logit_bias
        or params.min_tokens
        or params.bad_word_ids
        or params.allowed_token_ids is not None
        for seq, params in ((chunk.seq, chunk.seq.params) for chunk in chunks)
    )


def adjust(
    logits: torch.Tensor, chunks: list[Chunk], rows: torch.Tensor, state: SamplingState,
    eos: frozenset[int],
) -> None:  # fmt: skip
    """Apply penalties, then biases, then everything that forbids tokens."""
    if any(chunk.seq.params.penalised for chunk in chunks):
        penalise(logits, chunks, rows, state)
    biases = [
        (row, token, bias)
        for row, chunk in enumerate(chunks)
        for token, bias in (chunk.seq.params.logit_bias or {}).items()
    ]
    if biases:
        where = _places([(row, token) for row, token, _ in biases], logits.device)
        added = torch.tensor([bias for _, _, bias in biases]).to(logits.device)
        logits.index_put_(where, added, accumulate=True)
    forbidden = [
        (row, token) for row, chunk in enumerate(chunks) for token in _forbidden(chunk, eos)
    ]
    if forbidden:
        logits.index_put_(
            _places(forbidden, logits.device), torch.tensor(NEVER, device=logits.device)
        )
    for row, chunk in enumerate(chunks):
        allowed = _allowed(chunk, logits.shape[-1])
        if allowed is not None:
            mask = allowed.to(logits.device, non_blocking=True)
            logits[row].masked_fill_(~mask, NEVER)


def penalise(
    logits: torch.Tensor, chunks: list[Chunk], rows: torch.Tensor, state: SamplingState
) -> None:
    """Apply repetition (over prompt and output), presence and frequency penalties (output)."""
    table = torch.tensor(
        [
            (p.repetition_penalty, p.presence_penalty, p.frequency_penalty)
            for p in (chunk.seq.params for chunk in chunks)
        ]
    ).to(logits.device, non_blocking=True)
    repetition, presence, frequency = (column[:, None] for column in table.unbind(1))
    counts = state.generated[rows]
    repeated = (counts > 0) | state.in_prompt[rows]
    scaled = torch.where(logits > 0, logits / repetition, logits * repetition)
    logits.copy_(torch.where(repeated & (repetition != 1), scaled, logits))
    logits -= presence * (counts > 0) + frequency * counts


def _forbidden(chunk: Chunk, eos: frozenset[int]) -> set[int]:
    """Return tokens that must not come next: ends before min_tokens, the last of a bad word."""
    seq = chunk.seq
    position = chunk.start + chunk.count - seq.num_prompt  # generated tokens before this one
    ends = seq.params.stop_ids | eos if position < seq.params.min_tokens else set()
    bad = {
        word[-1]
        for word in seq.params.bad_word_ids
        if len(word) == 1 or tuple(seq.token_ids[seq.num_prompt :][1 - len(word) :]) == word[:-1]
    }
    return bad | ends


def _allowed(chunk: Chunk, vocab: int) -> torch.Tensor | None:
    """Return bool [vocab], on the CPU, of the tokens that may come next; None allows all."""
    seq, allowed = chunk.seq, None
    if seq.params.allowed_token_ids is not None:
        allowed = torch.zeros(vocab, dtype=torch.bool)
        allowed[list(seq.params.allowed_token_ids)] = True
    if seq.token_mask is not None and chunk.samples:
        grammar = seq.token_mask.allowed(seq.token_ids[seq.num_prompt :])
        if grammar is not None:
            allowed = grammar if allowed is None else allowed & grammar
    return allowed


def _places(
    pairs: list[tuple[int, int]], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (row, token) pairs as an index into logits."""
    index = torch.tensor(pairs, dtype=torch.long).to(device, non_blocking=True)
    return index[:, 0], index[:, 1]
