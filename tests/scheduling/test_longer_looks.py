"""Repeated mapping searches with more time: the choice of nests, and the effect on other nests of the layer."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import partial
from math import inf

import pytest

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.result import Status
from onchip.answer.schedule import Homes, ScheduledStack
from onchip.errors import InputError
from onchip.ir.layer import Layer
from onchip.mapping.methods.cache import best_mapping_at, first_mapping_at, hurried_mapping_at, map_layer_at
from onchip.model.program.compute_cost import nest_cost
from onchip.scheduling.mappings.mapped import KnownMappings, MappedNest, Room, is_within
from onchip.scheduling.mappings.nest_mapper import BestMapper
from onchip.scheduling.mappings.weighing import LongerLook
from onchip.scheduling.program.attempt import AttemptMaker, ScheduleAttempt
from onchip.scheduling.program.composition import ScheduleQuestion
from onchip.scheduling.program.places import Places
from onchip.scheduling.program.runs import NestPlace
from onchip.search.budget.limits import Limits, Run
from onchip.verify.mapping import verify_mapping
from support.series import in_one_test
from support.small_schedules import PRECISION, skip_chip, skip_network

CHIP = skip_chip(400, 4000)
LAYER = Layer(k=2, c=2, p=4, q=4, r=3, s=3, partial_bits=16)
STACKS = tuple(ScheduledStack((name,)) for name in ("first", "second", "add", "soft"))


def in_time() -> Run:
    """A run of limited time, of which there is enough; it begins when it is made."""
    return Run(Limits(60.0))


@dataclass(slots=True)
class Listening(BestMapper):
    """Says who was asked for longer, and in how much room."""

    heard: list[tuple[Layer, Homes, Room]] = field(default_factory=list)
    before: float = 0.0

    def longer(self, nest: NestPlace, room: Room, seconds: float) -> MappedNest | None:
        self.heard.append((nest.layer, nest.homes, room))
        return BestMapper.longer(self, nest, room, seconds)

    def seconds_of(self, layer: Layer) -> float:
        return self.before


@pytest.fixture
def loma_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of a search, even few, would find the best mappings of so small layers."""
    monkeypatch.setattr("onchip.scheduling.mappings.nest_mapper.SECONDS_OF_A_FIRST_LOOK", inf)
    monkeypatch.setattr(
        "onchip.scheduling.mappings.nest_mapper.hurried_mapping_at", partial(map_layer_at, method="loma")
    )


def quickly_composed() -> tuple[Listening, KnownMappings, ScheduleAttempt]:
    """The network layer by layer, everything streamed, with mappings that were found at once."""
    question = ScheduleQuestion(skip_network(), CHIP, PRECISION, ScheduleObjective.LATENCY, uses_cache=False)
    run = in_time()
    mapper = Listening(CHIP, MappingObjective.LATENCY, run)
    known = KnownMappings(mapper)
    with mapper.quick():
        return mapper, known, AttemptMaker(question, known, mapper, run).made(STACKS, Places())


@pytest.mark.usefixtures("loma_alone")
def test_nests_that_are_alike_are_asked_for_once() -> None:
    mapper, known, attempt = quickly_composed()
    before = attempt.value

    LongerLook(known, mapper, counts_cycles=True).improve(attempt, mapper.run)

    layers = [nest.layer for nest, _, _ in attempt.improver.best.composition.nests]
    assert len(layers) > len(set(layers)) == len(mapper.heard)
    assert {layer for layer, _, _ in mapper.heard} == set(layers)
    assert attempt.value <= before
    assert all(mapped.is_proven for _, _, mapped in attempt.improver.best.composition.nests)


@pytest.mark.usefixtures("loma_alone")
def test_nothing_is_asked_for_in_less_time_than_it_had_before() -> None:
    mapper, known, attempt = quickly_composed()
    mapper.before = 100.0

    LongerLook(known, mapper, counts_cycles=True).improve(attempt, mapper.run)

    assert mapper.heard == []


