"""A scratchpad of very many residencies as a picture of cells, each of the kind that takes most of it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from onchip.model.timeline.activity import PlaceUse
from onchip.reports.shared.page import Json

COLUMNS: Final = 500
ROWS: Final = 100


def address_cells(by_kind: Mapping[str, Sequence[PlaceUse]], size: tuple[int, int], paints: Mapping[str, str]) -> Json:
    """Cycle against address, `size` of each: of each cell the kind that takes most, nothing where most is free."""
    kinds = list(paints)
    cycles, addresses = edges_of(size[0], COLUMNS), edges_of(size[1], ROWS)
    taken = np.zeros((len(kinds), len(addresses) - 1, len(cycles) - 1))
    for kind, uses in by_kind.items():
        for one in uses:
            if one.stop is None or one.stop == one.start:
                continue
            rows, of_rows = shares_of(addresses, one.offset_bytes, one.offset_bytes + one.size_bytes)
            columns, of_columns = shares_of(cycles, one.start, one.stop)
            taken[kinds.index(kind), rows, columns] += np.outer(of_rows, of_columns)
    return {"type": "heatmap", "x": cycles, "y": addresses, "z": most_of(taken), "meta": cells_meta(paints)}


def cells_meta(paints: Mapping[str, str]) -> Json:
    """How the page's script paints cells."""
    return {"scale": "levels", "labels": list(paints), "paints": list(paints.values()), "edges": True, "timed": True}


def most_of(taken: np.ndarray) -> list[list[int | None]]:
    """By row and column the number of the kind that takes most of a cell, None where more of it is free."""
    most = taken.argmax(axis=0)
    is_free = taken.max(axis=0) <= 1 - taken.sum(axis=0)
    return [
        [None if free else int(kind) for kind, free in zip(*cells, strict=True)]
        for cells in zip(most, is_free, strict=True)
    ]


def edges_of(length: int, most: int) -> list[int]:
    """At most `most` ranges of [0, length) as equal as integers are, by their edges."""
    count = min(length, most)
    return [length * number // count for number in range(count + 1)]


def shares_of(edges: Sequence[int], start: int, stop: int) -> tuple[slice, list[float]]:
    """The ranges that [start, stop) reaches into, and of each the share that it covers; it is not empty."""
    first, end = bisect_right(edges, start) - 1, bisect_left(edges, stop)
    ranges = pairwise(edges[first : end + 1])
    return slice(first, end), [(min(high, stop) - max(low, start)) / (high - low) for low, high in ranges]
