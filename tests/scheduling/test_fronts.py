"""Pareto fronts of mappings and stacks: no option is missing, and dropped options are dominated."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, product

import pytest

from onchip.answer.layer_mapping import LayerMapping, MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import ScheduleOptions
from onchip.answer.program import Allocate, Plan
from onchip.answer.schedule import ScheduledStack
from onchip.answer.stacks import Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Access
from onchip.mapping.baselines.best import mapping_of
from onchip.mapping.baselines.loma import LIMIT, filled_orders, unrolled_for
from onchip.mapping.methods.cache import map_layer_at, mappings_of_front_at
from onchip.model.accounting.accounting import INTERPRETER
from onchip.model.layer.cost import layer_cost
from onchip.model.program.compute_cost import MemoryRates, NestCost, nest_cost
from onchip.model.program.figures import schedule_figures
from onchip.scheduling.fronts.stack_front import StackDemand, StackFront, StackOption, StackPrices, cheapest_cuts
from onchip.scheduling.mappings.cycle_floors import CycleFloors
from onchip.scheduling.mappings.even_tiles import EvenTiles
from onchip.scheduling.mappings.mapped import KnownMappings, MappedNest, MappingFront, OptionPrices, Room
from onchip.scheduling.mappings.nest_mapper import PICOJOULES_OF_A_DRAM_BIT, BestMapper, dram_first
from onchip.scheduling.program.composition import Composer, NoMappingError, ScheduleQuestion
from onchip.scheduling.program.places import Places
from onchip.scheduling.program.runs import NestPlace, TiledNetwork
from onchip.scheduling.search.solve import solve_schedule
from onchip.search.budget.limits import Run
from onchip.transform.groups.tiled import tile_graph
from onchip.verify.mapping import verify_mapping
from oracles.mapspace import all_mappings, homed_toy, lean_toy, toy
from scheduling.test_schedule_composition import STACKS, figures_of, random_places
from support.series import in_one_test, series, with_slow
from support.small_schedules import ALONE, FULLY, PRECISION, TILED, alone, grid_chip, maker, skip_chip, skip_network


def every_option(problem: LayerProblem) -> list[MappedNest]:
    """Return several hundred of the mappings of a tiny layer, with their costs."""
    found = []
    for mapping in islice(all_mappings(problem), 0, 3000, 7):
        try:
            found.append(MappedNest(mapping, nest_cost(problem, mapping)))
        except MappingError:
            continue
    return found


def numbers(cost: NestCost, memories: Sequence[str]) -> tuple[float, ...]:
    sizes = (cost.workspace_bytes.get(name, 0) for name in memories)
    return cost.energy_pj, cost.cycles, cost.dram_read_bits, cost.dram_written_bits, *sizes


@in_one_test("seed", range(12))
def test_the_front_of_all_mappings_has_the_best_in_every_room_at_all_prices(seed: int) -> None:
    chance = random.Random(seed)
    problem = (toy, lean_toy, homed_toy)[seed % 3](seed)
    options = every_option(problem)
    memories = [level.memory.name for level in problem.accelerator.addressed]
    front = MappingFront().with_options(chance.sample(options, len(options)))
    points = {numbers(one.cost, memories) for one in options}
    least = {
        one
        for one in points
        if not any(other != one and all(a <= b for a, b in zip(other, one, strict=True)) for other in points)
    }
    assert {numbers(one.cost, memories) for one in front.options} == least
    assert len(front.options) == len(least)
    for _ in range(20):
        room = {name: chance.choice((0, 2, 5, 20, 1 << 20)) for name in memories}
        fitting = [one for one in options if one.fits(room)]
        for objective in ScheduleObjective:
            known = (None, None) if chance.random() < 0.5 else (chance.randint(1, 10**9), chance.randint(1, 10**5))
            prices = OptionPrices(MemoryRates(problem.accelerator), objective, *known)
            found = front.least(room, prices)
            best = min((prices.of(one.cost) for one in fitting), default=None)
            assert (None if found is None else prices.of(found.cost)) == best


@pytest.mark.slow
def test_fronts_are_of_several_options() -> None:
    """Fronts of one option would make the comparison above vacuous."""
    sizes = [len(MappingFront().with_options(every_option(toy(seed))).options) for seed in range(6)]
    assert sum(sizes) > 12, sizes


def worse(cost: NestCost, room: Mapping[str, int], chance: random.Random) -> NestCost:
    """Return a dominated cost: some figures are larger, and workspaces stay within the room."""
    sizes = {
        name: min(size, cost.workspace_bytes.get(name, 0) + chance.choice((0, 0, 1, 8, 1000)))
        for name, size in room.items()
    }
    return replace(
        cost,
        stated_energy_pj=cost.energy_pj + chance.choice((0, 0.0003, 5, 900)),
        cycles=cost.cycles + chance.choice((0, 0, 1, 40)),
        dram_read_bits=cost.dram_read_bits + chance.choice((0, 0, 8, 800)),
        dram_written_bits=cost.dram_written_bits + chance.choice((0, 0, 8, 800)),
        workspace_bytes={name: size for name, size in sizes.items() if size},
    )


@dataclass(slots=True)
class WorseMapper:
    """LOMA's mapping of each nest, or one that is dominated by it."""

    accelerator: Accelerator
    is_worse: bool
    seed: int
    is_quick: bool = False

    def __call__(self, nest: NestPlace, room: Room, similar: Sequence[LayerMapping]) -> MappedNest | None:
        problem = LayerProblem(nest.layer, self.accelerator, nest.homes, room, nest.weight_is_an_input)
        found = map_layer_at(problem, MappingObjective.ENERGY, Run(), "loma").answer
        if found is None:
            return None
        cost = nest_cost(problem, found)
        chance = random.Random(f"{self.seed} {nest.layer} {nest.homes}")
        return MappedNest(found, worse(cost, room, chance) if self.is_worse and chance.random() < 0.7 else cost)

    def expect(self, asked: Sequence[tuple[NestPlace, Room]]) -> None:
        """Do nothing: the time is not divided among nests."""


