from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adversary.fusing import random_machine
from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.tile_sizes import TileSizes
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Operand
from onchip.bounds.group.layer_grids import LayerGrids
from onchip.bounds.group.network_floor import EveryShape, NetworkFloor
from onchip.bounds.layer.layer_floors import MachineFloors
from onchip.bounds.layer.unit_shares import AnyUnrolling
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml
from onchip.ir.window import Window
from onchip.mapping.methods.registry import METHODS
from onchip.model.group.mapper import Memoized
from onchip.ops.fusable import FusableNetwork, Stack
from onchip.scheduling.candidates.spaces import StackSpace
from onchip.scheduling.fronts.costs import StackCosts
from onchip.scheduling.fronts.mappers import LayerMapper
from onchip.scheduling.fronts.workers import Costing
from onchip.search.budget.limits import Run
from onchip.transform.groups.stacks import LayerSpan, StackChoice, legal_spans, stack_of
from support import fused_files
from support.random_schedules import tiny
from support.series import series
from support.stacks import chain, random_stack, tilings_of

SMALL = accelerator_from_yaml(fused_files.CHIP, "chip.yaml")
FREE = accelerator_from_yaml(
    fused_files.CHIP.replace("dimensions: {K: 2, OX: 2}", "free: 8").replace("serves: [OX], ", ""), "f.yaml"
)
WINDOWS = [
    Window(kernel, stride, dilation, pad)
    for kernel in (1, 2, 3)
    for stride in (1, 2, 3)
    for dilation in (1, 2)
    for pad in (0, 1)
    if (kernel - 1) * dilation >= pad and (kernel > 1 or dilation == 1)
]


def floor_of(network: FusableNetwork, machine: Accelerator, *, divides_loops: bool = False) -> NetworkFloor:
    sharing = AnyUnrolling(machine, every_memory_keeps=True, divides_loops=divides_loops)
    return NetworkFloor(network, LayerGrids(MachineFloors(machine, sharing)))


def costs_on(network: FusableNetwork, machine: Accelerator, objective: FusionObjective) -> StackCosts:
    mapper = LayerMapper(METHODS["loma"], objective.of_layers, Run())
    return StackCosts(network, machine, objective, Memoized(mapper))


def network_of(stack: Stack) -> FusableNetwork:
    return FusableNetwork("net", stack.inputs, stack.layers)


stacks = st.one_of(
    st.integers(0, 10**6).map(random_stack),
    st.lists(st.sampled_from(WINDOWS), min_size=1, max_size=2).map(lambda windows: chain(22, *windows)),
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(stacks, st.sampled_from([SMALL, FREE]), st.sampled_from(FusionObjective), st.data())
def test_no_stack_costs_less_than_the_floor_of_its_layers(
    stack: Stack, machine: Accelerator, objective: FusionObjective, data: st.DataObject
) -> None:
    """In whatever tiles; finest tiles skip pixels where a stride is longer than its kernel."""
    network = network_of(stack)
    floor, costs = floor_of(network, machine), costs_on(network, machine, objective)
    span = data.draw(st.sampled_from(legal_spans(network)))
    least = floor.of(span)
    tilings = tilings_of(stack_of(network, span).output, TileSizes.HALVES)
    for tiling in (tilings[0], data.draw(st.sampled_from(tilings))):
        (cost,) = costs.costs([StackChoice(span, tiling)])
        if cost is not None:
            bound = objective.criteria(least.energy_pj * (1 - 1e-9), least.cycles, least.dram_bits)
            assert all(map(int.__le__, bound, cost))


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_what_no_tile_needs_is_not_in_it_and_all_else_is(stride: int) -> None:
    """Finest tiles that fit beside each other reach the floor of DRAM traffic: every pixel once that anybody needs."""
    stack = chain(9, Window(1, 1, 1, 0), Window(1, stride, 1, 0))
    network, span = network_of(stack), LayerSpan(0, 2)
    (cost,) = costs_on(network, SMALL, FusionObjective.DRAM).costs(
        [StackChoice(span, Tiling(1, 1, OverlapMode.RECOMPUTE))]
    )
    assert cost == (floor_of(network, SMALL).of(span).dram_bits,)


def test_an_input_is_counted_once_whoever_reads_it_and_outputs_always() -> None:
    stack = chain(8, Window(1, 1, 1, 0), Window(1, 1, 1, 0))
    first, second = stack.layers
    both = replace(second, reads=(replace(second.reads[0], source=stack.inputs[0].name),))
    network = FusableNetwork("net", stack.inputs, (first, both))
    source, outputs = stack.inputs[0], first.output.size_bits + both.output.size_bits
    weights = first.weight_bits + both.weight_bits
    assert floor_of(network, SMALL).of(LayerSpan(0, 2)).dram_bits == source.size_bits + outputs + weights


@pytest.mark.parametrize("seed", series(range(40), 13))
def test_layers_cost_no_less_than_their_price_of_a_pixel_on_odd_machines(seed: int) -> None:
    """Wherever maps lie, in whatever tiles, by the best mappings."""
    random, network = Random(seed), tiny(3000 + seed)[1]
    machine = accelerator_from_yaml(json.dumps(random_machine(Random(seed))), "tiny.yaml")
    costs = Costing(network, machine, FusionObjective.ENERGY, "exact", use_cache=False).costs(Run())

    def tilings(span: LayerSpan) -> Sequence[Tiling]:
        return tilings_of(stack_of(network, span).output, TileSizes.ALL)

    arcs, _ = StackSpace(network, machine, legal_spans(network), tilings).arcs()
    every = [choice for arc in arcs for choice in arc.choices]
    for choice in random.sample(every, min(12, len(every))):
        (cost,) = costs.costs([choice])
        if cost is not None:
            assert floor_of(network, machine, divides_loops=True).of(choice.span).energy_pj <= cost[0] / 1000 * (
                1 + 1e-9
            )


@pytest.mark.parametrize("machine", [SMALL, FREE])
def test_weights_and_maps_together_cost_more_than_each_apart_where_no_tile_is_best_for_both(
    machine: Accelerator,
) -> None:
    network = network_of(chain(22, Window(3, 1, 1, 1), Window(3, 1, 1, 1)))
    bounds = LayerGrids(MachineFloors(machine, AnyUnrolling(machine, every_memory_keeps=True)))
    layer, shapes = network.layers[1], EveryShape(bounds, network.maps)
    nest = bounds.floors_in_any_tiles(layer)
    pixels = layer.output.rows * layer.output.columns
    maps_pj = pixels * layer.output.channels * min(nest.output.values())
    weight = nest.nest.floor(Operand.WEIGHT, 1)

    assert shapes.knows(layer)
    together_pj = shapes.energy_pj(layer, pixels, {layer.reads[0].source}, leaves=False)
    assert together_pj > maps_pj + layer.layer.macs * weight.per_mac
