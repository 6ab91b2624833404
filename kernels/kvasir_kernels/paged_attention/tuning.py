"""Tile sizes and splits of paged attention, measured offline.

Sizes of tensors and the dtype's width go in, a tile and a plan come out: never a measurement at
serving time, so that the same sizes always launch the same kernels.
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
class Split:
    """At most `parts` parts a context, of at least `least` keys each."""

    parts: int
    least: int


# By padded head dimension, for 16-bit values; measured on an H200.
DECODE = {64: Tile(64, 4, 3), 128: Tile(64, 4, 2)}
MIXED = {64: MixedTile(64, 64, 4, 3), 128: MixedTile(64, 64, 4, 3)}
MIXED_MULTI_HEAD = {64: MixedTile(64, 64, 4, 3), 128: MixedTile(64, 32, 4, 3)}
PREFILL = Tile(64, 4, 3)  # warps of each of the two groups that attend
PREFILL_LONG = Tile(128, 4, 2)
PREFILL_TURNS = False  # whether the groups take turns at the tensor cores
# New tokens a sequence, on average, from which the prefill kernel is faster, and from which long.
PREFILL_TOKENS = 16
PREFILL_LONG_TOKENS = 2048
# For float32, which is there for tests, and for head dimensions that no tuned model has.
WIDE = MixedTile(16, 32, 4, 1)

PROGRAMS_PER_PROCESSOR = 4  # enough loads in flight to fill the memory's bandwidth
LEAST_SPLIT = 64  # keys: below this a part costs more to merge than it saves
FULL_SPLIT = 2048  # keys: where the sequences alone fill the card, only longer contexts are split
MOST_PARTS = 128


def decode_tile(width: int, itemsize: int) -> Tile:
    """Return the decode kernel's tile for a padded head dimension."""
    if itemsize > 2 or width not in DECODE:
        return Tile(WIDE.keys, WIDE.warps, WIDE.stages)
    return DECODE[width]


def mixed_tile(width: int, group: int, itemsize: int) -> MixedTile:
    """Return the mixed kernel's tile for a padded head dimension and query heads a KV head."""
    table = MIXED_MULTI_HEAD if group == 1 else MIXED
    return WIDE if itemsize > 2 else table.get(width, WIDE)


def prefill_tile(tokens: int, seqs: int) -> Tile:
    """Return the prefill kernel's tile."""
    return PREFILL_LONG if tokens >= PREFILL_LONG_TOKENS * seqs else PREFILL


def split(programs: int, longest: int, processors: int) -> Split:
    """Plan the parts of contexts up to `longest` keys, where `programs` is seqs * kv_heads."""
    wanted = max(1, processors * PROGRAMS_PER_PROCESSOR // programs)
    least = LEAST_SPLIT if wanted > 1 else FULL_SPLIT
    parts = max(wanted, -(-longest // (2 * FULL_SPLIT)))
    return Split(max(1, min(parts, -(-longest // least), MOST_PARTS)), least)
