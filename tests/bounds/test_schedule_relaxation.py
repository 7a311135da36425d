"""The bound of a schedule, against schedules: random networks in random tiles, any mapping, streamed or resident."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.program import Allocate, Compute, Copy, Instruction, Plan
from onchip.answer.schedule import Homes
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.energies import stated
from onchip.arch.memory import DRAM, Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.bounds.layer.needed import ALL, NOTHING, NeededPixels, needed_pixels
from onchip.bounds.network.crowding import NOTHING_PAID
from onchip.bounds.network.relaxation import Relaxation, relaxation
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.program.compute_cost import (
    ComputeCost,
    NestCost,
    OperandAtHome,
    cost_of_nests,
    cost_without_nest,
    nest_cost,
)
from onchip.model.program.figures import ScheduleFigures, schedule_figures
from onchip.ops.layers_of import Precision
from onchip.ops.nests import BandedOperand, operands_of
from onchip.scheduling.program.runs import step_of
from onchip.transform.groups.tile_graph import TileGraph, TileOperator
from onchip.transform.groups.tiled import tile_graph
from onchip.verify.mapping import verify_mapping
from support.nests import PORTS, one_after_the_other, random_accelerator, random_mapping
from support.series import series
from support.small_schedules import all_whole, tile_graphs

AT_DRAM = (Access(64, 100, 110), Access(8, 0.5, 0.25), Access(64, 3, 0.5, 8), Access(32, 7.7, 9.9, 4))


def keeping_everywhere(mapping: LayerMapping, problem: LayerProblem, random: Random) -> LayerMapping:
    """Return the nest with tiles of every operand in all memories that may keep that operand."""

    def kept(operand: Operand) -> tuple[Kept, ...]:
        names = [one.memory.name for one in problem.keepers(operand)] if operand in problem.layer.operands else []
        cuts = sorted(random.randint(0, len(mapping.nest)) for _ in names)
        return tuple(Kept(name, cut) for name, cut in zip(names, cuts, strict=True))

    return LayerMapping(mapping.nest, kept(Operand.INPUT), kept(Operand.WEIGHT), kept(Operand.OUTPUT))


def bound_of(network: Graph, machine: Accelerator, *, every_memory_keeps: bool) -> Relaxation:
    """Return the bound without the cost of limited capacity, because memories here are large enough."""
    whole = tile_graph(network, all_whole(network), Precision(network.tensors[0].bits or 8))
    operands = whole.nest_operands
    found = relaxation(whole.graph, whole.nests, machine, every_memory_keeps=every_memory_keeps, operands=operands)
    return replace(found, crowding=NOTHING_PAID)


@dataclass
class Scheduled:
    """A program in which no two tensors share addresses: memories are as large as needed."""

    tiles: TileGraph
    machine: Accelerator
    random: Random
    every_memory_keeps: bool = False
    instructions: list[Instruction] = field(default_factory=list)
    costs: dict[str, ComputeCost] = field(default_factory=dict)
    resident: set[tuple[str, str]] = field(default_factory=set)
    in_dram: set[str] = field(default_factory=set)
    next_offset: int = 0

    def figures(self) -> ScheduleFigures | None:
        """Return the program's figures, or None if no sampled mapping of some nest is legal."""
        graph = self.tiles.graph
        self.in_dram = {one.name for one in graph.tensors if one.role in (Role.INPUT, Role.PARAMETER)}
        for operator in graph.operators:
            if not self._run(operator):
                return None
        for tensor in graph.with_role(Role.OUTPUT):
            self._to_dram(tensor.name)
        memories = tuple(level.memory for level in self.machine.addressed)
        return schedule_figures(graph, self.machine, Plan(memories, tuple(self.instructions)), self.costs)

    def _run(self, operator: Operator) -> bool:
        homes = [(operand, self._home(operand)) for operand in operands_of(self.tiles.graph, operator)]
        cost = self._cost(operator, homes)
        if cost is None:
            return False
        self.costs[operator.name] = cost
        self.instructions.append(Compute(operator.name))
        for operand, home in homes:
            if operand.operand is Operand.OUTPUT and home is None:
                self.in_dram |= {band.name for band in operand.bands}
        return True

    def _home(self, operand: BandedOperand) -> str | None:
        """Return a random memory, or a memory that already holds the operand; None for DRAM."""
        wish = self.random.choice([None, *self._holding(operand.operand)])
        for band in operand.bands:
            if operand.operand is Operand.OUTPUT:
                if wish is not None:
                    self._allocate(band.name, wish)
            elif wish is not None and (band.name, wish) not in self.resident:
                sources = [memory for tensor, memory in self.resident if tensor == band.name]
                source = self.random.choice([*sources, *([DRAM] if band.name in self.in_dram else [])])
                self._allocate(band.name, wish)
                self.instructions.append(Copy(band.name, source, wish))
            elif wish is None and not any((band.name, one) in self.resident for one in self._holding(operand.operand)):
                self._to_dram(band.name)
        names = [band.name for band in operand.bands]
        home = next(
            (one for one in self._holding(operand.operand) if all((n, one) in self.resident for n in names)), None
        )
        if home is None and operand.operand is not Operand.OUTPUT:
            for name in names:
                self._to_dram(name)
        return home

    def _holding(self, operand: Operand) -> list[str]:
        return [level.memory.name for level in self.machine.addressed if operand in level.memory.holds]

    def _allocate(self, name: str, memory: str) -> None:
        self.instructions.append(Allocate(name, memory, self.next_offset))
        self.next_offset += self.tiles.graph.tensor[name].size_bytes
        self.resident.add((name, memory))

    def _to_dram(self, name: str) -> None:
        if name not in self.in_dram:
            source = self.random.choice(sorted(memory for tensor, memory in self.resident if tensor == name))
            self.instructions.append(Copy(name, source, DRAM))
            self.in_dram.add(name)

    def _cost(self, operator: Operator, homes: list[tuple[BandedOperand, str | None]]) -> ComputeCost | None:
        tile = self.tiles.operators[operator.name]
        if not tile.nests:
            at_home = [OperandAtHome(one.operand, one.bits, one.row_bits, home) for one, home in homes]
            return replace(cost_without_nest(at_home, self.machine), workspace_bytes={})
        nests = [self._nest(layer, operator, tile, homes) for layer in tile.nests]
        if None in nests:
            return None
        filled = step_of(self.tiles, operator).filled([home for _, home in homes], self.machine)
        return replace(cost_of_nests([one for one in nests if one], filled), workspace_bytes={})

    def _nest(
        self, layer: Layer, operator: Operator, tile: TileOperator, homes: list[tuple[BandedOperand, str | None]]
    ) -> NestCost | None:
        """Return the cost of the cheapest of some random mappings, or None if none is legal."""
        read = [home for one, home in homes if one.operand is not Operand.OUTPUT]
        written = next(home for one, home in homes if one.operand is Operand.OUTPUT)
        weight = read[-1] if layer.has_weight else None
        is_input = layer.has_weight and not operator.parameters
        problem = LayerProblem(layer, self.machine, Homes(read[0], weight, written), {}, is_input)
        found = [nest_cost(problem, one) for one in [one_after_the_other(problem)] if not verify_mapping(problem, one)]
        for _ in range(6):
            try:
                mapping = random_mapping(self.random, problem)
                if self.every_memory_keeps:
                    mapping = keeping_everywhere(mapping, problem, self.random)
                found.append(nest_cost(problem, mapping))
            except MappingError:
                continue
        return min(found, key=lambda one: one.energy_pj, default=None)


