"""Operators that read parts of maps, in tiles: the part of the map that a tile reads, compared with numpy's."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.ir.graph import Graph
from onchip.ir.operator import SEEN_PARTS, SEEN_SHAPES, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Range
from onchip.ops.entries import geometry_of
from onchip.ops.slicing import Geometry, Span, spans_of_part
from support.tiled import Attributes, Shape

Elements = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


def geometry(kind: str, stored: Shape, seen: Elements, written: Shape, attributes: Attributes) -> Geometry | None:
    """Return the geometry of a kind on a part of a map and another map (Concat: the rest; else like the output)."""
    place = [int(seen.reshape(-1)[0]), *(stride // seen.itemsize for stride in seen.strides)]
    other = (written[0], written[1] - seen.shape[1], *written[2:]) if kind == "Concat" else written
    tensors = (
        Tensor.of_shape("x", stored, 8, Role.INPUT),
        Tensor.of_shape("other", other, 8, Role.INPUT),
        Tensor.of_shape("y", written, 8, Role.OUTPUT),
    )
    views: Attributes = {SEEN_SHAPES: [[*seen.shape], [*other]], SEEN_PARTS: [[*place], []]}
    operator = Operator("op", kind, ("x", "other"), ("y",), (), {**attributes, **views})
    return geometry_of(operator, Graph("one", tensors, (operator,)), is_model=True)


def numbered(*shape: int) -> Elements:
    return np.arange(prod(shape), dtype=np.int64).reshape(shape)


def read_by(found: Geometry, tile: tuple[Range, ...], stored: Shape) -> set[int]:
    """Return the elements of the map that a tile reads."""
    region = next(one for one in found.reads if one.tensor == "x").region(tile, found.axes)
    return set() if region is None else set(numbered(*stored)[tuple(slice(*each) for each in region)].reshape(-1))


@pytest.mark.parametrize(
    ("stored", "seen"),
    [
        ((1, 6, 2, 3, 4), numbered(1, 12, 3, 4)[:, 6:]),
        ((1, 6, 2, 3, 4), numbered(1, 12, 3, 4)[:, 3:8]),
        ((2, 6, 4), numbered(2, 6, 4)[:, ::2]),
        ((2, 6, 4), numbered(2, 6, 4)[1:, 1:5, 2:3]),
        ((6, 8), numbered(2, 3, 8)[:, :, 4:]),
    ],
)
@pytest.mark.parametrize("kind", ["Add", "Concat"])
def test_a_tile_reads_all_that_it_needs_of_a_part(stored: Shape, seen: Elements, kind: str) -> None:
    more = 5 if kind == "Concat" else 0
    written = (seen.shape[0], seen.shape[1] + more, *seen.shape[2:])
    found = geometry(kind, stored, seen, written, {"axis": 1} if more else {})
    assert found is not None
    assert [axis.size for axis in found.axes] == list(written)
    for tile in product(*(_pieces(axis.size) for axis in found.axes)):
        needed = set(seen[tuple(slice(*each) for each in tile)].reshape(-1))
        assert needed <= read_by(found, tile, stored)


def test_a_row_that_is_added_to_all_rows_is_read_by_every_tile() -> None:
    found = geometry("Add", (4, 8), numbered(4, 8)[2:3], (4, 8), {})
    assert found is not None
    assert all(set(range(16, 24)) <= read_by(found, ((row, row + 1), (0, 8)), (4, 8)) for row in range(4))


def test_rows_of_half_the_channels_are_read_without_the_other_rows() -> None:
    stored, seen = (1, 6, 2, 3, 4), numbered(1, 12, 3, 4)[:, 6:]
    found = geometry("Concat", stored, seen, (1, 12, 3, 4), {"axis": 1})
    assert found is not None
    tile = ((0, 1), (0, 12), (1, 2), (0, 4))
    assert read_by(found, tile, stored) == set(seen[:, :, 1:2].reshape(-1))


@given(st.data())
def test_what_is_needed_of_a_part_is_read_wherever_it_lies(data: st.DataObject) -> None:
    stored = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    sizes = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    strides = [data.draw(st.integers(0, prod(stored))) for _ in sizes]
    reach = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    if reach >= prod(stored):
        return
    first = data.draw(st.integers(0, prod(stored) - 1 - reach))
    numbers = numbered(*stored)
    seen = np.lib.stride_tricks.as_strided(
        numbers.reshape(-1)[first:], sizes, [stride * numbers.itemsize for stride in strides]
    )
    spans = spans_of_part([Span(size, at) for at, size in enumerate(sizes)], stored, (first, *strides))
    for tile in product(*(_pieces(size) for size in sizes)):
        ranges = [
            (0, span.size) if span.axis is None else span.range(*tile[span.axis], sizes[span.axis]) for span in spans
        ]
        read = numbers[tuple(slice(*each) for each in ranges)]
        assert set(seen[tuple(slice(*each) for each in tile)].reshape(-1)) <= set(read.reshape(-1))


@pytest.mark.parametrize("part", [[5, 7, 1], [-1, 8, 1], [0, 8], [30, 8, 1]])
def test_all_is_read_where_nothing_says_where_a_part_lies(part: list[int]) -> None:
    assert spans_of_part((Span(2, 0), Span(4, 1)), (4, 8), part) == (Span(4), Span(8))


def _pieces(size: int) -> list[Range]:
    return sorted({(0, size), (0, 1), (size // 2, size // 2 + 1), (size - 1, size)})