def with_offsets_of(other: Plan, program: Plan) -> Plan:
    """Return the program with the offsets of another program for the same Allocates."""
    offsets = defaultdict[tuple[str, str], deque[int]](deque)
    for one in other.instructions:
        if isinstance(one, Allocate):
            offsets[one.tensor, one.memory].append(one.offset_bytes)
    return replace(
        program,
        instructions=tuple(
            replace(one, offset_bytes=offsets[one.tensor, one.memory].popleft()) if isinstance(one, Allocate) else one
            for one in program.instructions
        ),
    )


@pytest.mark.parametrize("stacks", STACKS.values(), ids=STACKS)
def test_what_dominates_an_option_may_take_its_place_in_any_schedule(stacks: tuple[ScheduledStack, ...]) -> None:
    """The schedule's figures do not grow: smaller workspaces fit at the offsets of the larger ones."""
    tiles = tile_graph(skip_network(), stacks, PRECISION)
    differ = 0
    for seed in range(25):
        chance = random.Random(seed)
        accelerator = skip_chip(chance.choice((40, 60, 400)), chance.choice((90, 400, 4000)))
        places = random_places(chance, stacks)
        try:
            dominating, dominated = (
                composer.addressed(composer.composed(places))
                for composer in (
                    Composer(stacks, TiledNetwork.of(tiles), accelerator, KnownMappings(mapper))
                    for mapper in (WorseMapper(accelerator, is_worse, seed) for is_worse in (False, True))
                )
            )
        except NoMappingError:
            continue
        program = with_offsets_of(dominated.schedule.program, dominating.schedule.program)
        better = schedule_figures(tiles.graph, accelerator, program, dominating.costs)
        other = figures_of(tiles, accelerator, dominated)
        assert better.energy_fj <= other.energy_fj
        assert better.latency_cycles <= other.latency_cycles
        assert better.traffic_bytes <= other.traffic_bytes
        for memory, figures in better.memories.items():
            assert figures.peak_bytes <= other.memories[memory].peak_bytes
        differ += better.latency_cycles < other.latency_cycles and better.energy_fj < other.energy_fj
    assert differ > 5, differ


