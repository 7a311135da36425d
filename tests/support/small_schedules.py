"""Small networks and machines for schedules: chains with a skip connection, and random stacks of any operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from onchip.answer.document import Reading, ScheduleDocument
from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import ScheduleOptions
from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.api.schedule import ScheduleRequest, schedule_network
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Port
from onchip.formats.own.schedule_json import schedule_to_json
from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.mapping.methods.cache import map_layer_at
from onchip.model.program.compute_cost import nest_cost
from onchip.ops.layers_of import Precision
from onchip.ops.views import views_that_join
from onchip.reports.schedule.outcome import ScheduleOutcome
from onchip.scheduling.mappings.mapped import KnownMappings, MappedNest, Room
from onchip.scheduling.mappings.nest_mapper import BestMapper
from onchip.scheduling.program.attempt import AttemptMaker, ScheduleAttempt
from onchip.scheduling.program.composition import Composer, ScheduleQuestion
from onchip.scheduling.program.places import Places
from onchip.scheduling.program.runs import NestPlace, TiledNetwork
from onchip.search.budget.limits import Run
from onchip.transform.groups.tile_graph import TileGraph, part_of_network
from onchip.transform.groups.tiled import tile_graph
from support.diamond import Program
from support.fused_files import CHIP, three_convolutions
from support.tiled import graphs, networks

IN_TILES = ScheduleOptions("one", (4, 4), OverlapMode.FULLY_CACHED)
LAYER_BY_LAYER = ScheduleOptions("layers")


@cache
def folder() -> Path:
    """Return a folder with `three.json` and `chip.yaml`."""
    found = Path(mkdtemp(prefix="schedules-"))
    (found / "three.json").write_text(three_convolutions())
    (found / "chip.yaml").write_text(CHIP)
    return found


def three() -> str:
    """Return the path of the network's file."""
    return str(folder() / "three.json")


def chip() -> str:
    """Return the path of the machine's file."""
    return str(folder() / "chip.yaml")


@cache
def outcome(*, in_tiles: bool) -> ScheduleOutcome:
    """Return the best schedule found without a limit."""
    options = IN_TILES if in_tiles else LAYER_BY_LAYER
    return schedule_network(
        ScheduleRequest(three(), chip(), options=replace(options, uses_cache=False), reading=Reading(bits=8))
    )


def document(*, in_tiles: bool) -> ScheduleDocument:
    """Return the same schedule as the document of a file."""
    found = outcome(in_tiles=in_tiles).document
    assert found is not None
    return found


@cache
def schedule_text(*, in_tiles: bool) -> str:
    """Return the text of the file."""
    return schedule_to_json(document(in_tiles=in_tiles))


PRECISION = Precision(8, 16)
PORTS = (Port(Direction.READ_WRITE, 16),)


def skip_chip(near_bytes: int = 40, far_bytes: int = 90) -> Accelerator:
    """Return a chip whose two memories hold everything, with an array of two units."""
    near = MemoryLevel(Memory("near", near_bytes), access=Access(8, 1, 1), ports=PORTS)
    far = MemoryLevel(Memory("far", far_bytes, 2), is_scratchpad=True, access=Access(8, 5, 5), ports=PORTS)
    array = ComputeArray({"K": 2}, None, 0.5)
    return Accelerator("tiny", (far.memory,), (near, far), None, array, Dram(Access(8, 100, 100), PORTS))


def skip_network(rows: int = 4, columns: int = 4) -> Graph:
    """Return convolutions with a skip connection over one, then a softmax over the channels, which has no tiles."""

    def activation(name: str, role: Role = Role.ACTIVATION) -> Tensor:
        return Tensor.of_shape(name, (1, 2, rows, columns), 8, role)

    weights = tuple(Tensor.of_shape(f"w{at}", (2, 2, 3, 3), 8, Role.PARAMETER) for at in range(2))
    attributes: dict[str, AttributeValue] = {
        "kernel_shape": [3, 3],
        "pads": [1, 1, 1, 1],
        "strides": [1, 1],
        "dilations": [1, 1],
        "group": 1,
    }
    return Graph(
        "skip",
        (activation("x", Role.INPUT), *weights, *map(activation, "abc"), activation("y", Role.OUTPUT)),
        (
            Operator("first", "Conv", ("x",), ("a",), ("w0",), attributes),
            Operator("second", "Conv", ("a",), ("b",), ("w1",), attributes),
            Operator("add", "Add", ("a", "b"), ("c",)),
            Operator("soft", "Softmax", ("c",), ("y",), attributes={"axis": 1}),
        ),
    )


ALONE = tuple(ScheduledStack((name,)) for name in ("first", "second", "add", "soft"))
FULLY = OverlapMode.FULLY_CACHED
TILED = ScheduledStack(("first", "second", "add"), Tiling(3, 2, FULLY))


def maker(accelerator: Accelerator, network: Graph) -> AttemptMaker:
    question = ScheduleQuestion(network, accelerator, PRECISION, ScheduleObjective.LATENCY, uses_cache=False)
    mapper = BestMapper(accelerator, MappingObjective.LATENCY, Run())
    return AttemptMaker(question, KnownMappings(mapper), mapper, Run())


def alone(making: AttemptMaker, stack: ScheduledStack, places: Places) -> ScheduleAttempt:
    part = replace(making.question, network=part_of_network(making.question.network, stack.operators))
    return AttemptMaker(part, making.mappings, making.mapper, Run()).made((stack,), places)


