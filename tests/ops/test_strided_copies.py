"""Copies with arbitrary strides, in tiles: the part of the map that a tile reads, compared with numpy's."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest

from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Range
from onchip.ops.entries import geometry_of
from onchip.ops.slicing import Geometry
from support.tiled import Attributes

HEADS = ((1, 5, 36), (1, 3, 5, 4), (180, 4, 36, 1), 12)
"""The keys of three heads of four features, in a tensor of adjacent queries, keys and values."""
TURNED = ((1, 5, 36), (1, 3, 4, 5), (180, 4, 1, 36), 12)
EVERY_OTHER = ((4, 6), (2, 3), (12, 2), 7)
CUT = ((4, 6), (4, 2), (6, 1), 3)
SPREAD = ((4, 6), (3, 4, 2), (0, 6, 1), 3)


def geometry(source: tuple[int, ...], written: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Geometry:
    tensors = (Tensor.of_shape("x", source, 8, Role.INPUT), Tensor.of_shape("y", written, 8, Role.OUTPUT))
    operator = Operator("op", "contiguous", ("x",), ("y",), (), {"strides": list(strides), "offset": offset})
    found = geometry_of(operator, Graph("one", tensors, (operator,)), is_model=True)
    assert found is not None
    return found


@pytest.mark.parametrize(("source", "written", "strides", "offset"), [HEADS, TURNED, EVERY_OTHER, CUT, SPREAD])
def test_a_tile_reads_all_that_it_copies(
    source: tuple[int, ...], written: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> None:
    found = geometry(source, written, strides, offset)
    numbers = np.arange(prod(source)).reshape(source)
    copied = np.lib.stride_tricks.as_strided(
        numbers.reshape(-1)[offset:], written, [stride * numbers.itemsize for stride in strides]
    )
    for tile in product(*(_pieces(axis.size) for axis in found.axes)):
        region = found.reads[0].region(tile, found.axes)
        assert region is not None
        read = numbers[tuple(slice(*each) for each in region)]
        assert set(copied[tuple(slice(*each) for each in tile)].reshape(-1)) <= set(read.reshape(-1))


def test_pixels_that_are_copied_one_by_one_are_read_so() -> None:
    found = geometry(*HEADS)
    assert found.reads[0].region([(0, 1), (0, 3), (2, 3), (0, 4)], found.axes) == ((0, 1), (2, 3), (0, 36))
    assert found.reads[0].region([(0, 1), (0, 3), (0, 2), (0, 4)], found.axes) == ((0, 1), (0, 2), (0, 36))


@pytest.mark.parametrize(
    "attributes", [{}, {"strides": [6, 1], "offset": 5}, {"strides": [6, -1]}, {"strides": [6]}, {"strides": [7, 1]}]
)
def test_it_is_not_cut_where_nothing_says_what_it_copies(attributes: Attributes) -> None:
    tensors = (Tensor.of_shape("x", (4, 6), 8, Role.INPUT), Tensor.of_shape("y", (4, 2), 8, Role.OUTPUT))
    operator = Operator("op", "contiguous", ("x",), ("y",), (), attributes)
    assert geometry_of(operator, Graph("one", tensors, (operator,)), is_model=True) is None


def _pieces(size: int) -> list[Range]:
    return sorted({(0, size), (0, 1), (size // 2, size // 2 + 1), (size - 1, size)})
