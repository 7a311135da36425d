"""Mapping searches for a schedule: the nests searched, their order, workers and repeated searches."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from math import inf

import pytest

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.result import Status
from onchip.answer.schedule import Homes, ScheduledStack
from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.mapping.methods.cache import best_mapping_at, first_mapping_at, hurried_mapping_at, map_layer_at
from onchip.model.program.compute_cost import nest_cost
from onchip.scheduling.mappings.cycle_floors import CycleFloors
from onchip.scheduling.mappings.mapped import KnownMappings, MappedNest, Room, is_within, key_of
from onchip.scheduling.mappings.nest_mapper import SECONDS_OF_A_MAKESHIFT, BestMapper, adapted, best_adapted
from onchip.scheduling.mappings.weighing import LongerLook
from onchip.scheduling.program.attempt import AttemptMaker, ScheduleAttempt
from onchip.scheduling.program.composition import Composer, Composition, ScheduleQuestion
from onchip.scheduling.program.places import Places
from onchip.scheduling.program.runs import NestPlace, TiledNetwork
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits, Run
from onchip.transform.groups.tiled import tile_graph
from onchip.verify.mapping import verify_mapping
from support.series import in_one_test, series
from support.small_schedules import PRECISION, skip_chip, skip_network

CHIP = skip_chip(400, 4000)
LAYER = Layer(k=2, c=2, p=4, q=4, r=3, s=3, partial_bits=16)
STACKS = tuple(ScheduledStack((name,)) for name in ("first", "second", "add", "soft"))


def in_time() -> Run:
    """Return a run with an ample time limit, which starts at this call."""
    return Run(Limits(60.0))


@dataclass(slots=True)
class Listening(BestMapper):
    """A mapper that records the nests, homes and rooms of its longer searches."""

    heard: list[tuple[Layer, Homes, Room]] = field(default_factory=list)
    before: float = 0.0

    def longer(self, nest: NestPlace, room: Room, seconds: float) -> MappedNest | None:
        self.heard.append((nest.layer, nest.homes, room))
        return BestMapper.longer(self, nest, room, seconds)

    def seconds_of(self, layer: Layer) -> float:
        return self.before


@pytest.fixture
def loma_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use LOMA alone, as even a few steps of a search would find the best mappings of these small layers."""
    monkeypatch.setattr("onchip.scheduling.mappings.nest_mapper.SECONDS_OF_A_FIRST_LOOK", inf)
    monkeypatch.setattr(
        "onchip.scheduling.mappings.nest_mapper.hurried_mapping_at", partial(map_layer_at, method="loma")
    )


def quickly_composed() -> tuple[Listening, KnownMappings, ScheduleAttempt]:
    """Return the network composed layer by layer, everything streamed, with quick mappings."""
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
    """Equal nests therefore need no further search in less room than the searched one had."""
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
    """A layer whose search took longer than the time left gets an adapted mapping from other homes."""
    mapper = Listening(CHIP, MappingObjective.ENERGY, in_time(), before=1000.0)
    found = mapper(NestPlace(0, LAYER, Homes(), weight_is_an_input=False), {"near": 400, "far": 4000})
    assert found is not None
    assert found.is_quick
    assert not found.is_proven


@in_one_test("seed", range(12))
def test_first_steps_find_what_is_no_worse_than_loma_and_the_same_each_time(seed: int) -> None:
    """A first step that claims a proof agrees with the whole search."""
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
    """A hurried mapping exists wherever LOMA finds one, and is never claimed to be optimal."""
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


ROOM = {"near": 400, "far": 4000}
NESTS = [NestPlace(0, LAYER, Homes(input=home), weight_is_an_input=False) for home in (None, "near", "far")]
CHANNELS = (2, 6, 4, 4, 4, 12, 8, 2, 2, 16, 3)
"""Before the first convolution, and after each: neither the first nor the last is the heaviest."""
ROOMY_CHIP = skip_chip(4000, 40_000)


