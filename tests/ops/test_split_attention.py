"""Attention in tiles: heads and queries are cut; the elements that a tile reads are compared with numpy."""

from __future__ import annotations

from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Range, Region
from onchip.ops.entries import geometry_of
from onchip.ops.slicing import Geometry

Shape = tuple[int, ...]
Array = npt.NDArray[np.float64]
PLAIN = [(2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 2)]
GROUPED = [(1, 4, 3, 5), (1, 2, 6, 5), (1, 2, 6, 3)]
MASKS: list[Shape] = [(1, 1, 4, 6), (2, 3, 4, 6), (2, 1, 1, 6), (1, 3, 4, 1)]
CASES = [PLAIN, GROUPED, *([*PLAIN, mask] for mask in MASKS)]


def geometry(*shapes: Shape) -> Geometry | None:
    names = [f"x{at}" for at in range(len(shapes))]
    tensors = [Tensor.of_shape(name, shape, 8, Role.INPUT) for name, shape in zip(names, shapes, strict=True)]
    tensors.append(Tensor.of_shape("y", (*shapes[0][:3], shapes[2][-1]), 8, Role.OUTPUT))
    operator = Operator("op", "Attention", tuple(names), ("y",))
    return geometry_of(operator, Graph("one", tuple(tensors), (operator,)), is_model=False)


def attention(queries: Array, keys: Array, values: Array, mask: Array | None = None) -> Array:
    shared = queries.shape[1] // keys.shape[1]
    keys, values = (np.repeat(one, shared, axis=1) for one in (keys, values))
    scores = queries @ keys.swapaxes(2, 3) + (0.0 if mask is None else mask)
    weights = np.exp(scores - scores.max(axis=3, keepdims=True))
    found: Array = weights / weights.sum(axis=3, keepdims=True) @ values
    return found


def outside_of(content: Array, region: Region) -> Array:
    """Return the array with other values outside the region that the tile reads."""
    spoilt = np.full_like(content, 7.0)
    inside = tuple(slice(*each) for each in region)
    spoilt[inside] = content[inside]
    return spoilt


@pytest.mark.parametrize("shapes", CASES)
def test_a_tile_reads_all_that_it_depends_on(shapes: list[Shape]) -> None:
    found = geometry(*shapes)
    assert found is not None
    chance = np.random.default_rng(1)
    operands = [chance.normal(size=shape) for shape in shapes]
    expected = attention(*operands)
    for tile in product(*(_pieces(axis.size) for axis in found.axes)):
        regions = [read.region(tile, found.axes) for read in found.reads]
        given = [outside_of(one, region) for one, region in zip(operands, regions, strict=True) if region is not None]
        inside = tuple(slice(*each) for each in tile)
        assert np.array_equal(attention(*given)[inside], expected[inside])


def test_a_head_of_queries_reads_the_keys_that_it_shares() -> None:
    found = geometry(*GROUPED)
    assert found is not None
    regions = [read.region([(0, 1), (3, 4), (1, 2), (0, 3)], found.axes) for read in found.reads]
    assert regions[0] == ((0, 1), (3, 4), (1, 2), (0, 5))
    assert regions[1] == ((0, 1), (1, 2), (0, 6), (0, 5))


@pytest.mark.parametrize(
    "shapes",
    [
        [(2, 4, 5), (2, 6, 5), (2, 6, 2)],
        [(2, 3, 4, 5), (2, 2, 6, 5), (2, 2, 6, 2)],
        [(2, 3, 4, 5), (2, 3, 6, 4), (2, 3, 6, 2)],
        [*PLAIN, (1, 1, 3, 6)],
        [*PLAIN, (4, 6)],
        [*PLAIN, (1, 1, 4, 6), (1, 1, 1, 1)],
    ],
)
def test_what_does_not_fit_together_is_not_cut(shapes: list[Shape]) -> None:
    assert geometry(*shapes) is None


def _pieces(size: int) -> list[Range]:
    return sorted({(0, size), (0, 1), (size // 2, size // 2 + 1), (size - 1, size)})
