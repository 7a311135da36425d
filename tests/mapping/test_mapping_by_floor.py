"""The search by floors: it never loses its starts, costs nothing above its best, and agrees with a full search."""

from __future__ import annotations

from itertools import chain
from math import inf, prod
from random import Random

import pytest
from cosa.by_floor import FloorSearch
from cosa.neighbours import neighbours

from onchip.answer.layer_mapping import LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.ir.layer import Layer
from onchip.model.layer.cost import layer_cost
from onchip.verify.mapping import verify_mapping
from support.network_mappings import SIMBA, mappings_for_the_network


def cycles(problem: LayerProblem, mapping: LayerMapping) -> float:
    return layer_cost(problem, mapping).cycles


def search(problem: LayerProblem, looseness: float, asked: list[tuple[float, float]]) -> FloorSearch:
    """Return a latency search with a random floor; `asked` receives the floor and the incumbent at each costing."""

    def floor(mapping: LayerMapping) -> float:
        return cycles(problem, mapping) * (1 - looseness * Random(str(mapping)).random())

    def cost(mapping: LayerMapping) -> float:
        asked.append((floor(mapping), found.least))
        return cycles(problem, mapping)

    found = FloorSearch(problem, floor, cost, str)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_neighbours_are_mappings_of_the_same_layer_and_all_go_both_ways(seed: int) -> None:
    problem, mappings = mappings_for_the_network(seed)
    mapping = mappings[0].without_loops_of_one()
    near = list(neighbours(problem, mapping))
    assert all(one.bounds == mapping.bounds for one in near)
    moved = [one for one in dict.fromkeys(near) if one != mapping]
    back = [mapping.bounds == one.bounds and _sizes(mapping) in map(_sizes, neighbours(problem, one)) for one in moved]
    assert moved
    assert all(back)


def _sizes(mapping: LayerMapping) -> dict[tuple[str, str | None, int], int]:
    """Return the product of the loops of each kind between two cuts, which identifies a neighbour up to loop order."""
    cuts = sorted({kept.loops for kept in chain(mapping.input, mapping.weight, mapping.output)})
    parts: dict[tuple[str, str | None, int], int] = {}
    for at, loop in enumerate(mapping.nest):
        key = loop.dimension, loop.along, 0 if loop.along else sum(cut <= at for cut in cuts)
        parts[key] = parts.get(key, 1) * loop.size
    return parts


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("looseness", [0.0, 0.5])
def test_nothing_is_costed_whose_floor_is_not_below_the_best(seed: int, looseness: float) -> None:
    problem, mappings = mappings_for_the_network(seed)
    asked: list[tuple[float, float]] = []
    found = search(problem, looseness, asked).run(mappings[:3], 2)
    starts = len({str(one.without_loops_of_one()) for one in mappings[:3]})
    assert all(floor < best for floor, best in asked[starts:])
    assert len(asked) <= starts + 2
    assert found.cost <= min(cycles(problem, one) for one in mappings[:3])
    assert found.mapping is not None
    assert not list(verify_mapping(problem, found.mapping))
    assert found.cost == cycles(problem, found.mapping)


def test_from_one_after_the_other_it_comes_to_all_units() -> None:
    problem = LayerProblem(Layer(k=64, c=16), SIMBA)
    start = LayerMapping((Loop("K", 64), Loop("C", 16)))
    found = search(problem, 0.0, []).run([start], 60).mapping
    assert found is not None
    assert prod(loop.size for loop in found.nest if loop.along) == 1024


def test_it_ends_where_a_cost_is_good_enough() -> None:
    problem, mappings = mappings_for_the_network(3)
    asked: list[tuple[float, float]] = []
    search(problem, 0.0, asked).run(mappings[:1], 50, good_enough=inf)
    assert len(asked) == 1


def test_a_start_that_ends_short_is_kept_but_nothing_is_near_it() -> None:
    problem = LayerProblem(Layer(k=7), SIMBA)
    short = LayerMapping((Loop("K", 4, "pe"), Loop("K", 2)), ragged=("K",))
    asked: list[tuple[float, float]] = []
    found = search(problem, 0.0, asked).run([short], 20)
    assert found.mapping == short
    assert len(asked) == 1
