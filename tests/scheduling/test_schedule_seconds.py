"""Least cycles of loop nests, and makeshift mappings when no time is left."""

from __future__ import annotations

import random

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.schedule import Homes
from onchip.ir.layer import Layer
from onchip.mapping.methods.cache import map_layer_at
from onchip.model.program.compute_cost import nest_cost
from onchip.scheduling.mappings.cycle_floors import CycleFloors
from onchip.scheduling.mappings.mapped import Room
from onchip.scheduling.mappings.nest_mapper import BestMapper
from onchip.scheduling.program.runs import NestPlace
from onchip.search.budget.limits import Limits, Run
from support.series import in_one_test
from support.small_schedules import skip_chip

CHIP = skip_chip(400, 4000)


@in_one_test("seed", range(40))
def test_no_mapping_takes_fewer_cycles_than_the_least(seed: int) -> None:
    chance, floors = random.Random(seed), CycleFloors(CHIP)
    k, c, p, q, r, s = (chance.randint(1, most) for most in (4, 4, 4, 4, 3, 3))
    layer = Layer(k=k, c=c, p=p, q=q, r=r, s=s, partial_bits=16)
    is_input = chance.random() < 0.5
    homes = Homes(*(chance.choice((None, "near", "far")) for _ in range(3)))
    problem = LayerProblem(layer, CHIP, homes, weight_is_an_input=is_input)
    found = map_layer_at(problem, MappingObjective.LATENCY, Run()).answer
    least = floors.least_cycles(layer, weight_is_an_input=is_input)
    assert found is None or least <= nest_cost(problem, found).cycles
    assert least == floors.least_cycles(layer, weight_is_an_input=is_input) > 0


def test_without_time_nests_that_are_alike_have_one_makeshift_where_it_fits() -> None:
    mapper = BestMapper(CHIP, MappingObjective.LATENCY, Run(Limits(0.0)))
    nest = NestPlace(0, Layer(k=2, c=2, p=4, q=4, r=3, s=3, partial_bits=16), Homes(), weight_is_an_input=False)
    rooms: list[Room] = [{"near": 400, "far": 4000}, {"near": 400, "far": 4000}, {"near": 0, "far": 0}]
    first, again, without_room = (mapper(nest, room) for room in rooms)
    assert first is not None
    assert first.is_makeshift
    assert again is first
    assert without_room is None or not without_room.cost.workspace_bytes
