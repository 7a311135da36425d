"""Stack costs with floors in place of mappings are at most the real costs, and at least the cheap bounds."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from random import Random

import pytest

from adversary.fusing_machines import random_machine
from onchip.answer.layer_mapping import MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.tile_sizes import TileSizes
from onchip.answer.stacks import Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM
from onchip.bounds.group.problem_floors import ProblemFloors, surely_maps, surely_maps_not
from onchip.bounds.layer.layer_floors import MachineFloors
from onchip.bounds.layer.unit_shares import AnyUnrolling
from onchip.errors import AcceleratorError
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml
from onchip.ir.layer import Layer
from onchip.mapping.tile_search.exact import solve_exactly
from onchip.model.layer.cost import LayerCost, layer_cost
from onchip.ops.fusable import FusableNetwork
from onchip.scheduling.candidates.spaces import StackSpace
from onchip.scheduling.fronts.cost_table import UnsureError
from onchip.scheduling.fronts.costs import Rehearsal, StackCosts
from onchip.scheduling.fronts.roomier import Roomier, RoomierFirst
from onchip.scheduling.fronts.workers import Costing
from onchip.search.budget.limits import Run
from onchip.transform.groups.stacks import LayerSpan, StackChoice, legal_spans, stack_of
from onchip.verify.mapping import verify_mapping
from oracles.mapspace import all_mappings, homed_toy, lean_toy, narrow_toy, toy
from support import fused_files
from support.nests import random_layer
from support.random_schedules import tiny
from support.series import series
from support.stacks import random_stack, tilings_of

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