@pytest.mark.parametrize("seed", range(6))
def test_lomas_front_is_that_of_all_its_orders(seed: int) -> None:
    problem = (toy, lean_toy)[seed % 2](seed)
    costs = []
    for chosen in filled_orders(problem, unrolled_for(problem, None), LIMIT, INTERPRETER):
        for row in range(len(chosen.temporal_count)):
            try:
                cost = layer_cost(problem, mapping_of(chosen, row, problem))
            except MappingError:
                continue
            costs.append((cost.energy_pj, cost.cycles))
    front = [layer_cost(problem, one) for one in mappings_of_front_at(problem, Run())]
    pairs = [(one.energy_pj, one.cycles) for one in front]
    assert pairs == sorted(pairs)
    for energy_pj, cycles in costs:
        assert any(one[0] <= energy_pj * (1 + 1e-9) and one[1] <= cycles for one in pairs)
    for one in pairs:
        assert not any(other is not one and other[0] <= one[0] and other[1] <= one[1] for other in pairs)
    assert len(pairs) <= len(costs)


def solved(objective: ScheduleObjective, *, weighs: bool, sizes: tuple[int, int]) -> int:
    question = ScheduleQuestion(skip_network(), skip_chip(*sizes), PRECISION, objective, uses_cache=False)
    value = solve_schedule(question, ScheduleOptions(groups="layers", weighs_mappings=weighs), Run()).objective_value
    assert value is not None
    return value


@pytest.mark.parametrize(
    "objective", with_slow(ScheduleObjective, {ScheduleObjective.LATENCY, ScheduleObjective.EDP}.__contains__)
)
def test_weighing_mappings_is_never_worse_than_the_best_of_each_nest_alone(objective: ScheduleObjective) -> None:
    joint, apart = (solved(objective, weighs=weighs, sizes=(60, 400)) for weighs in (True, False))
    assert joint <= apart


def test_an_option_that_is_preferred_is_taken_where_it_fits() -> None:
    problem = toy(4)
    options = every_option(problem)
    prices = OptionPrices(MemoryRates(problem.accelerator), ScheduleObjective.ENERGY)

    class Knowing:
        is_quick = False

        def __call__(self, nest: NestPlace, room: Room, similar: Sequence[LayerMapping]) -> MappedNest | None:
            return options[0]

        def expect(self, asked: Sequence[tuple[NestPlace, Room]]) -> None:
            """Do nothing: the time is not divided among nests."""

    known = KnownMappings(Knowing())
    known.weigh(prices)
    nest = NestPlace(0, problem.layer, problem.homes, problem.weight_is_an_input)
    room = {level.memory.name: 1 << 30 for level in problem.accelerator.addressed}
    assert known.best(nest, room) == options[0]
    edition = known.edition
    known.learn(nest, options)
    assert known.edition != edition
    cheapest = known.best(nest, room)
    assert cheapest is not None
    assert prices.of(cheapest.cost) == min(prices.of(one.cost) for one in options)
    dearest = known.options(nest, room)[-1]
    assert known.prefer(nest, dearest.mapping) is None
    assert known.best(nest, room) == dearest
    assert known.prefer(nest, None) == dearest.mapping
    assert known.best(nest, room) == cheapest


Runs = Mapping[tuple[str, ...], Sequence[StackOption]]


def some_figures(chance: random.Random) -> StackDemand:
    held = {name: chance.randint(0, 4) for name in ("near", "far")}
    return StackDemand(held, chance.randint(1, 4), chance.randint(1, 4), chance.randint(1, 4))


def some_runs(chance: random.Random, order: Sequence[str]) -> Runs:
    """Return each operator, and some runs of several operators, with a few options each."""
    runs = [order[start:stop] for start, stop in product(range(len(order)), range(1, len(order) + 1)) if start < stop]
    kept = [tuple(one) for one in runs if len(one) == 1 or chance.random() < 0.5]
    return {
        one: [
            StackOption(ScheduledStack(one, Tiling(1, 1, FULLY)), Places(), some_figures(chance))
            for _ in range(chance.randint(1, 6))
        ]
        for one in kept
    }


def front_of(options: Sequence[StackOption]) -> StackFront:
    front = StackFront()
    for one in options:
        front = front.with_option(one)
    return front


