"""Groups counted by tile types have the costs of groups composed tile by tile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from onchip.answer.document import Reading
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import FusionOptions
from onchip.answer.schedule import ScheduledStack
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.api.networks import read_network
from onchip.arch.memory import DRAM
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.graph import Graph
from onchip.model.group.slices import cost_in_slices
from onchip.ops.channel_slices import GroupInSlices
from onchip.ops.fusable import pixels_in_tiles
from onchip.ops.fusable_reading import fusable_of
from onchip.ops.layers_of import Precision
from onchip.scheduling.candidates.grouping import Grouper, demand_of
from onchip.scheduling.fronts.mappers import MapperInTime
from onchip.scheduling.fronts.stack_front import Surroundings
from onchip.scheduling.mappings.mapped import KnownMappings
from onchip.scheduling.mappings.nest_mapper import BestMapper
from onchip.scheduling.program.attempt import AttemptMaker
from onchip.scheduling.program.composition import ScheduleQuestion
from onchip.scheduling.program.from_strategy import places_of_strategy
from onchip.scheduling.program.places import Places
from onchip.search.budget.limits import Run
from onchip.transform.groups.stacks import LayerSpan, StackChoice
from onchip.transform.groups.tiled import tile_graph
from support.tiled import Network, conv, convolution


@pytest.mark.parametrize("mode", OverlapMode)
@pytest.mark.parametrize(
    ("machine", "tile"), [("meta-prototype-df", (5, 3)), ("meta-prototype-df", (10, 2)), ("simba", (4, 4))]
)
def test_tiles_counted_by_type_cost_what_they_cost_one_by_one(
    machine: str, tile: tuple[int, int], mode: OverlapMode
) -> None:
    """The groups are the first two convolutions of LeNet-5 and their pools; the two costs may differ by 5 %."""
    accelerator, run = load_accelerator(machine), Run()
    network = read_network("lenet5", Reading()).with_bits(8)
    question = ScheduleQuestion(network, accelerator, Precision(8).on(accelerator), ScheduleObjective.ENERGY)
    mapper = BestMapper(accelerator, question.objective.of_layers, run)
    maker = AttemptMaker(question, KnownMappings(mapper), mapper, run)
    names = tuple(one.name for one in network.operators)[:3]
    rows, columns = pixels_in_tiles(network, names)
    grouper = Grouper(maker, None, FusionOptions(tile=tile, mode=mode))
    with mapper.quick(is_quick=True, is_hurried=True):
        (counted,) = grouper.counted(names, run).options
        composed = grouper.composed(counted.stack, counted.places, run)
    assert counted.stack == ScheduledStack(names, Tiling(*tile, mode).within(columns, rows))
    assert composed is not None
    assert composed.figures.energy_fj == pytest.approx(counted.figures.energy_fj, rel=0.05)
    assert composed.figures.traffic_bytes == pytest.approx(counted.figures.traffic_bytes, rel=0.05)


def wide_block(pixels: int, channels: int) -> Graph:
    """Return a convolution to many channels, and an addition to its output."""
    network = Network(8)
    source, beside = network.input(1, 64, pixels, pixels), network.input(1, channels, pixels, pixels)
    widened = conv(network, source, channels, 1)
    network.add("Add", [widened, beside], network.shape(widened))
    return network.graph()


@pytest.mark.parametrize("machine", ["simba", "meta-prototype-df"])
@pytest.mark.parametrize("channels", [32, 48, 128])
def test_slices_counted_by_type_cost_what_they_cost_one_by_one(machine: str, channels: int) -> None:
    """128 channels are also cut into 48, 48 and a first slice of 32."""
    accelerator, run, network = load_accelerator(machine), Run(), wide_block(14, 128)
    question = ScheduleQuestion(network, accelerator, Precision(8).on(accelerator), ScheduleObjective.ENERGY)
    mapper = BestMapper(accelerator, question.objective.of_layers, run)
    maker = AttemptMaker(question, KnownMappings(mapper), mapper, run)
    names, layers = tuple(network.operator), fusable_of(network, question.precision)
    stack = ScheduledStack(names, Tiling(14, 14, OverlapMode.RECOMPUTE, channels))
    assert stack.tiling is not None
    grouper = Grouper(maker, None, FusionOptions())
    with mapper.quick(is_quick=True, is_hurried=True):
        nests = MapperInTime(grouper._layer_cost, run, {})
        slices = GroupInSlices.of(network, names, channels)
        cost = cost_in_slices(network, layers, accelerator, stack.tiling, slices, nests, {}, DRAM, {})
        choice = StackChoice(LayerSpan(0, len(layers.layers)), stack.tiling)
        places = places_of_strategy(network, (stack,), layers, ((choice, cost),))
        composed = grouper.composed(stack, places, run)
    assert composed is not None
    counted = demand_of(cost)
    assert composed.figures.energy_fj == pytest.approx(counted.energy_fj, rel=0.05)
    assert composed.figures.traffic_bytes == pytest.approx(counted.traffic_bytes, rel=0.05)


def test_a_convolution_whose_weights_do_not_fit_and_an_addition_run_in_slices_of_channels() -> None:
    """Rows of the block would read 64 KB of weights again; slices read each weight and each input once."""
    accelerator, run, network = load_accelerator("simba"), Run(), wide_block(14, 1024)
    question = ScheduleQuestion(network, accelerator, Precision(8).on(accelerator), ScheduleObjective.TRAFFIC)
    mapper = BestMapper(accelerator, question.objective.of_layers, run)
    maker = AttemptMaker(question, KnownMappings(mapper), mapper, run)
    with mapper.quick(is_quick=True, is_hurried=True):
        (counted,) = Grouper(maker, None, FusionOptions()).counted(tuple(network.operator), run).options
    assert counted.stack.tiling is not None
    assert counted.stack.tiling.channels is not None
    assert counted.figures.traffic_bytes == 14 * 14 * (64 + 2 * 1024) + 64 * 1024


ONE_BUFFER = """
format: onchip-accelerator
version: 1
name: one-buffer
array: {dimensions: {lane: 1}, mac_energy_pj: 0.0}
memories:
  - {name: buffer, capacity: 8KiB, scratchpad: true, serves: [lane], access_bits: 8, shortest_access_bits: 8,
     read_energy_pj: 0.0, write_energy_pj: 0.0,
     ports: [{direction: read, bits_per_cycle: 8}, {direction: write, bits_per_cycle: 8}]}
