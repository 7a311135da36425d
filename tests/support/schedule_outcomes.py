"""Outcomes of schedules for display: of small networks, scheduled normally, and a long one without search."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from onchip.answer.document import Claim, Document, Reading, Source
from onchip.answer.options.verb_options import Placements, ScheduleOptions
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.answer.result import SearchResult, Status
from onchip.answer.schedule import Schedule, ScheduledStack
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.api.schedule import ScheduleRequest, schedule_network
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM
from onchip.bounds.network.relaxation import Relaxation
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.program.compute_cost import ComputeCost
from onchip.model.program.figures import schedule_figures
from onchip.reports.explain.schedule_history import ScheduleHistory
from onchip.reports.schedule.outcome import ScheduleOutcome, ScheduleSeconds
from onchip.transform.groups.tile_graph import TileGraph, TileOperator
from support.fused_files import CHIP
from support.small_schedules import chip, outcome, three

_ROWS = 4


@cache
def three_in_tiles() -> ScheduleOutcome:
    """Return three operators as one stack in cached tiles; weights are loaded, maps moved and streamed."""
    return outcome(in_tiles=True)


@cache
def three_streamed() -> ScheduleOutcome:
    """Return three operators one after the other, with everything streamed from and to DRAM."""
    return schedule_network(
        ScheduleRequest(
            three(),
            chip(),
            options=ScheduleOptions("layers", placements=Placements.DRAM, uses_cache=False),
            reading=Reading(bits=8),
        )
    )


def history_of(outcome: ScheduleOutcome) -> ScheduleHistory:
    """Return the history of events of the schedule."""
    assert outcome.document is not None
    assert outcome.tiles is not None
    return ScheduleHistory(outcome.document.answer, outcome.tiles, outcome.accelerator, outcome.compute_costs)


def long_outcome(folder: Path, count: int) -> ScheduleOutcome:
    """Return one operator in `count` tiles without a nest; each band is loaded, computed and written back alone."""
    accelerator = load_accelerator(_file(folder, "chip.yaml", CHIP))
    graph, instructions = _long_graph(count), list[Instruction]()
    costs = {f"row#{at}": ComputeCost(2000, 7, 0, 0, {"buffer": 16}, 1.0) for at in range(count)}
    for at in range(count):
        instructions += _one_tile(at)
    program = Plan(tuple(level.memory for level in accelerator.addressed), tuple(instructions))
    figures = schedule_figures(graph, accelerator, program, costs)
    schedule = Schedule((ScheduledStack(("row",), Tiling(1, 1, OverlapMode.RECOMPUTE)),), (), program)
    claim = Claim("by hand", Status.FEASIBLE, "energy", figures.energy_fj, 0)
    return ScheduleOutcome(
        "long",
        _whole_graph(count),
        accelerator,
        "energy",
        "fJ",
        SearchResult(Status.FEASIBLE, schedule, figures.energy_fj, 0, 0.0, "by hand"),
        _no_relaxation(),
        {},
        ScheduleSeconds(0.0, 0.0, 0.0),
        TileGraph(graph, {name: TileOperator(0, "row", ()) for name in costs}, ()),
        figures,
        _document(accelerator, schedule, claim),
        costs,
    )


def _file(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def _document(accelerator: Accelerator, schedule: Schedule, claim: Claim) -> Document[Schedule, Accelerator]:
    return Document(Source("long"), accelerator, Reading(), schedule, claim)


def _no_relaxation() -> Relaxation:
    return Relaxation(0.0, {}, 0.0, 0.0, 0.0, 0, 0, 0, 0, 0)


def _whole_graph(count: int) -> Graph:
    shape = (1, 1, count, _ROWS)
    tensors = (Tensor.of_shape("x", shape, 8, Role.INPUT), Tensor.of_shape("y", shape, 8, Role.OUTPUT))
    return Graph("long", tensors, (Operator("row", "Softmax", ("x",), ("y",)),))


def _long_graph(count: int) -> Graph:
    shape = (1, 1, 1, _ROWS)
    tensors: list[Tensor] = []
    for at in range(count):
        region = ((0, 1), (0, 1), (at, at + 1), (0, _ROWS))
        tensors += [
            Tensor(f"{name}[{at}]", _ROWS, role, shape, 8, part_of=name, region=region)
            for name, role in (("x", Role.INPUT), ("y", Role.OUTPUT))
        ]
    operators = (Operator(f"row#{at}", "Softmax", (f"x[{at}]",), (f"y[{at}]",)) for at in range(count))
    return Graph("long", tuple(tensors), tuple(operators))


def _one_tile(at: int) -> list[Instruction]:
    source, written, workspace = f"x[{at}]", f"y[{at}]", f"row#{at}@workspace"
    offset_bytes = at % 50 * _ROWS
    return [
        Allocate(source, "buffer", offset_bytes),
        Copy(source, DRAM, "buffer"),
        Allocate(written, "buffer", 256 + offset_bytes),
        Allocate(workspace, "buffer", 480),
        Compute(f"row#{at}"),
        Free(workspace, "buffer"),
        Free(source, "buffer"),
        Copy(written, "buffer", DRAM),
        Free(written, "buffer"),
    ]