def least_of_all(runs: Runs, order: tuple[str, ...], prices: StackPrices) -> int:
    """Return the least price over every cut into runs with every option, dominated options included."""
    if not order:
        return 0
    return min(
        prices.of(option.figures) + least_of_all(runs, order[len(operators) :], prices)
        for operators, options in runs.items()
        if order[: len(operators)] == operators
        for option in options
    )


@pytest.mark.parametrize("objective", ScheduleObjective)
@pytest.mark.parametrize("seed", range(8))
def test_no_cut_of_options_that_are_dropped_costs_less_than_the_cheapest_of_the_fronts(
    objective: ScheduleObjective, seed: int
) -> None:
    chance = random.Random(seed)
    order = ("a", "b", "c", "d")
    runs = some_runs(chance, order)
    prices = StackPrices(objective, chance.randint(1, 5), chance.randint(1, 5))
    fronts = {operators: front_of(options) for operators, options in runs.items()}

    chosen = cheapest_cuts([ScheduledStack((name,)) for name in order], fronts, prices)

    assert tuple(name for one in chosen for name in one.stack.operators) == order
    assert sum(prices.of(one.figures) for one in chosen) == least_of_all(runs, order, prices)


@pytest.mark.parametrize("seed", range(8))
def test_in_every_room_the_front_has_an_option_that_is_as_cheap_as_any(seed: int) -> None:
    chance = random.Random(seed)
    options = some_runs(chance, ("a",))["a",]
    front = front_of(options)
    for objective, near, far in product(ScheduleObjective, range(5), range(5)):
        prices = StackPrices(objective, 3, 2)

        def least(
            some: Sequence[StackOption], near: int = near, far: int = far, prices: StackPrices = prices
        ) -> int | None:
            held = ((one.figures.held_bytes, prices.of(one.figures)) for one in some)
            return min(
                (price for bytes_, price in held if bytes_["near"] <= near and bytes_["far"] <= far), default=None
            )

        assert least(front.options) == least(options)


def test_stacks_without_a_front_stay_as_they_are() -> None:
    cheap, dear = (StackDemand({}, at, at, at) for at in (1, 5))
    both = ("first", "second")
    one = [StackOption(ScheduledStack((name,)), Places(), dear) for name in both]
    fronts = {each.stack.operators: front_of([each]) for each in one}
    prices = StackPrices(ScheduleObjective.LATENCY)
    assert cheapest_cuts(ALONE, fronts, prices) == tuple(one)

    together = StackOption(ScheduledStack(both, Tiling(2, 2, FULLY)), Places(), cheap)
    assert cheapest_cuts(ALONE, {**fronts, both: front_of([together])}, prices) == (together,)


@pytest.mark.parametrize("stacks", [ALONE, (TILED, ALONE[3])])
@pytest.mark.parametrize("keeps_inside", [False, True])
def test_stacks_that_keep_nothing_for_each_other_take_no_more_together_than_each_alone(
    stacks: tuple[ScheduledStack, ...], *, keeps_inside: bool
) -> None:
    """Energy and traffic are sums over the stacks, and no stack waits for more than all stacks before it."""
    making = maker(skip_chip(40, 400), skip_network())
    inner = {(0, name): "far" for name in ("a", "b")} if keeps_inside and len(stacks) == 2 else {}
    reads = {(0, "x"): "far"} if keeps_inside else {}
    places = Places({**inner, **reads}, inner)

    together = making.made(stacks, places).figures
    each = [alone(making, one, places.renumbered({at: 0})).figures for at, one in enumerate(stacks)]

    assert together.energy_fj == sum(one.energy_fj for one in each)
    assert together.traffic_bytes == sum(one.traffic_bytes for one in each)
    assert together.latency_cycles <= sum(one.latency_cycles for one in each)
    for memory, size in together.memories.items():
        assert size.peak_bytes <= max(one.memories[memory].peak_bytes for one in each)


GRIDS: Sequence[Mapping[str, int]] = (
    {"OX": 4},
    {"OX": 2, "OY": 4},
    {"any": 3},
    {"K": 2, "OY": 3},
    {"one": 2, "two": 4},
)


