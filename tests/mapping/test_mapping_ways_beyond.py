"""The spatial unrollings examined beyond the uniform mapspace, and their results."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import Layer
from onchip.mapping.prove.wide import solve_widely, starts
from onchip.search.budget.limits import Run

SIMBA = load_accelerator("simba")
ODD = Layer(k=31, c=37, p=11, q=11)
ON_ITS_SIDE = {"P": "Q", "Q": "P", "R": "S", "S": "R"}
WAYS = 12
Way = frozenset[tuple[str, int, str | None]]


def ways_of(layer: Layer, objective: MappingObjective) -> list[Way]:
    return [_way(mapping) for _, mapping in starts(LayerProblem(layer, SIMBA), objective, WAYS)]


def _way(mapping: LayerMapping) -> Way:
    return frozenset((loop.dimension, loop.size, loop.along) for loop in mapping.nest if loop.along)


def _mirrored(way: Way) -> Way:
    return frozenset((ON_ITS_SIDE.get(loop, loop), size, along) for loop, size, along in way)


@pytest.mark.parametrize("objective", MappingObjective)
def test_of_a_square_layer_no_way_is_another_on_its_side(objective: MappingObjective) -> None:
    ways = ways_of(ODD, objective)
    assert len(set(ways)) == len(ways) == WAYS
    assert not any(_mirrored(way) != way and _mirrored(way) in ways for way in ways)


def test_of_a_layer_whose_sides_differ_both_are_looked_at() -> None:
    for layer in (replace(ODD, q=12, p=12, stride=(2, 1)), replace(ODD, padding=(1, 0, 1, 0), p=13, q=11, r=3)):
        ways = ways_of(layer, MappingObjective.LATENCY)
        assert any({"P", "Q"} & {loop for loop, _, _ in way} for way in ways)
    sided = ways_of(replace(ODD, p=12, q=12, stride=(2, 1)), MappingObjective.LATENCY)
    assert any(_mirrored(way) != way and _mirrored(way) in sided for way in sided)


@pytest.mark.slow
def test_ways_of_equal_longer_layers_differ_where_they_are_cut_off() -> None:
    """The layer padded to even bounds takes 1,154 cycles; of ways of the same floor the first takes 1,188."""
    result = solve_widely(LayerProblem(ODD, SIMBA), MappingObjective.LATENCY, Run())
    assert result.objective_value is not None
    assert result.objective_value <= 1_154
