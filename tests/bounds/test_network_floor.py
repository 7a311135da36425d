"""Bounds of whole networks and fused groups: needed pixels, axes, and layers alone."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from adversary.fusing import ODD_KINDS, oracle_network, random_machine
from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.tile_sizes import TileSizes
from onchip.answer.schedule import ScheduleError
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Operand
from onchip.bounds.group.layer_grids import LayerGrids
from onchip.bounds.group.network_floor import EveryShape, NetworkFloor, alone_bound
from onchip.bounds.group.tile_axes import AxisGrid
from onchip.bounds.layer.layer_floors import MachineFloors
from onchip.bounds.layer.needed import ALL, needed_pixels
from onchip.bounds.layer.unit_shares import AnyUnrolling
from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml
from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.window import Window
from onchip.mapping.methods.registry import METHODS
from onchip.model.group.mapper import Memoized
from onchip.ops.fusable import AxisName, BackCalculation, FusableNetwork, SizeTiles, Stack, back_calculation
from onchip.ops.fusable_reading import partly_fusable_of
from onchip.ops.layers_of import Precision
from onchip.scheduling.candidates.spaces import StackSpace
from onchip.scheduling.fronts.costs import StackCosts, criteria_of
from onchip.scheduling.fronts.mappers import LayerMapper
from onchip.scheduling.fronts.workers import Costing
from onchip.search.budget.limits import Run
from onchip.transform.groups.stacks import LayerSpan, StackChoice, legal_spans, stack_of, whole
from onchip.transform.groups.tile_graph import TileGraph
from onchip.transform.groups.tiled import tile_graph
from onchip.verify.schedule.tiles import joins_left_out
from oracles.fusion import computed
from support import fused_files
from support.fused_files import CHIP
from support.fusion_strategies import random_network
from support.random_schedules import tiny
from support.series import series
from support.small_schedules import all_whole, stacks_of, tile_graphs
from support.stacks import chain, random_stack, tilings_of
from support.tiled import Attributes, Network, conv, crop

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


Pixel = tuple[int, int]


@st.composite
def networks_of_views(draw: st.DrawFn) -> Graph:
    """Convolutions with Pads (some negative), Slices, Resizes and transposed convolutions between them."""
    network = Network(8)
    last = conv(network, network.input(1, 2, 6, 5), 3, 3)
    for _ in range(draw(st.integers(1, 3))):
        last = _viewed(draw, network, last)
        if draw(st.booleans()):
            last = conv(network, last, 2, draw(st.sampled_from((1, 3))), stride=draw(st.integers(1, 2)))
    return network.graph()


def _viewed(draw: st.DrawFn, network: Network, source: str) -> str:
    batch, channels, rows, columns = network.shape(source)
    match draw(st.sampled_from(("Pad", "Pad of channels", "Slice", "Slice of channels", "Resize", "ConvTranspose"))):
        case "Pad":
            lower = [-min(1, (size - 1) // 2) for size in (rows, columns)] * 2
            top, left, bottom, right = (draw(st.integers(low, 2)) for low in lower)
            pads: Attributes = {"pads": [0, 0, top, left, 0, 0, bottom, right]}
            if draw(st.booleans()):
                pads |= {"mode": "edge"}
            shape = (batch, channels, rows + top + bottom, columns + left + right)
            return network.add("Pad", [source], shape, (), pads)
        case "Pad of channels":
            more: Attributes = {"pads": [0, 1, 0, 0, 0, 1, 0, 0]}
            return network.add("Pad", [source], (batch, channels + 2, rows, columns), (), more)
        case "Slice" if min(rows, columns) > 2:
            return crop(network, source, 1, draw(st.integers(1, 2)))
        case "Slice of channels" if channels > 1:
            taken: Attributes = {"axes": [1], "starts": [1], "ends": [channels]}
            return network.add("Slice", [source], (batch, channels - 1, rows, columns), (), taken)
        case "Resize":
            nearest: Attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
            nearest |= {"nearest_mode": "floor"}
            return network.add("Resize", [source], (batch, channels, 2 * rows, columns), (), nearest)
    kernel = draw(st.integers(1, 3))
    weights = [network.parameter(channels, 2, kernel, kernel)]
    sizes = [(size - 1) * 2 + kernel for size in (rows, columns)]
    return network.add("ConvTranspose", [source], (batch, 2, *sizes), weights, {"strides": [2, 2]})


@st.composite
def tilings_of_views(draw: st.DrawFn) -> tuple[Graph, object, TileGraph]:
    graph = draw(networks_of_views())
    stacks = draw(stacks_of(graph))
    try:
        return graph, stacks, tile_graph(graph, stacks, Precision(8))
    except ScheduleError:
        assume(False)
        raise


def pixels_of_bands(tiles: TileGraph, *, are_read: bool) -> dict[str, set[Pixel]]:
    """Return by tensor of the network the pixels that tile operators write, or read."""
    found: dict[str, set[Pixel]] = defaultdict(set)
    for operator in tiles.graph.operators:
        for name in operator.inputs if are_read else operator.outputs:
            tensor = tiles.graph.tensor[name]
            region = tensor.region or tuple((0, size) for size in tensor.shape or ())
            rows, columns = region[-2:] if len(region) > 1 else ((0, 1), (0, 1))
            found[tensor.part_of or name] |= set(product(range(*rows), range(*columns)))
    return found


@pytest.mark.slow
@settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.one_of(tile_graphs(), tilings_of_views(), tilings_of_views()))
def test_needed_pixels_are_computed_in_every_tiling(made: tuple[Graph, object, TileGraph]) -> None:
    network, _, tiles = made
    whole = tile_graph(network, all_whole(network), Precision(network.tensors[0].bits or 8))
    needed = needed_pixels(whole.graph, whole.nests, whole.nest_operands)
    written, read = pixels_of_bands(tiles, are_read=False), pixels_of_bands(tiles, are_read=True)
    for name, parts in joins_left_out(network, tiles.graph).items():
        written[name] = set.intersection(*(written[part] for part in parts))
    for tensor in whole.graph.tensors:
        shape = tensor.shape or ()
        if len(shape) != 4 or tensor.role is Role.PARAMETER:
            continue
        rows, columns = (
            range(size) if one is None else one
            for size, one in zip(shape[2:], (needed[tensor.name].rows, needed[tensor.name].columns), strict=True)
        )
        made_of = read if tensor.role is Role.INPUT else written
        assert set(product(rows, columns)) <= made_of[tensor.name], tensor.name


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(networks_of_views())
def test_demand_passes_through_views(network: Graph) -> None:
    """A Pad that cuts nothing off needs all of what it pads, if all that it writes is needed."""
    whole = tile_graph(network, all_whole(network), Precision(8))
    needed = needed_pixels(whole.graph, whole.nests, whole.nest_operands)
    for operator in whole.graph.operators:
        pads = operator.attributes.get("pads")
        if operator.kind == "Pad" and isinstance(pads, list) and needed[operator.outputs[0]] == ALL:
            assert min(pad for pad in pads if isinstance(pad, int)) < 0 or needed[operator.inputs[0]] == ALL


Shape = tuple[int, ...]
ROUNDED_OFF = 2
"""Of a whole number, whatever is lost by adding up."""
ROOMY = accelerator_from_yaml(CHIP.replace("capacity: 512B", "capacity: 64KiB"), "chip.yaml")
TIGHT = accelerator_from_yaml(CHIP.replace("capacity: 512B", "capacity: 24B"), "chip.yaml")


def graph_of(
    kind: str, output: Shape, *shapes: Shape, weight: Shape | None = None, strides: list[AttributeValue] | None = None
) -> Graph:
    """One operator of maps, and perhaps of a weight."""
    names = [f"m{at}" for at in range(len(shapes))]
    tensors = [Tensor.of_shape(name, shape, 8, Role.INPUT) for name, shape in zip(names, shapes, strict=True)]
    tensors.append(Tensor.of_shape("y", output, 8, Role.OUTPUT))
    parameters = () if weight is None else ("w",)
    attributes: dict[str, AttributeValue] = {"strides": strides} if strides else {}
    tensors += [Tensor.of_shape("w", weight, 8, Role.PARAMETER)] if weight else []
    return Graph("one", tuple(tensors), (Operator("y", kind, tuple(names), ("y",), parameters, attributes),))


@st.composite
def alone(draw: st.DrawFn) -> Graph:
    """A product of two maps, a reduction over channels."""
    batch, rows, depth, columns = (draw(st.integers(2, 4)) for _ in range(4))
    made = {
        "product": graph_of("MatMul", (batch, rows, columns), (batch, rows, depth), (batch, depth, columns)),
        "reduction": graph_of("ReduceSum", (1, 1, rows, columns), (1, batch, rows, columns)),
    }
    return made[draw(st.sampled_from(sorted(made)))]


@given(alone(), st.sampled_from(FusionObjective), st.booleans(), st.lists(st.booleans(), min_size=3, max_size=3))
def test_a_layer_alone_costs_at_least_its_bound(
    graph: Graph, objective: FusionObjective, is_tight: bool, at_home: list[bool]
) -> None:
    network = partly_fusable_of(graph).network
    (layer,) = network.layers
    assert layer.runs_alone
    costs = Costing(network, TIGHT if is_tight else ROOMY, objective, "loma", use_cache=False).costs(Run())
    homes = tuple((one.name, "global") for one, is_there in zip(network.inputs, at_home, strict=False) if is_there)
    choice = StackChoice(LayerSpan(0, 1), whole(layer.output), homes, "global" if at_home[2] else DRAM)
    cost = criteria_of(objective, costs.cost(choice).sums)
    chip = TIGHT if is_tight else ROOMY
    machine = MachineFloors(chip, AnyUnrolling(chip, every_memory_keeps=True))
    least = alone_bound(layer, network.maps, dict(homes), choice.output_home, machine)
    own = objective.criteria(least.energy_pj, least.cycles, least.dram_bits)
    assert all(map(float.__le__, map(float, own), (part + ROUNDED_OFF for part in map(float, cost))))
    if not any(at_home):  # what comes into the network and leaves it lies in DRAM
        bound = costs.bound(choice)
        assert bound is not None
        assert all(map(int.__le__, bound, cost))
        if objective is FusionObjective.DRAM and not is_tight:
            assert bound == (max(cost[0] - ROUNDED_OFF, 0),)


@pytest.mark.parametrize(("strides", "bits"), [([1, 1], 8 * (49 + 49 + 1)), ([3, 3], 8 * (9 + 1))])
def test_of_a_map_that_strides_pass_by_nothing_is_counted(strides: list[AttributeValue], bits: int) -> None:
    """A convolution of one tap whose weight is a map."""
    side = 7 if strides == [1, 1] else 3
    network = partly_fusable_of(
        graph_of("Conv", (1, 1, side, side), (1, 1, 7, 7), (1, 1, 1, 1), strides=strides)
    ).network
    (layer,) = network.layers
    costs = Costing(network, ROOMY, FusionObjective.DRAM, "loma", use_cache=False).costs(Run())
    assert costs.bound(StackChoice(LayerSpan(0, 1), whole(layer.output))) == (bits - ROUNDED_OFF,)


SEEDS = pytest.mark.parametrize("seed", series(range(60), 10))


@SEEDS
@pytest.mark.parametrize("axis", AxisName)
@pytest.mark.parametrize("cached", [False, True])
def test_tiles_compute_the_pixels_of_the_oracle(seed: int, axis: AxisName, cached: bool) -> None:
    facts, network = tiny(seed)
    pixels = oracle_network(facts)
    for span in legal_spans(network):
        stack = stack_of(network, span)
        for tile in range(1, axis.pixels(stack.output) + 1):
            run, number = (span.start, span.stop), 0 if axis is AxisName.ROWS else 1
            tiles = computed(pixels, run, tile, number, is_cached=cached)
            grid = AxisGrid(SizeTiles(stack, axis, (tile,), cached))
            assert grid.sees_all(0) is (tiles is not None)
            if tiles is None:
                continue
            for at, layer in enumerate(stack.layers):
                each, found = [len(one[layer.output.name]) for one in tiles], grid.layer(at)
                assert (found.times @ found.computed).tolist() == [sum(each)]
                assert found.computed[found.times[0] > 0].max() == max(each)
                assert found.computed[found.first_class[0]] == each[0]
                assert found.tiles.tolist() == [sum(count > 0 for count in each)]


def each_size(stack: Stack, axis: AxisName, *, cached: bool) -> dict[int, BackCalculation]:
    """Return the pixels for each size in which every tile sees something else than padding."""
    found = {}
    for size in range(1, axis.pixels(stack.output) + 1):
        try:
            found[size] = back_calculation(stack, axis, size, cached=cached)
        except InputError:
            continue
    return found


def assert_alike(grid: AxisGrid, at: int, every: Sequence[BackCalculation]) -> None:
    """Assert that both have as many tiles of each size in which a layer computes and sees equally much."""
    found, layer = grid.layer(at), grid.of_sizes.stack.layers[at]
    stride = grid.of_sizes.axis.window(layer.reads[0]).stride
    for number, one in enumerate(every):
        output, reads = one.maps[layer.output.name], one.reads[at]
        pixels = output.computed.lengths
        outer = -(-reads[0].zeros_before // stride) - (-reads[0].zeros_after // stride)
        seen, cached = [read.seen.lengths for read in reads], [read.cached for read in reads]
        table = np.stack([pixels, *seen, np.maximum(pixels - outer, 0), *cached, output.written])
        own = Counter(map(tuple, table[:, pixels > 0].T.tolist()))
        arrays = np.stack([found.computed, *found.seen, found.inner, *found.cached, found.written])
        times = found.times[number]
        assert own == {tuple(arrays[:, place].tolist()): times[place] for place in np.flatnonzero(times)}
        first = found.first_class[number]
        assert 0 < found.computed[first] == pixels[0]
        assert times[first] > 0
        assert found.new[:, number].tolist() == [int((read.seen.lengths - read.cached).sum()) for read in reads]
        assert found.tiles[number] == (pixels > 0).sum()


def networks(seed: int) -> tuple[FusableNetwork, ...]:
    return random_network(seed), tiny(4000 + seed, ODD_KINDS)[1]


@SEEDS
@pytest.mark.parametrize("axis", AxisName)
@pytest.mark.parametrize("cached", [False, True])
def test_tiles_of_many_sizes_told_together_are_those_of_each(seed: int, axis: AxisName, cached: bool) -> None:
    for network in networks(seed):
        for span in legal_spans(network):
            stack = stack_of(network, span)
            if stack.layers[0].runs_alone or not (each := each_size(stack, axis, cached=cached)):
                continue
            grid = AxisGrid(SizeTiles(stack, axis, tuple(each), cached))
            assert grid.sees_all(0)
            for at in range(len(stack.layers)):
                assert_alike(grid, at, list(each.values()))
            for name in next(iter(each.values())).kept:
                assert grid.kept(name).tolist() == [one.kept[name] for one in each.values()]
                assert grid.whole(name).tolist() == [one.whole[name] for one in each.values()]


@SEEDS
@pytest.mark.parametrize("axis", AxisName)
@pytest.mark.parametrize("cached", [False, True])
def test_of_a_stack_s_end_all_tiles_see_something_where_they_do_of_the_stack(
    seed: int, axis: AxisName, cached: bool
) -> None:
    """Asked layer by layer, from the last one on, in whatever stack the layers end."""
    for network in networks(seed):
        for span in legal_spans(network):
            stack = stack_of(network, span)
            if stack.layers[0].runs_alone:
                continue
            sizes = tuple(range(1, axis.pixels(stack.output) + 1))
            grid = AxisGrid(SizeTiles(stack, axis, sizes, cached))
            seen = [grid.sees_all(at) for at in reversed(range(len(stack.layers)))]
            assert seen == sorted(seen, reverse=True)
            assert seen[-1] is (len(each_size(stack, axis, cached=cached)) == len(sizes))
