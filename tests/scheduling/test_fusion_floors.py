"""Floors of fused execution, on random layers, machines and mappings (docs/fusion.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from random import Random

import numpy as np
import pytest

from adversary.fusing import random_machine
from onchip.answer.layer_mapping import LayerMapping, MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.fusion_objective import Criteria, FusionObjective
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.tile_sizes import TileSizes
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Operand
from onchip.bounds.group.bounds import StackBounds
from onchip.bounds.group.problem_floors import ProblemFloors, surely_maps, surely_maps_not
from onchip.bounds.group.reuse_floors import reuse_floors
from onchip.bounds.layer.layer_floors import MachineFloors
from onchip.bounds.layer.unit_shares import AnyUnrolling
from onchip.errors import AcceleratorError, InputError
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml
from onchip.ir.layer import Layer
from onchip.mapping.tile_search.exact import solve_exactly
from onchip.model.group.cost import stack_cost
from onchip.model.layer.cost import LayerCost, layer_cost
from onchip.ops.fusable import FusableNetwork
from onchip.scheduling.candidates.spaces import StackSpace
from onchip.scheduling.fronts.cost_table import UnsureError
from onchip.scheduling.fronts.costs import Rehearsal, StackCosts
from onchip.scheduling.fronts.roomier import Roomier, RoomierFirst
from onchip.scheduling.fronts.workers import Costing
from onchip.search.budget.limits import Run
from onchip.transform.groups.stacks import LayerSpan, StackChoice, TileBox, boxes_of, legal_spans, stack_of
from onchip.verify.mapping import verify_mapping
from oracles.mapspace import all_mappings, homed_toy, lean_toy, narrow_toy, toy
from support import fused_files
from support.nests import random_accelerator, random_layer, random_mapping, random_problem
from support.random_schedules import tiny
from support.series import series
from support.stacks import random_stack, tilings_of

ROUNDED = 1 + 1e-9
Mapped = tuple[LayerProblem, LayerMapping]
Maker = Callable[[int], Iterator[Mapped]]


def at_random(seed: int) -> Iterator[Mapped]:
    """Any mapping, memories left out; little room, so that many do not fit. Nothing is skipped and nothing padded."""
    random = Random(seed)
    accelerator = random_accelerator(random)
    levels = tuple(
        replace(one, memory=replace(one.memory, capacity_bytes=random.choice((4, 16, 64, 1 << 16))))
        for one in accelerator.levels
    )
    machine = replace(accelerator, levels=levels, scratchpads=tuple(one.memory for one in levels if one.is_scratchpad))
    layer = without_gaps(random_layer(random, 300))
    problem = random_problem(random, layer, machine)
    for _ in range(20):
        yield problem, random_mapping(random, problem)


def in_the_mapspace(seed: int) -> Iterator[Mapped]:
    """Some of the mappings in which every memory keeps what it holds."""
    yield from _of_mapspace((toy, lean_toy, homed_toy)[seed % 3](seed), seed)


def in_the_mapspace_of_a_narrow_machine(seed: int) -> Iterator[Mapped]:
    """The same where elements are wider than some memories, which keep nothing of them."""
    yield from _of_mapspace(narrow_toy(seed), seed)


def _of_mapspace(problem: LayerProblem, seed: int) -> Iterator[Mapped]:
    problem = replace(problem, layer=without_gaps(problem.layer))
    step = Random(seed).randint(1, 40)
    for mapping in islice(all_mappings(problem), 0, 4000, step):
        yield problem, mapping


def without_gaps(layer: Layer) -> Layer:
    """Windows that touch each other, and no zeros: then each element of the input is an operand of some product."""
    return replace(layer, stride=(1, 1), dilation=(1, 1), padding=(0, 0, 0, 0))


def costed(mapped: Iterator[Mapped]) -> Iterator[tuple[LayerProblem, LayerCost]]:
    for problem, mapping in mapped:
        try:
            yield problem, layer_cost(problem, mapping)
        except (MappingError, AcceleratorError):
            continue


def energy_of(cost: LayerCost, operand: Operand) -> float:
    return sum(energy for (_, one), energy in cost.memory_energy_pj.items() if one == operand)


KINDS = pytest.mark.parametrize(
    ("mapped", "keeps"),
    [(at_random, False), (in_the_mapspace, True), (in_the_mapspace_of_a_narrow_machine, True)],
)
SEEDS = pytest.mark.parametrize("seed", series(range(60), 15))


@KINDS
@SEEDS
def test_inputs_cost_at_least_their_floor(mapped: Maker, keeps: bool, seed: int) -> None:
    for problem, cost in costed(mapped(seed)):
        layer, machine = problem.layer, problem.accelerator
        floors = MachineFloors(machine, AnyUnrolling(machine, every_memory_keeps=keeps))
        floor = floors.of([layer]).floor(Operand.INPUT, layer.k)
        elements = layer.elements(Operand.INPUT)
        least = layer.macs * floor.per_mac + elements * floor.per_element[problem.home(Operand.INPUT)]
        assert least <= energy_of(cost, Operand.INPUT) * ROUNDED


@pytest.mark.parametrize("seed", series(range(120), 60))
def test_either_of_two_added_maps_costs_at_least_the_floor_of_an_input(seed: int) -> None:
    """Also where a narrow memory keeps the first, and has no room for the second."""
    random = Random(seed)
    layer = Layer(g=random.choice((1, 2, 4, 6)), input_bits=8, weight_bits=8, output_bits=8)
    narrow = (narrow_toy, toy)[seed % 2](seed)
    problem = LayerProblem(replace(layer, partial_bits=8), narrow.accelerator, weight_is_an_input=True)
    floors = MachineFloors(problem.accelerator, AnyUnrolling(problem.accelerator, every_memory_keeps=True))
    floor = floors.of([problem.layer], adds_two_maps=True).floor(Operand.INPUT, layer.k)
    least = layer.macs * floor.per_mac + layer.elements(Operand.INPUT) * floor.per_element["dram"]
    for _, cost in costed((problem, mapping) for mapping in islice(all_mappings(problem), 500)):
        for operand in (Operand.INPUT, Operand.WEIGHT):
            assert least <= energy_of(cost, operand) * ROUNDED


@KINDS
@SEEDS
def test_sums_cost_at_least_their_floor(mapped: Maker, keeps: bool, seed: int) -> None:
    for problem, cost in costed(mapped(seed)):
        layer, machine = problem.layer, problem.accelerator
        floors = MachineFloors(machine, AnyUnrolling(machine, every_memory_keeps=keeps))
        floor = floors.of([layer]).output_floor()[problem.home(Operand.OUTPUT)]
        assert layer.elements(Operand.OUTPUT) * floor <= energy_of(cost, Operand.OUTPUT) * ROUNDED


@KINDS
@SEEDS
def test_weights_and_sums_cost_at_least_the_cheapest_case(mapped: Maker, keeps: bool, seed: int) -> None:
    """Of who is used again for long, a weight or a sum."""
    for problem, cost in costed(mapped(seed)):
        layer, machine = problem.layer, problem.accelerator
        if not layer.has_weight:
            continue
        floors = MachineFloors(machine, AnyUnrolling(machine, every_memory_keeps=keeps))
        nest = floors.of([layer])
        reuse, sums = reuse_floors(nest), nest.output_floor()[problem.home(Operand.OUTPUT)]
        home = floors.homes(Operand.WEIGHT).index(problem.home(Operand.WEIGHT))
        outputs, weights = layer.elements(Operand.OUTPUT), layer.elements(Operand.WEIGHT)
        cases = weights * reuse.weight_pj(np.array([float(layer.n * layer.p * layer.q)]))[:, home, 0]
        least = float((cases + reuse.more_per_output[:, 0] * outputs).min()) + outputs * sums
        assert least <= (energy_of(cost, Operand.WEIGHT) + energy_of(cost, Operand.OUTPUT)) * ROUNDED


@KINDS
@SEEDS
def test_no_more_units_are_at_work_than_are_counted(mapped: Maker, keeps: bool, seed: int) -> None:
    for problem, cost in costed(mapped(seed)):
        layer, machine = problem.layer, problem.accelerator
        shares = AnyUnrolling(machine, every_memory_keeps=keeps).of([layer])
        assert layer.macs / shares.at_work <= cost.cycles * ROUNDED


def odd_costs(seed: int, method: str, objective: FusionObjective) -> StackCosts:
    """Of a tiny network on an odd machine: instances, slow ports, shared memories with hardly any room."""
    _, network = tiny(2000 + seed)
    machine = accelerator_from_yaml(json.dumps(random_machine(Random(seed))), "tiny.yaml")
    return Costing(network, machine, objective, method, use_cache=False).costs(Run())


def choices_of_all(network: FusableNetwork, machine: Accelerator) -> list[StackChoice]:
    def tilings(span: LayerSpan) -> Sequence[Tiling]:
        return tilings_of(stack_of(network, span).output, TileSizes.ALL)

    arcs, _ = StackSpace(network, machine, legal_spans(network), tilings).arcs()
    return [choice for arc in arcs for choice in arc.choices]


def bound_of(costs: StackCosts, choice: StackChoice) -> Criteria | None:
    bound = costs.bound(choice)
    assert bound is None or min(bound) >= 0
    return bound


@pytest.mark.parametrize("seed", series(range(30), 8))
@pytest.mark.parametrize("objective", FusionObjective)
def test_bounds_hold_on_odd_machines(seed: int, objective: FusionObjective) -> None:
    costs = odd_costs(seed, "loma", objective)
    every = choices_of_all(costs.network, costs.accelerator)
    for choice in Random(seed).sample(every, min(12, len(every))):
        bound, (cost,) = bound_of(costs, choice), costs.costs([choice])
        if cost is not None:
            assert bound is not None
            assert all(map(int.__le__, bound, cost)), choice


@pytest.mark.parametrize("seed", series(range(60), 13))
def test_boxes_bound_each_of_their_tilings_on_odd_machines(seed: int) -> None:
    costs = odd_costs(seed, "loma", FusionObjective.EDP)
    bounds = StackBounds(
        costs.network, costs.accelerator, FusionObjective.EDP, AnyUnrolling(costs.accelerator, every_memory_keeps=True)
    )
    for span in legal_spans(costs.network):
        boxes = list(boxes_of(stack_of(costs.network, span).output, TileSizes.ALL))
        while boxes:
            box = boxes.pop()
            least = bound_of(costs, boxed(span, box))
            for tiling in box.tilings:
                try:
                    bound = bounds.bound(StackChoice(span, tiling))
                except InputError:
                    continue
                assert least is not None
                assert all(map(int.__le__, least, bound)), (span, box, tiling)
            boxes += box.quarters() if box.count > 1 else ()


@pytest.mark.parametrize("seed", series(range(30), 15))
@pytest.mark.parametrize("objective", [FusionObjective.EDP, FusionObjective.DRAM])
def test_a_stack_costs_at_least_its_end_and_the_floors_of_the_layers_before(
    seed: int, objective: FusionObjective
) -> None:
    """Of ends of every length that are known before it; what is in tiles that are not known has the floor of layers."""
    costs, random = odd_costs(seed, "loma", objective), Random(seed)
    network = costs.network

    def tilings(span: LayerSpan) -> Sequence[TileBox]:
        return boxes_of(stack_of(network, span).output, TileSizes.ALL)

    arcs, _ = StackSpace(network, costs.accelerator, legal_spans(network), tilings).arcs()
    arcs.sort(key=lambda arc: arc.target - arc.source)
    for arc in arcs[:60]:
        least = costs.least(arc.choices)
        one = random.choice(random.choice(arc.choices).singly())
        bound, (cost,) = bound_of(costs, one), costs.costs([one])
        assert cost is None or (bound is not None and all(map(int.__le__, least, cost))), one
        for choice in arc.choices:
            costs.bound(choice)


def boxed(span: LayerSpan, box: TileBox) -> StackChoice:
    return StackChoice(span, box.tilings[0], box=box)


@pytest.mark.parametrize("seed", series(range(40), 13))
def test_modes_that_are_named_the_same_cost_the_same(seed: int) -> None:
    """A mode is named by the first that caches the same towards the neighbours that its tiles have."""
    costs = odd_costs(seed, "loma", FusionObjective.EDP)
    random = Random(seed)
    span = random.choice(legal_spans(costs.network))
    stack = stack_of(costs.network, span)
    rows, columns = stack.output.rows, stack.output.columns
    for tile in ((columns, rows), (columns, 1), (1, rows), (columns, random.randint(1, rows))):
        found = set[tuple[object, ...]]()
        for mode in OverlapMode:
            if Tiling(*tile, mode).within(columns, rows) == Tiling(*tile, OverlapMode.FULLY_CACHED).within(
                columns, rows
            ):
                try:
                    sums = stack_cost(stack, costs.accelerator, Tiling(*tile, mode), costs.mapper).sums
                    found.add((sums.energy_pj, sums.cycles, tuple(sorted(sums.moved_bits.items()))))
                except InputError as error:
                    found.add((str(error),))
        assert len(found) == 1


CHIP = fused_files.CHIP.replace("512B", "256B")
MACHINES = (
    accelerator_from_yaml(CHIP, "chip.yaml"),
    accelerator_from_yaml(CHIP.replace("dimensions: {K: 2, OX: 2}", "free: 8").replace("serves: [OX], ", ""), "f.yaml"),
    accelerator_from_yaml(CHIP.replace("{K: 2, OX: 2}", "{lane: 4, OX: 2, FX: 3}"), "w.yaml"),
)
TOYS: Sequence[Callable[[int], LayerProblem]] = (toy, lean_toy, homed_toy, narrow_toy)


def floors_on(machine: Accelerator, *, divides_loops: bool = False) -> ProblemFloors:
    return ProblemFloors(MachineFloors(machine, AnyUnrolling(machine, True, divides_loops=divides_loops)))


@pytest.mark.parametrize("seed", series(range(80), 26))
def test_no_mapping_costs_less_than_its_problems_floor(seed: int) -> None:
    problem = TOYS[seed % len(TOYS)](seed)
    floor_pj = floors_on(problem.accelerator).energy_pj(problem)
    for mapping in islice(all_mappings(problem), 0, 3000, Random(seed).randint(1, 40)):
        try:
            cost = layer_cost(problem, mapping)
        except (MappingError, AcceleratorError):
            continue
        assert floor_pj <= cost.energy_pj * (1 + 1e-9)


@pytest.mark.parametrize("seed", series(range(120), 40))
def test_the_best_mapping_costs_no_less_than_the_floor_and_there_is_one_where_that_is_sure(seed: int) -> None:
    """With as little room as there may be."""
    random, problem = Random(seed), TOYS[seed % len(TOYS)](seed)
    layer = random_layer(random, 300) if seed % 2 else problem.layer
    rooms = {
        level.memory.name: random.choice((0, 1, 2, 3, 4, 6, 8, 16, level.memory.capacity_bytes))
        for level in problem.levels
    }
    room = {level.memory.name: min(rooms[level.memory.name], level.memory.capacity_bytes) for level in problem.levels}
    try:
        problem = LayerProblem(layer, problem.accelerator, problem.homes, room)
    except AcceleratorError:
        return

    answer = solve_exactly(problem, MappingObjective.ENERGY, Run()).answer

    if answer is None:
        assert not surely_maps(problem)
    else:
        assert not surely_maps_not(problem)
        floor_pj = floors_on(problem.accelerator, divides_loops=True).energy_pj(problem)
        assert floor_pj <= layer_cost(problem, answer).energy_pj * (1 + 1e-9)


@pytest.mark.parametrize("seed", series(range(120), 40))
def test_with_less_room_no_mapping_costs_less_and_one_that_fits_is_the_best(seed: int) -> None:
    random, problem = Random(seed), TOYS[seed % len(TOYS)](seed)
    some = {
        level.memory.name: max(random.randint(1, level.memory.capacity_bytes), level.memory.capacity_bytes // 2)
        for level in problem.levels
    }
    less = {name: random.randint(bytes_ // 4, bytes_) for name, bytes_ in some.items()}
    roomy, tight = replace(problem, room_bytes=some), replace(problem, room_bytes=less)
    known: dict[LayerProblem, LayerCost | None] = {}
    roomier, answers = Roomier(known), {}
    for one in (roomy, tight):
        answer = solve_exactly(one, MappingObjective.ENERGY, Run()).answer
        answers[one] = None if answer is None else layer_cost(one, answer)
    known[roomy] = answers[roomy]

    assert list(roomier.of(tight)) == [answers[roomy]]
    assert bool(roomy.room_bytes) != bool(list(roomier.of(replace(problem, room_bytes={}))))
    best = answers[tight]
    found = RoomierFirst(lambda one: answers[one], roomier)(tight)
    assert (found is None) == (best is None)
    if best is not None and found is not None:
        assert found.energy_pj == pytest.approx(best.energy_pj, rel=1e-12)
        assert not verify_mapping(tight, found.mapping)
    rehearsal = Rehearsal(floors_on(problem.accelerator, divides_loops=True), known, by_energy=True)
    try:
        least = rehearsal(tight)
    except UnsureError:
        return
    assert (least is None) <= (best is None)
    if least is not None and best is not None:
        assert least.energy_pj <= best.energy_pj * (1 + 1e-9)


def costs_of(network: FusableNetwork, machine: Accelerator, objective: FusionObjective) -> StackCosts:
    return Costing(network, machine, objective, "exact", use_cache=False).costs(Run())


def choices_on(costs: StackCosts, sizes: TileSizes) -> list[StackChoice]:
    def tilings(span: LayerSpan) -> Sequence[Tiling]:
        return tilings_of(stack_of(costs.network, span).output, sizes)

    arcs, _ = StackSpace(costs.network, costs.accelerator, legal_spans(costs.network), tilings).arcs()
    return [choice for arc in arcs for choice in arc.choices]


def check_some(costs: StackCosts, choices: Sequence[StackChoice]) -> tuple[int, int]:
    """Return how many of the choices have a closer bound, and how many surely cannot be."""
    found = [0, 0]
    for choice in choices:
        try:
            closer = costs.closer(choice)
        except UnsureError:
            continue
        (cost,) = costs.costs([choice])
        found[closer is None] += 1
        assert (closer is None) == (cost is None), choice
        if closer is not None and cost is not None:
            assert all(map(int.__le__, closer, cost)), choice
    return found[0], found[1]


@pytest.mark.parametrize("seed", series(range(40), 13))
@pytest.mark.parametrize("objective", [FusionObjective.ENERGY, FusionObjective.EDP, FusionObjective.DRAM])
def test_closer_bounds_hold_on_odd_machines(seed: int, objective: FusionObjective) -> None:
    network = tiny(2000 + seed)[1]
    machine = accelerator_from_yaml(json.dumps(random_machine(Random(seed))), "tiny.yaml")
    costs = costs_of(network, machine, objective)
    every = choices_on(costs, TileSizes.ALL)

    check_some(costs, Random(seed).sample(every, min(8, len(every))))


@pytest.mark.parametrize("seed", series(range(30), 10))
def test_closer_bounds_of_stacks_that_branch_hold(seed: int) -> None:
    stack, random = random_stack(seed), Random(seed)
    network = FusableNetwork("net", stack.inputs, stack.layers)
    costs = costs_of(network, random.choice(MACHINES), FusionObjective.ENERGY)
    every = choices_on(costs, TileSizes.HALVES)

    check_some(costs, random.sample(every, min(5, len(every))))


def test_stacks_for_which_there_is_no_room_cannot_be_and_that_is_known_before_they_are_mapped() -> None:
    found = [0, 0]
    for seed in range(10):
        network = tiny(2000 + seed)[1]
        machine = accelerator_from_yaml(json.dumps(random_machine(Random(seed))), "tiny.yaml")
        costs = costs_of(network, machine, FusionObjective.ENERGY)
        every = [one for one in choices_on(costs, TileSizes.HALVES) if one.homes or one.output_home != DRAM]
        bounded, impossible = check_some(costs, every[:20])
        found = [found[0] + bounded, found[1] + impossible]

    assert all(found)


def test_sums_are_complete_above_the_nearest_memory_that_keeps_them() -> None:
    """There is one byte for each element but for sums in the register, which have two."""
    layer = Layer(k=2, c=3, p=4, q=4, r=3, s=3, partial_bits=16)
    chip = accelerator_from_yaml(CHIP.replace("capacity: 1B, holds: [weight]", "capacity: 4B"), "chip.yaml")
    room = {"register": 4, "buffer": 3, "global": 3}
    problem = LayerProblem(layer, chip, room_bytes=room)

    assert surely_maps(problem)
    assert solve_exactly(problem, MappingObjective.ENERGY, Run()).answer is not None


def test_other_mappers_have_no_closer_bounds() -> None:
    network = tiny(2000)[1]
    machine = accelerator_from_yaml(json.dumps(random_machine(Random(0))), "tiny.yaml")
    costs = Costing(network, machine, FusionObjective.ENERGY, "loma", use_cache=False).costs(Run())

    for choice in choices_on(costs, TileSizes.HALVES):
        with pytest.raises(UnsureError):
            costs.closer(choice)
