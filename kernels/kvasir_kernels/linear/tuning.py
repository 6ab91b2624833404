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


MOST_ROWS = 64


def pays(rows: int, inner: int, columns: int, *, gated: bool) -> bool:
    return rows <= MOST_ROWS and columns // 64 <= 4096


def tile(rows: int, *, gated: bool) -> Tile:
    if gated:
        return Tile(64, 128, 1, 4, 4, 4, swap=True)
    return Tile(64, 128, 1, 4, 6, 4, swap=True)