dram: {access_bits: 8, shortest_access_bits: 8, read_energy_pj: 8, write_energy_pj: 8,
       ports: [{direction: read_write, bits_per_cycle: 8}]}
"""


def test_keys_and_values_of_a_head_stay_while_tiles_run_through_its_rows(tmp_path: Path) -> None:
    """Keys and values of one head fit, those of three do not: only heads outside of rows read each of them once."""
    (tmp_path / "machine.yaml").write_text(ONE_BUFFER)
    accelerator, run = load_accelerator(str(tmp_path / "machine.yaml")), Run()
    made = Network(8)
    queries, keys, values = (made.input(1, 3, *size) for size in ((64, 16), (16, 64), (64, 16)))
    scores = made.add("MatMul", [queries, keys], (1, 3, 64, 64))
    soft = made.add("Softmax", [scores], (1, 3, 64, 64), attributes={"axis": -1})
    made.add("MatMul", [soft, values], (1, 3, 64, 16))
    network, precision = made.graph(), Precision(8, 8)
    question = ScheduleQuestion(network, accelerator, precision, ScheduleObjective.ENERGY)
    mapper = BestMapper(accelerator, question.objective.of_layers, run)
    maker = AttemptMaker(question, KnownMappings(mapper), mapper, run)
    names = tuple(network.operator)
    grouper = Grouper(maker, None, FusionOptions(tile=(1, 16)))
    with mapper.quick(is_quick=True, is_hurried=True):
        (counted,) = grouper.counted(names, run).options
        composed = grouper.composed(counted.stack, counted.places, run)
    assert composed is not None
    assert counted.figures.traffic_bytes == composed.figures.traffic_bytes == 4 * 3 * 64 * 16
    tiles = tile_graph(network, [counted.stack], precision).graph.operators
    assert [one.tile.regions[0][1:3] for one in tiles if one.tile and one.tile.operator == names[-1]] == [
        ((head, head + 1), (row, row + 16)) for head in range(3) for row in range(0, 64, 16)
    ]


def convolution_between_others(channels: int) -> Graph:
    """Return a depthwise convolution of 14 x 14 pixels between two pointwise ones."""
    network = Network(8)
    source = network.input(1, 16, 14, 14)
    first = conv(network, source, channels, 1)
    between = convolution(network, first, channels, (3, 3), groups=channels)
    assert between is not None
    conv(network, between, 16, 1)
    return network.graph()


@pytest.mark.parametrize(
    "tiling",
    [
        Tiling(14, 2, OverlapMode.RECOMPUTE),
        Tiling(2, 14, OverlapMode.RECOMPUTE),
        Tiling(14, 14, OverlapMode.RECOMPUTE, 96),
    ],
)
def test_a_map_replaces_another_on_chip_tile_by_tile(tiling: Tiling) -> None:
    """Both maps have 75,264 bytes, and the memory 131,072: the one leaves as far as no tile needs it."""
    accelerator, run, network = load_accelerator("simba"), Run(), convolution_between_others(384)
    question = ScheduleQuestion(network, accelerator, Precision(8).on(accelerator), ScheduleObjective.ENERGY)
    mapper = BestMapper(accelerator, question.objective.of_layers, run)
    maker = AttemptMaker(question, KnownMappings(mapper), mapper, run)
    middle = network.operators[1]
    (read,), (written,) = middle.inputs, middle.outputs
    home = "global_buffer"
    grouper = Grouper(maker, None, FusionOptions(tile=(tiling.columns, tiling.rows), mode=tiling.mode))
    stacks = tuple(ScheduledStack((one.name,), tiling if one is middle else None) for one in network.operators)
    around = Surroundings({read: home}, home, {}, frozenset({read}))
    with mapper.quick(is_quick=True, is_hurried=True):
        assert not grouper.counted((middle.name,), run, replace(around, read_last=frozenset())).options
        (counted,) = grouper.counted((middle.name,), run, around, known=(tiling,)).options
        places = Places({(2, written): home}, {(0, read): home}).with_all(counted.places.renumbered({0: 1}))
        composition = maker.made(stacks, places).improver.best.composition
    assert counted.stack.tiling == tiling
    composed = composition.composed[1]
    assert composed.energy_fj == pytest.approx(counted.figures.energy_fj, rel=0.05)
    assert composed.traffic_bytes == counted.figures.traffic_bytes
