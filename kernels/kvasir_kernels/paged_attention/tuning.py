"""Tile sizes and splits of paged attention, measured offline.

Sizes of tensors and the dtype's width go in, a tile and a plan come out: never a measurement at
serving time, so that the same sizes always launch the same kernels.

Everything was measured on one H200 with Triton 3.6, in CUDA graphs, over block tables in random
order: DECODE on 1 to 256 sequences of 640 to 32,000 tokens of Qwen2.5-7B and Llama-2-13B (and of
Llama-3.2-1B for dimension 64); MIXED on 64 to 256 decodes beside up to 4 chunks of 512 tokens;
PREFILL on 1 to 16 prompts of 512 to 32,000 tokens.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tile:
    """Keys folded together, warps of a program, and stages of its pipeline of loads."""

    keys: int
    warps: int
    stages: int


@dataclass(frozen=True, slots=True)
class MixedTile:
    """The same for the mixed kernel; `rows` are new tokens times the heads of a group."""

    rows: int
    keys: int
    warps: int
    stages: int


@dataclass(frozen=True, slots=True)
class PrefillTile:
    """Keys folded together, stages of keys and of values, and how the two groups of warps share.

    `turns`: they take turns at the tensor cores, which pays once tiles are large.
    """

    keys: int
    stages: int
    turns: bool


@dataclass(frozen=True, slots=True)
class Split:
    """At most `parts` parts a context, of at least `least` keys each."""

    parts: int
    least: int


# By padded head dimension, for 16-bit values.
DECODE = {64: Tile(64, 4, 3), 128: Tile(64, 4, 2)}
DECODE_FEW = {64: Tile(64, 4, 3), 128: Tile(64, 4, 3)}
FEW_PROGRAMS = 320  # up to which each may hold more loads in flight
MIXED = {64: MixedTile(64, 64, 4, 3), 128: MixedTile(64, 64, 4, 3)}
MIXED_MULTI_HEAD = {64: MixedTile(64, 64, 4, 3), 128: MixedTile(64, 32, 4, 3)}
PREFILL = PrefillTile(64, 3, turns=False)
PREFILL_LONG = PrefillTile(128, 2, turns=True)
# New tokens a sequence, on average, from which the prefill kernel beats the mixed one: it takes
# whole processors for the decodes beside a prompt, more of them the more KV heads there are.
PREFILL_TOKENS = 24
PREFILL_TOKENS_MULTI_HEAD = 128
PREFILL_LONG_TOKENS = 1024
# For float32, which is there for tests, and for head dimensions that no tuned model has.
WIDE = MixedTile(16, 32, 4, 1)

PROGRAMS_PER_PROCESSOR = 4  # enough loads in flight to fill the memory's bandwidth
# Keys, below which a part costs more to merge than it saves: by seqs * kv_heads programs.
LEAST_SPLIT = ((64, 64), (128, 256), (2**30, 1024))
FULL_SPLIT = 2048  # keys: where the sequences alone fill the card, only longer contexts are split
MOST_PARTS = 128
MERGES_PER_PROCESSOR = 8


def decode_tile(width: int, itemsize: int, programs: int) -> Tile:
    """Return the decode kernel's tile for a padded head dimension and seqs * kv_heads programs."""
    if itemsize > 2 or width not in DECODE:
        return Tile(WIDE.keys, WIDE.warps, WIDE.stages)
    return (DECODE_FEW if programs <= FEW_PROGRAMS else DECODE)[width]


def mixed_tile(width: int, group: int, itemsize: int) -> MixedTile:
    """Return the mixed kernel's tile for a padded head dimension and query heads a KV head."""
    table = MIXED_MULTI_HEAD if group == 1 else MIXED
    return WIDE if itemsize > 2 else table.get(width, WIDE)


def prefill_pays(tokens: int, seqs: int, group: int) -> bool:
    """Say whether a batch has so many new tokens a sequence that the prefill kernel is faster."""
    return tokens >= seqs * (PREFILL_TOKENS_MULTI_HEAD if group == 1 else PREFILL_TOKENS)


def prefill_tile(tokens: int, seqs: int) -> PrefillTile:
    """Return the prefill kernel's tile."""
    return PREFILL_LONG if tokens >= PREFILL_LONG_TOKENS * seqs else PREFILL


def split(programs: int, longest: int, processors: int) -> Split:
    """Plan the parts of contexts up to `longest` keys, where `programs` is seqs * kv_heads."""
    wanted = max(1, processors * PROGRAMS_PER_PROCESSOR // programs)
    of_few = next(least for most, least in LEAST_SPLIT if programs < most)
    least = of_few if wanted > 1 else FULL_SPLIT
    parts = max(wanted, -(-longest // (2 * FULL_SPLIT)))
    return Split(max(1, min(parts, -(-longest // least), MOST_PARTS)), least)


def merged_together(items: int, processors: int) -> int:
    """Return how many heads' parts one program merges, a power of 2: all programs run at once."""
    each = -(-items // (processors * MERGES_PER_PROCESSOR))
    return 1 << (each - 1).bit_length()
