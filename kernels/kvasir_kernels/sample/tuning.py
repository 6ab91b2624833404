"""Tile sizes of sampling, and how many programs share a row."""

from __future__ import annotations

DRAW_TILE = 2048  # logits a program takes at once; measured on an H200, as is all below
DRAW_WARPS = 4
SEARCH_TILE = 2048
SEARCH_WARPS = 8
WAYS = 4  # candidates weighed in a pass
LISTED = 4096  # logits of an interval that are gathered into a list
PROGRAMS_PER_PROCESSOR = 8
MOST_PARTS = 64


def parts_of(rows: int, vocab: int, processors: int) -> tuple[int, int]:
    """Return how many parts a row has, and the tokens of each: whole tiles, none empty."""
    tiles = -(-vocab // DRAW_TILE)
    wanted = max(1, min(MOST_PARTS, processors * PROGRAMS_PER_PROCESSOR // rows))
    tiles_each = -(-tiles // wanted)
    return -(-tiles // tiles_each), tiles_each * DRAW_TILE