def narrowed(machine: Accelerator, random: Random) -> Accelerator:
    """Return the machine with some memories shrunk until no element fits, or hardly one."""
    levels = tuple(
        replace(one, memory=replace(one.memory, capacity_bytes=random.choice((1, 2, 8, one.memory.capacity_bytes))))
        for one in machine.levels
    )
    return replace(machine, levels=levels, scratchpads=tuple(one.memory for one in levels if one.is_scratchpad))


@pytest.mark.parametrize("is_narrow", series([True, False], 1))
@pytest.mark.parametrize("keeps", series([False, True], 1))
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(tile_graphs(), st.integers(0, 10_000))
def test_no_schedule_costs_less(keeps: bool, is_narrow: bool, made: tuple[Graph, object, TileGraph], seed: int) -> None:
    network, _, tiles = made
    random = Random(seed)
    machine = replace(random_accelerator(random), dram=Dram(random.choice(AT_DRAM), random.choice(PORTS)))
    if is_narrow:
        machine = narrowed(machine, random)
    bound = bound_of(network, machine, every_memory_keeps=keeps)
    for _ in range(2):
        figures = Scheduled(tiles, machine, random, keeps).figures()
        if figures is None:
            continue
        assert bound.energy_fj <= figures.energy_fj
        assert bound.latency_cycles <= figures.latency_cycles
        assert bound.traffic_bytes <= figures.traffic_bytes
        assert bound.edp <= figures.edp
        assert stated(bound.mac_pj) <= stated(figures.energy.mac_pj) * (1 + 1e-9)