@pytest.mark.parametrize("units", GRIDS)
@pytest.mark.parametrize("seed", series(range(4), 1))
def test_tiles_take_no_fewer_cycles_than_their_floors(units: Mapping[str, int], seed: int) -> None:
    """The loops of the mappings are whole factors, as in every schedule."""
    chance = random.Random(seed)
    rows, columns = chance.randint(3, 7), chance.randint(3, 7)
    network, accelerator = skip_network(rows, columns), grid_chip(units)
    making, even = maker(accelerator, network), EvenTiles(CycleFloors(accelerator))
    looked_at = 0
    for name, _ in product(("first", "add"), range(3)):
        whole = tile_graph(network, ALONE, PRECISION).operators[name]
        tiling = Tiling(chance.randint(1, columns), chance.randint(1, rows), FULLY)
        stack = ScheduledStack((name,), tiling)
        found = alone(making, stack, Places())
        ((nest, *_),) = [list(one.mapped) for one in found.improver.best.composition.composed]
        (layer,) = whole.nests
        looked_at += 1
        assert found.figures.latency_cycles >= even.least_cycles_in(layer, tiling)
        assert found.figures.latency_cycles >= even.least_cycles_at_ports(replace(nest, layer=layer), tiling)
    assert looked_at == 6


def test_a_floor_of_tiles_is_reached_where_units_alone_count() -> None:
    even = EvenTiles(CycleFloors(grid_chip({"OX": 4, "OY": 4})))
    (layer,) = tile_graph(skip_network(5, 5), ALONE, PRECISION).operators["first"].nests
    work = layer.macs // 25
    assert even.least_cycles(layer, 5, 5) == 25 * work
    best, *others = even.of(layer)
    assert (best.tiling.columns, best.tiling.rows, best.least_cycles) == (4, 4, 4 * work)
    assert [one.least_cycles for one in others] == sorted(one.least_cycles for one in others)


MOST_MAPPINGS = 2000
SLACK = 1.1e-9
"""By which sums of the same energies may differ: the exact search neglects less."""


def costs_of_all(problem: LayerProblem) -> list[tuple[int, float]] | None:
    """Return DRAM bits and energy on chip in pJ of every mapping that fits; None if there are too many mappings."""
    mappings = list(islice(all_mappings(problem), MOST_MAPPINGS + 1))
    return None if len(mappings) > MOST_MAPPINGS else [one for one in map(partial(cost_of, problem), mappings) if one]


def cost_of(problem: LayerProblem, mapping: LayerMapping) -> tuple[int, float] | None:
    """Return DRAM bits and energy on chip in pJ; None if the mapping does not fit."""
    dram = problem.accelerator.dram
    assert dram is not None
    free = replace(problem.accelerator, dram=replace(dram, access=Access(1, 0, 0)))
    try:
        cost = nest_cost(replace(problem, accelerator=free), mapping)
    except MappingError:
        return None
    return cost.dram_read_bits + cost.dram_written_bits, cost.energy_pj


@pytest.mark.parametrize("seed", series(range(120), 30))
def test_no_mapping_of_a_tiny_mapspace_moves_fewer_bits(seed: int) -> None:
    problem = (toy, lean_toy, homed_toy)[seed % 3](seed)
    costs = costs_of_all(problem)
    if not costs:
        return
    machine = problem.accelerator
    mapper = BestMapper(machine, MappingObjective.ENERGY, Run(), prices=dram_first(machine))
    nest = NestPlace(0, problem.layer, problem.homes, weight_is_an_input=problem.weight_is_an_input)

    found = mapper(nest, problem.room_bytes)

    assert found is not None
    cost, (least_bits, least_pj) = cost_of(problem, found.mapping), min(costs)
    assert cost is not None
    assert not verify_mapping(problem, found.mapping)
    assert cost[0] == mapper.value_of(found)[0] <= least_bits
    assert cost[0] < least_bits or cost[1] <= least_pj + SLACK * PICOJOULES_OF_A_DRAM_BIT * least_bits


def test_most_of_the_mapspaces_are_compared() -> None:
    assert sum(bool(costs_of_all((toy, lean_toy, homed_toy)[seed % 3](seed))) for seed in range(12)) >= 6


def test_a_machine_that_states_no_energies_of_dram_stays_as_it_is() -> None:
    chip = skip_chip()
    assert chip.dram is not None
    silent = replace(chip, dram=replace(chip.dram, access=None))
    assert dram_first(silent) == silent
    assert dram_first(chip) != chip
