"""Tests of each floor of fused execution, on random layers, machines and mappings. docs/fusion.md has the claims."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from random import Random

import numpy as np
import pytest

from adversary.fusing_machines import random_machine
from onchip.answer.layer_mapping import LayerMapping, MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.fusion_objective import Criteria, FusionObjective
from onchip.answer.options.tile_sizes import TileSizes
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Operand
from onchip.bounds.group.bounds import StackBounds
from onchip.bounds.group.reuse_floors import reuse_floors
from onchip.bounds.layer.layer_floors import MachineFloors
from onchip.bounds.layer.unit_shares import AnyUnrolling
from onchip.errors import AcceleratorError, InputError
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml
from onchip.ir.layer import Layer
from onchip.model.group.cost import stack_cost
from onchip.model.layer.cost import LayerCost, layer_cost
from onchip.ops.fusable import FusableNetwork
from onchip.scheduling.candidates.spaces import StackSpace
from onchip.scheduling.fronts.costs import StackCosts
from onchip.scheduling.fronts.workers import Costing
from onchip.search.budget.limits import Run
from onchip.transform.groups.stacks import LayerSpan, StackChoice, TileBox, boxes_of, legal_spans, stack_of
from oracles.mapspace import all_mappings, homed_toy, lean_toy, narrow_toy, toy
from support.nests import random_accelerator, random_layer, random_mapping, random_problem
from support.random_schedules import tiny
from support.series import series
from support.stacks import tilings_of

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