SPREAD = Accelerator(
    "spread",
    (Memory("sram", 64),),
    (MemoryLevel(Memory("sram", 64), is_scratchpad=True, access=Access(8, 1, 1)),),
    None,
    ComputeArray({"lane": 4}, None, 0.5),
    Dram(Access(8, 10, 11), (Port(Direction.READ_WRITE, 8),)),
)


def of_maps(*sizes: tuple[str, tuple[int, ...]], operators: tuple[Operator, ...], out: str) -> Graph:
    """Return a graph of tensors by name and shape: `x` is the input, names with w are parameters."""
    roles = {"x": Role.INPUT, out: Role.OUTPUT}
    return Graph(
        "maps",
        tuple(
            Tensor.of_shape(name, shape, 8, roles.get(name, Role.PARAMETER if name[0] == "w" else Role.ACTIVATION))
            for name, shape in sizes
        ),
        operators,
    )


def fully_connected() -> Graph:
    operator = Operator("fc", "Gemm", ("x",), ("y",), ("w",))
    return of_maps(("x", (1, 1)), ("w", (1, 4)), ("y", (1, 4)), operators=(operator,), out="y")


def test_a_layer_that_fills_the_array_once_is_bounded_by_what_it_costs() -> None:
    """Four lanes read the same input at once, and a weight each; each lane writes its output to DRAM."""
    layer = Layer(k=4, partial_bits=24)
    nest = nest_cost(LayerProblem(layer, SPREAD), LayerMapping((Loop("K", 4, "lane"),)))
    costs = {"fc": replace(cost_of_nests([nest]), workspace_bytes={})}
    found = schedule_figures(fully_connected(), SPREAD, Plan((), (Compute("fc"),)), costs)
    bound = relaxation(fully_connected(), {"fc": (layer,)}, SPREAD)
    assert bound.energy_fj == found.energy_fj == 96_000
    assert bound.traffic_bytes == found.traffic_bytes == 9
    assert bound.dram_cycles == 9
    assert (bound.computing_cycles, bound.latency_cycles, bound.edp) == (1, 9, 9 * 96_000)


def test_rounding_may_make_less_of_it_where_energies_are_no_whole_femtojoules() -> None:
    odd = replace(SPREAD, array=ComputeArray({"lane": 4}, None, 0.00055))
    bounds = [relaxation(fully_connected(), {"fc": (Layer(k=4),)}, machine) for machine in (SPREAD, odd)]
    assert bounds[0].rounding_fj == 0
    assert bounds[1].rounding_fj == (50_000 + 1 + 4 + 1) / 2


def test_a_parameter_that_several_read_is_read_in_dram_and_written_on_the_chip_once() -> None:
    """Two layers of twelve uses each: after one DRAM read, a write costs 1 and each read for four units costs 1.

    The first DRAM read may serve four uses of each layer; the write cannot be attributed to one layer.
    """
    operators = (Operator("one", "MatMul", ("x",), ("a",), ("w",)), Operator("two", "MatMul", ("a",), ("y",), ("w",)))
    sizes = ("x", (12, 1)), ("w", (1, 1)), ("a", (12, 1)), ("y", (12, 1))
    graph, layer = of_maps(*sizes, operators=operators, out="y"), Layer(n=12)
    bound = relaxation(graph, {"one": (layer,), "two": (layer,)}, SPREAD)
    assert bound.feeding_pj["weight"] == 2 + 2
    assert bound.dram_read_bits == (12 + 1) * 8
    tensors = (*graph.tensors[:2], replace(graph.tensor["a"], role=Role.OUTPUT))
    alone = relaxation(Graph("alone", tensors, operators[:1]), {"one": (layer,)}, SPREAD)
    assert alone.feeding_pj["weight"] == 1 + 2


CONV = Layer(k=1, c=1, p=6, q=6, r=3, s=3, padding=(1, 1, 1, 1))


def conv(name: str, source: str, written: str) -> Operator:
    return Operator(name, "Conv", (source,), (written,), (f"w{name}",))


def chain(*more: Operator, sizes: tuple[tuple[str, tuple[int, ...]], ...], out: str) -> Graph:
    """Return a graph of a convolution of 6 x 6 pixels and the given readers of its output."""
    maps = ("x", (1, 1, 6, 6)), ("wfirst", (1, 1, 3, 3)), ("y", (1, 1, 6, 6))
    return of_maps(*maps, *sizes, operators=(conv("first", "x", "y"), *more), out=out)


