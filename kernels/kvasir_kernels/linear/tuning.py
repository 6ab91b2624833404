"""Tiles of the linear kernel, measured offline."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tile:
    """How the kernel goes about one shape.

    columns, inner: of the weight, in one tile. programs: on a processor. stages: of the pipeline of
    loads. panels: 512 bytes of each row, asked for ahead of the input. swap: the weight is the
    product's left side.
    """

    columns: int
    inner: int
    programs: int
    warps: int
    stages: int
    panels: int = 2
    swap: bool = False


def tile(rows: int, *, gated: bool) -> Tile:
    return Tile(64, 64, 1, 4, 2)
