"""Tiles of the linear kernel, measured offline."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tile:
    """How the kernel goes about one shape.

    columns, inner: of the weight, in one tile. splits: parts of the inner dimension. stages: of the
    pipeline of loads. panels: 512 bytes each, asked for ahead of the input. swap: the weight on the
    product's left side.
    """

    columns: int
    inner: int
    splits: int
    warps: int
    stages: int
    panels: int = 0
    swap: bool = False


def tile(rows: int, columns: int, inner: int, *, gated: bool) -> Tile:
    return Tile(16, 64, 2, 4, 2)