def test_pixels_that_a_stride_skips_are_not_needed() -> None:
    skipping = replace(CONV, p=3, q=3, r=1, s=1, stride=(2, 2), padding=(0, 0, 0, 0))
    graph = chain(conv("second", "y", "z"), sizes=(("wsecond", (1, 1, 1, 1)), ("z", (1, 1, 3, 3))), out="z")
    needed = needed_pixels(graph, {"first": (CONV,), "second": (skipping,)})
    even = frozenset((0, 2, 4))
    assert needed["z"] == ALL
    assert needed["y"] == NeededPixels(even, even)
    assert needed["x"] == ALL
    bound = relaxation(graph, {"first": (CONV,), "second": (skipping,)}, SPREAD)
    assert bound.mac_pj == (9 * 9 + 9) * 0.5


def test_windows_of_one_tap_over_padding_are_not_element_by_element() -> None:
    """Three pixels with one zero before and two after: one tap at stride 2 reads only the middle pixel."""
    seeing = replace(CONV, p=3, q=3, r=1, s=1, stride=(2, 2), padding=(1, 1, 2, 2))
    graph = of_maps(
        ("x", (1, 1, 3, 3)),
        ("wfirst", (1, 1, 1, 1)),
        ("y", (1, 1, 3, 3)),
        operators=(conv("first", "x", "y"),),
        out="y",
    )
    middle = frozenset((1,))
    assert needed_pixels(graph, {"first": (seeing,)})["x"] == NeededPixels(middle, middle)


def test_what_one_reader_skips_another_may_need() -> None:
    skipping = replace(CONV, p=3, q=3, r=1, s=1, stride=(2, 2), padding=(0, 0, 0, 0))
    sizes = (("wsecond", (1, 1, 1, 1)), ("z", (1, 1, 3, 3)), ("wthird", (1, 1, 3, 3)), ("u", (1, 1, 6, 6)))
    graph = chain(conv("second", "y", "z"), conv("third", "y", "u"), sizes=sizes, out="u")
    nests = {"first": (CONV,), "second": (skipping,), "third": (CONV,)}
    assert needed_pixels(graph, nests)["y"] == ALL
    assert needed_pixels(graph, nests)["z"] == NOTHING


@pytest.mark.parametrize(("kind", "needed"), [("Softmax", ALL), ("Flatten", ALL), ("Slice", NOTHING), ("Pad", NOTHING)])
def test_of_a_view_only_what_is_seen_is_made(kind: str, needed: NeededPixels) -> None:
    graph = chain(Operator("view", kind, ("y",), ("z",)), sizes=(("z", (1, 36)),), out="z")
    assert needed_pixels(graph, {"first": (CONV,)})["y"] == needed


@pytest.mark.parametrize(("stride", "needed"), [(1, ALL), (2, NOTHING)])
def test_of_joined_maps_all_is_needed_where_all_of_what_they_make_is(stride: int, needed: NeededPixels) -> None:
    """Otherwise tiles join only the pixels that their readers see; a map that is joined whole moves, tiled or not."""
    size = 6 // stride
    seeing = replace(CONV, c=2, p=size, q=size, r=1, s=1, stride=(stride, stride), padding=(0, 0, 0, 0))
    sizes = (("j", (1, 2, 6, 6)), ("wsecond", (1, 2, 1, 1)), ("z", (1, 1, size, size)))
    join = Operator("join", "Concat", ("y", "x"), ("j",), (), {"axis": 1})
    graph = chain(join, conv("second", "j", "z"), sizes=sizes, out="z")
    nests = {"first": (CONV,), "second": (seeing,)}
    assert needed_pixels(graph, nests)["y"] == needed
    assert (relaxation(graph, nests, SPREAD).without_nest_pj > 0) == (needed == ALL)


def test_an_operator_without_a_nest_costs_its_operands_where_they_are_cheapest() -> None:
    graph = chain(Operator("softmax", "Softmax", ("y",), ("z",)), sizes=(("z", (1, 1, 6, 6)),), out="z")
    bound = relaxation(graph, {"first": (CONV,)}, SPREAD)
    assert bound.without_nest_pj == 36 * 1 + 36 * 11
    assert bound.dram_written_bits == 36 * 8
    assert bound.dram_read_bits == (36 + 9) * 8