@in_one_test("seed", range(12))
def test_what_is_best_in_a_room_is_best_in_every_smaller_one_in_which_it_fits(seed: int) -> None:
    """So nests that are alike need no search in less room than one of them had."""
    chance = random.Random(seed)
    objective = chance.choice(list(MappingObjective))
    homes = Homes(*(chance.choice((None, "far")) for _ in range(3)))
    large: Room = {"near": chance.randint(4, 60), "far": chance.randint(20, 300)}
    small: Room = {name: chance.randint(size // 2, size) for name, size in large.items()}
    assert is_within(small, large)

    def best(room: Room) -> tuple[float, MappedNest] | None:
        problem = LayerProblem(LAYER, CHIP, homes, room)
        found = map_layer_at(problem, objective, Run()).answer
        if found is None:
            return None
        mapped = MappedNest(found, nest_cost(problem, found))
        return objective.of(mapped.cost.energy_pj, mapped.cost.cycles), mapped

    first, second = best(large), best(small)
    assert first is not None or second is None
    if first is not None and second is not None:
        assert first[0] <= second[0]
        assert first[0] == second[0] or not first[1].fits(small)


@pytest.mark.usefixtures("loma_alone")
def test_what_was_found_at_once_is_found_anew_when_better_is_known_of_its_layer() -> None:
    mapper = BestMapper(CHIP, MappingObjective.ENERGY, in_time())
    known = KnownMappings(mapper)
    room = {"near": 400, "far": 4000}
    streamed, near = (NestPlace(0, LAYER, homes, weight_is_an_input=False) for homes in (Homes(), Homes(input="far")))
    with mapper.quick():
        first = known.best(near, room)
        proven = mapper.longer(streamed, room, 10.0)
        assert first is not None
        assert proven is not None
        known.replace(streamed, room, proven)
        again = known.best(near, room)

    assert again is not None
    assert again is not first
    assert mapper.value_of(again) <= mapper.value_of(first)
    with mapper.quick():
        assert known.best(near, room) is again


@pytest.mark.usefixtures("loma_alone")
def test_a_search_that_would_be_in_vain_is_not_begun() -> None:
    """Of a layer that was searched for longer than there is time, what is known at other homes is adapted."""
    mapper = Listening(CHIP, MappingObjective.ENERGY, in_time(), before=1000.0)
    found = mapper(NestPlace(0, LAYER, Homes(), weight_is_an_input=False), {"near": 400, "far": 4000})
    assert found is not None
    assert found.is_quick
    assert not found.is_proven


@in_one_test("seed", range(12))
def test_first_steps_find_what_is_no_worse_than_loma_and_the_same_each_time(seed: int) -> None:
    """What they say to be proven is what a whole search finds."""
    chance = random.Random(seed)
    objective = chance.choice(list(MappingObjective))
    layer = Layer(k=chance.randint(1, 12), c=chance.randint(1, 12), p=6, q=4, r=3, s=chance.choice((1, 3)))
    homes = Homes(*(chance.choice((None, "far")) for _ in range(3)))
    problem = LayerProblem(layer, skip_chip(400, 20_000), homes, {"near": 400, "far": chance.randint(100, 4000)})
    loma, first, again = (
        map_layer_at(problem, objective, Run(), "loma"),
        *(first_mapping_at(problem, objective, in_time()) for _ in range(2)),
    )
    assert (first.answer, first.status) == (again.answer, again.status)
    assert loma.objective_value is None or (first.objective_value or 0) <= loma.objective_value
    if first.answer is not None:
        assert not verify_mapping(problem, first.answer)
    if first.status is Status.OPTIMAL:
        assert first.objective_value == best_mapping_at(problem, objective, Run()).objective_value


@in_one_test("seed", range(12))
def test_a_hurried_mapping_is_legal_and_the_same_each_time(seed: int) -> None:
    """It is there wherever LOMA has one, and never said to be the best."""
    chance = random.Random(seed)
    objective = chance.choice(list(MappingObjective))
    layer = Layer(k=chance.randint(1, 60), c=chance.randint(1, 60), p=14, q=7, r=3, s=chance.choice((1, 3)))
    homes = Homes(*(chance.choice((None, "far")) for _ in range(3)))
    problem = LayerProblem(layer, skip_chip(400, 20_000), homes, {"near": 400, "far": chance.randint(100, 4000)})
    first, again = (hurried_mapping_at(problem, objective, Run()) for _ in range(2))
    assert (first.answer, first.status) == (again.answer, again.status)
    assert first.status is not Status.OPTIMAL
    if first.answer is None:
        assert map_layer_at(problem, objective, Run(), "loma").answer is None
    else:
        assert verify_mapping(problem, first.answer) == ()


def test_where_there_is_no_time_for_first_steps_of_all_nests_the_first_dive_will_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[str] = []
    for name in ("first_mapping_at", "hurried_mapping_at"):
        monkeypatch.setattr(f"onchip.scheduling.mappings.nest_mapper.{name}", partial(_tells, found, name))
    mapper, room = BestMapper(CHIP, MappingObjective.ENERGY, in_time()), {"near": 400, "far": 4000}
    nest = NestPlace(0, LAYER, Homes(), weight_is_an_input=False)
    with mapper.quick():
        mapper.expect([(nest, room)] * 10)
        mapper(nest, room)
        mapper.expect([(nest, room)] * 100_000)
        mapper(nest, room)
    assert found == ["first_mapping_at", "hurried_mapping_at"]


def test_what_no_quick_method_maps_has_a_makeshift_where_a_mapping_is_needed_at_once_and_is_searched_for_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("onchip.scheduling.mappings.nest_mapper.first_mapping_at", _maps_nothing)
    monkeypatch.setattr("onchip.scheduling.mappings.nest_mapper.best_mapping_at", _is_not_asked)
    mapper, nest = (
        BestMapper(CHIP, MappingObjective.ENERGY, in_time()),
        NestPlace(0, LAYER, Homes(), weight_is_an_input=False),
    )
    room = {"near": 400, "far": 4000}
    with mapper.quick():
        assert mapper(nest, room) is None
    with mapper.quick(is_sure=True):
        found = mapper(nest, room)
    assert found is not None
    assert found.is_quick
    assert not found.is_makeshift
    assert not found.is_proven


def _is_not_asked(*_: object) -> None:
    pytest.fail("a search was asked for")


def _tells(found: list[str], name: str, problem: LayerProblem, objective: MappingObjective, run: Run) -> object:
    found.append(name)
    return map_layer_at(problem, objective, run, "loma")


def _maps_nothing(*_: object) -> None:
    raise InputError("it is none of its layers", place="layer", expected="another")
