"""The smallest part of an operator, held against the tiles of its splits."""

from __future__ import annotations

import random
from itertools import islice, permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.problem import Problem
from onchip.ir.graph import Graph
from onchip.model.capacity.bounds import operator_need, packed_bytes
from onchip.ops.entries import geometry_of
from onchip.ops.slicing import Geometry, tile_sizes
from onchip.scheduling.candidates.split import smallest_part_bytes
from onchip.transform.slices.emission import operands_of_tiles
from onchip.transform.slices.tile_choice import TileChoice, cut
from support.tiled import networks, problem_of

_MOST_TILES = 64


def need_in_tiles(problem: Problem, geometry: Geometry, sizes: tuple[int, ...], order: tuple[int, ...]) -> int:
    """What the largest tile of a split needs, if nobody else cuts its operands."""
    operator = problem.graph.operators[0]
    split = TileChoice(geometry, sizes, order, 0)
    cuts = {tensor.name: [set[int]() for _ in tensor.shape or ()] for tensor in problem.graph.tensors}
    cut(cuts, split)
    tiles = operands_of_tiles(problem, operator, split, cuts)
    return max(packed_bytes((size for _, size in items), problem.memories[0].alignment_bytes) for items in tiles)


def few_tiles(geometry: Geometry, sizes: tuple[int, ...]) -> bool:
    count = 1
    for axis, size in zip(geometry.axes, sizes, strict=True):
        count *= -(-axis.size // size)
    return count <= _MOST_TILES


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(networks(1), st.sampled_from((1, 4, 16)), st.booleans(), st.randoms(use_true_random=False))
def test_the_smallest_part_is_no_larger_than_some_tile_of_any_split(
    graph: Graph, alignment_bytes: int, is_model: bool, chance: random.Random
) -> None:
    problem = problem_of(graph, 2**30, alignment_bytes=alignment_bytes)
    operator = problem.graph.operators[0]
    geometry = geometry_of(operator, problem.graph, is_model=is_model)
    smallest = smallest_part_bytes(problem, operator, geometry)
    assert smallest <= operator_need(problem, operator).need_bytes
    if geometry is None:
        assert smallest == operator_need(problem, operator).need_bytes
        return
    every = [tile_sizes(axis.size) for axis in geometry.axes]
    splits = [sizes for sizes in product(*every) if few_tiles(geometry, sizes)]
    chance.shuffle(splits)
    orders = list(islice(permutations(range(len(geometry.axes))), 6))
    for sizes in splits[:8]:
        assert all(smallest <= need_in_tiles(problem, geometry, sizes, order) for order in orders)