def grid_chip(units: Mapping[str, int], far_bytes: int = 4000) -> Accelerator:
    return replace(skip_chip(200, far_bytes), array=ComputeArray(dict(units), None, 0.5))


@dataclass(slots=True)
class ProvenMapper:
    """Finds the best mapping of each nest."""

    accelerator: Accelerator
    is_quick: bool = False

    def __call__(self, nest: NestPlace, room: Room, similar: Sequence[LayerMapping]) -> MappedNest | None:
        return _best(LayerProblem(nest.layer, self.accelerator, nest.homes, room, nest.weight_is_an_input))

    def expect(self, asked: Sequence[tuple[NestPlace, Room]]) -> None:
        """Do nothing: the time is not divided among nests."""


def composer(stacks: tuple[ScheduledStack, ...], accelerator: Accelerator) -> tuple[TileGraph, Composer]:
    tiles = tile_graph(skip_network(), stacks, PRECISION)
    return tiles, Composer(stacks, TiledNetwork.of(tiles), accelerator, KnownMappings(ProvenMapper(accelerator)))


@cache
def _best(problem: LayerProblem) -> MappedNest | None:
    found = map_layer_at(problem, MappingObjective.ENERGY, Run()).answer
    return None if found is None else MappedNest(found, nest_cost(problem, found))


def schedule_check_and_run(
    onchip: Program, network: Path, folder: Path, accelerator: str | Path, *options: object
) -> dict[str, Any]:
    """Return the output of `schedule --json`, after checking its bound, its legality and its run's values."""
    answer = folder / "schedule.json"
    ended = onchip("schedule", network, "--accelerator", accelerator, "--no-cache", "--json", "-o", answer, *options)
    assert ended.code == 0, ended.err
    found: dict[str, Any] = ended.json
    assert found["lower_bound"] <= found["objective_value"]
    checked = onchip("check", answer, network)
    assert checked.code == 0, checked.out
    run = onchip("run", answer, network)
    assert run.code == 0, run.out + run.err
    return found


VIEWS = frozenset({"Slice", "Pad", "Flatten", "Concat", "Resize"})
_WHOLE = frozenset({"BatchNormalization", "Transpose", "MatMul", "Softmax"})


def tiled(names: str | Sequence[str], tile: str = "1x1", mode: OverlapMode = OverlapMode.RECOMPUTE) -> ScheduledStack:
    """Return a stack of operators in tiles of columns x rows."""
    columns, rows = map(int, tile.split("x"))
    listed = tuple(names.split()) if isinstance(names, str) else tuple(names)
    return ScheduledStack(listed, Tiling(columns, rows, mode))


def whole(*names: str) -> tuple[ScheduledStack, ...]:
    """Return each operator as a stack without tiles."""
    return tuple(ScheduledStack((name,)) for name in names)


def all_whole(graph: Graph) -> tuple[ScheduledStack, ...]:
    """Return every operator alone and without tiles."""
    return whole(*graph.operator)


@st.composite
def stacks_of(draw: st.DrawFn, graph: Graph) -> tuple[ScheduledStack, ...]:
    """Draw stacks in the graph's order that only their last output leaves; tileable stacks are often tiled."""
    found, start, names = [], 0, list(graph.operator)
    while start < len(names):
        ends = [stop for stop in range(start + 1, len(names) + 1) if stop == start + 1 or _may_be(graph, start, stop)]
        stop = draw(st.sampled_from(ends[::-1]))
        is_tiled = stop > start + 1 or (_may_be(graph, start, stop) and draw(st.booleans()))
        tiling = draw(_tilings(graph, names[stop - 1])) if is_tiled else None
        found.append(ScheduledStack(tuple(names[start:stop]), tiling))
        start = stop
    return tuple(found)


@st.composite
def tile_graphs(draw: st.DrawFn) -> tuple[Graph, tuple[ScheduledStack, ...], TileGraph]:
    """Draw a network of 8, 16, 32 or 64 bits, stacks of all its operators, and their tile graph.

    Some concatenations that need not be made are not.
    """
    graph = draw(st.one_of(graphs(), networks()))
    stacks = draw(stacks_of(graph))
    bits = graph.tensors[0].bits or 8
    views = draw(st.frozensets(st.sampled_from(sorted(found)))) if (found := views_that_join(graph)) else found
    try:
        return graph, stacks, tile_graph(graph, stacks, Precision(bits), views)
    except ScheduleError as error:
        assume("it cannot run in tiles" not in error.what)
        raise


def _may_be(graph: Graph, start: int, stop: int) -> bool:
    """Return True if the operators may be a stack in tiles, judging by kinds and readers only."""
    operators = graph.operators[start:stop]
    if operators[-1].kind in VIEWS or any(one.kind in _WHOLE for one in operators):
        return False
    inside = {one.name for one in operators}
    inner = [name for one in operators[:-1] for name in one.outputs]
    return all(
        graph.tensor[name].role is not Role.OUTPUT and {one.name for one in graph.readers[name]} <= inside
        for name in inner
    )


@st.composite
def _tilings(draw: st.DrawFn, graph: Graph, last: str) -> Tiling:
    rows, columns = (graph.tensor[graph.operator[last].outputs[0]].shape or ())[2:] or (1, 1)
    mode = draw(st.sampled_from(OverlapMode))
    return Tiling(draw(st.integers(1, columns)), draw(st.integers(1, rows)), mode)
