"""Mappings of nests in a schedule: adapted from other homes, quick while places are tried, asked again when proven."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

import pytest

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.schedule import Homes
from onchip.ir.layer import Layer
from onchip.mapping.methods.cache import map_layer_at
from onchip.model.program.compute_cost import nest_cost
from onchip.scheduling.mappings.mapped import KnownMappings, MappedNest, Room
from onchip.scheduling.mappings.nest_mapper import BestMapper, adapted, best_adapted
from onchip.scheduling.program.runs import NestPlace
from onchip.search.budget.limits import Limits, Run
from onchip.verify.mapping import verify_mapping
from support.series import series
from support.small_schedules import skip_chip

LAYER = Layer(k=2, c=2, p=4, q=4, r=3, s=3, partial_bits=16)
CHIP = skip_chip(400, 4000)
ROOM = {"near": 400, "far": 4000}
HOMES = [Homes(*one) for one in product((None, "near", "far"), repeat=3)]


def place(homes: Homes, stack: int = 0) -> NestPlace:
    return NestPlace(stack, LAYER, homes, weight_is_an_input=False)


@pytest.mark.parametrize("target", HOMES, ids=str)
def test_where_there_is_room_a_mapping_of_any_homes_is_one_of_any_other(target: Homes) -> None:
    problem = LayerProblem(LAYER, CHIP, target)
    for source in HOMES:
        mapping = map_layer_at(LayerProblem(LAYER, CHIP, source), MappingObjective.ENERGY, Run(), "loma").answer
        assert mapping is not None
        moved = adapted(mapping, problem)
        assert verify_mapping(problem, moved) == ()
        assert moved.nest == mapping.nest
        for operand in LAYER.operands:
            kept = [one.memory for one in moved.kept(operand)]
            assert kept == [level.memory.name for level in problem.keepers(operand)]


def test_a_mapping_for_the_same_homes_stays_as_it_is() -> None:
    problem = LayerProblem(LAYER, CHIP, Homes(input="far"))
    mapping = map_layer_at(problem, MappingObjective.ENERGY, Run()).answer
    assert mapping is not None
    assert adapted(mapping, problem) == mapping


@pytest.mark.parametrize("objective", series(MappingObjective, 1))
@pytest.mark.parametrize("far_bytes", series([900, 300, 4000], 1))
def test_of_all_homes_the_mapping_that_costs_least_here_is_found(objective: MappingObjective, far_bytes: int) -> None:
    room = {"near": 40, "far": far_bytes}
    asked = [LayerProblem(LAYER, CHIP, homes, room) for homes in HOMES]
    found = [
        map_layer_at(problem, objective, Run(), method).answer for problem in asked for method in ("loma", "exact")
    ]
    similar = [mapping for mapping in found if mapping is not None]

    for problem in asked:
        values = {
            mapping: objective.of(cost.energy_pj, cost.cycles)
            for mapping in (adapted(other, problem) for other in similar)
            if not verify_mapping(problem, mapping)
            for cost in (nest_cost(problem, mapping),)
        }
        best = best_adapted(problem, similar, objective)
        assert (None if best is None else values[best]) == pytest.approx(min(values.values(), default=None))


def test_an_operand_that_comes_nearer_costs_no_more_than_its_old_mapping_without_the_memories_above() -> None:
    mapper = BestMapper(CHIP, MappingObjective.ENERGY, Run(Limits(60)))
    streamed = mapper(place(Homes()), ROOM)
    assert streamed is not None

    with mapper.quick():
        nearer = mapper(place(Homes(input="far")), ROOM, [streamed.mapping])

    assert nearer is not None
    assert nearer.cost.energy_pj < streamed.cost.energy_pj


@dataclass(slots=True)
class CountingMapper:
    """Knows one mapping, and who asked for it."""

    is_quick: bool = False
    asked: list[tuple[Homes, int]] = field(default_factory=list)
    expected: list[int] = field(default_factory=list)

    def __call__(self, nest: NestPlace, room: Room, similar: Sequence[LayerMapping]) -> MappedNest | None:
        self.asked.append((nest.homes, len(similar)))
        problem = LayerProblem(nest.layer, CHIP, nest.homes)
        found = map_layer_at(problem, MappingObjective.ENERGY, Run(), "loma").answer
        assert found is not None
        return MappedNest(found, nest_cost(problem, found), is_quick=self.is_quick)

    def expect(self, asked: Sequence[tuple[NestPlace, Room]]) -> None:
        self.expected.append(len(asked))


def test_what_was_found_quickly_is_asked_again_by_who_is_not_quick() -> None:
    mapper = CountingMapper(is_quick=True)
    known = KnownMappings(mapper)
    known.best(place(Homes()), ROOM)
    known.best(place(Homes(), stack=3), ROOM)
    assert len(mapper.asked) == 1

    mapper.is_quick = False
    known.best(place(Homes()), ROOM)
    known.best(place(Homes()), ROOM)
    assert len(mapper.asked) == 2

    mapper.is_quick = True
    known.announce([(place(Homes()), ROOM), (place(Homes(input="far")), ROOM)])
    assert mapper.expected == [1]


def test_who_is_asked_hears_of_the_same_layer_at_other_homes() -> None:
    mapper = CountingMapper()
    known = KnownMappings(mapper)
    for homes in HOMES[:3]:
        known.best(place(homes), ROOM)
    assert mapper.asked == [(HOMES[0], 0), (HOMES[1], 1), (HOMES[2], 2)]


def test_a_better_mapping_replaces_what_is_known() -> None:
    mapper = CountingMapper()
    known = KnownMappings(mapper)
    first = known.best(place(Homes()), ROOM)
    assert first is not None
    better = BestMapper(CHIP, MappingObjective.ENERGY, Run())(place(Homes()), ROOM)
    assert better is not None
    known.replace(place(Homes()), ROOM, better)
    assert known.best(place(Homes()), ROOM) is better
    assert better.is_proven
    assert better.cost.energy_pj <= first.cost.energy_pj