def chain() -> Graph:
    """Return a chain of convolutions of many sizes; the third and the fourth are alike."""
    roles = (Role.INPUT, *[Role.ACTIVATION] * (len(CHANNELS) - 2), Role.OUTPUT)
    maps = [
        Tensor.of_shape(f"m{at}", (1, count, 4, 4), 8, role)
        for at, (count, role) in enumerate(zip(CHANNELS, roles, strict=True))
    ]
    sizes = [(CHANNELS[at + 1], CHANNELS[at], 3, 3) for at in range(len(CHANNELS) - 1)]
    weights = [Tensor.of_shape(f"w{at}", size, 8, Role.PARAMETER) for at, size in enumerate(sizes)]
    operators = (
        Operator(
            f"conv{at}", "Conv", (f"m{at}",), (f"m{at + 1}",), (f"w{at}",), {"kernel_shape": [3, 3], "pads": [1] * 4}
        )
        for at in range(len(sizes))
    )
    return Graph("chain", (*maps, *weights), tuple(operators))


@dataclass(frozen=True, slots=True)
class Ending(Deadline):
    """A deadline after a number of mapping searches; each check of the time counts as one."""

    needs: list[float] = field(default_factory=list, kw_only=True)
    searches: int = field(default=0, kw_only=True)

    def is_too_short_for(self, processor_seconds: float) -> bool:
        """Return True after that many checks."""
        self.needs.append(processor_seconds)
        return len(self.needs) > self.searches


def composed_within(run: Run) -> tuple[Composition, BestMapper]:
    """Return a composition layer by layer, everything streamed, with quick mappings, and its mapper."""
    network = chain()
    stacks = tuple(ScheduledStack((operator.name,)) for operator in network.operators)
    mapper = BestMapper(ROOMY_CHIP, MappingObjective.LATENCY, run)
    tiles = TiledNetwork.of(tile_graph(network, stacks, PRECISION))
    composer = Composer(stacks, tiles, ROOMY_CHIP, KnownMappings(mapper), run)
    with mapper.quick(is_sure=True):
        return composer.composed(Places()), mapper


def weights_of(composition: Composition, mapper: BestMapper) -> tuple[list[float], list[float]]:
    """Return the weights of nests with makeshifts and of other nests: least cycles times number of occurrences."""
    nests = list(composition.nests)
    times = Counter(key_of(nest) for nest, _, _ in nests)
    weighed = [
        (times[key_of(nest)] * mapper.floors.least_cycles(nest.layer, weight_is_an_input=False), mapped.is_makeshift)
        for nest, _, mapped in nests
    ]
    return [one for one, is_makeshift in weighed if is_makeshift], [one for one, made in weighed if not made]


@pytest.mark.parametrize("searches", range(9))
def test_makeshifts_are_on_nests_that_are_no_heavier_than_any_that_is_mapped(searches: int) -> None:
    makeshifts, mapped = weights_of(*composed_within(Run(deadline=Ending(searches=searches))))
    assert makeshifts
    assert bool(mapped) is (searches > 0)
    assert max(makeshifts) <= min(mapped, default=max(makeshifts))


def test_the_heaviest_nest_is_mapped_first_wherever_it_stands() -> None:
    """Program order would map the first convolution first."""
    composition, _ = composed_within(Run(deadline=Ending(searches=3)))
    first, *_ = composition.nests
    assert first[2].is_makeshift


@pytest.mark.parametrize("searches", range(10))
def test_time_is_kept_back_for_makeshifts_of_all_nests_that_have_no_mapping_yet(searches: int) -> None:
    """Two of the ten nests are alike. No further search starts once time is too short, though some time is left."""
    deadline = Ending(searches=searches)
    composition, _ = composed_within(Run(deadline=deadline))
    looks = min(searches + 1, 9)
    assert deadline.needs[:looks] == [pytest.approx(SECONDS_OF_A_MAKESHIFT * (9 - at)) for at in range(looks)]
    mapped = {key_of(nest): one.is_makeshift for nest, _, one in composition.nests}
    assert len(mapped) == 9
    assert sum(mapped.values()) == 9 - searches


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
    """A mapper by LOMA that records the homes of its questions and their numbers of similar mappings."""

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
