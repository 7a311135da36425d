"""Workspaces of operators in a schedule: they take room like tiles and rows, and change nothing else."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import LAYERS, ScheduleOptions
from onchip.answer.program import Allocate
from onchip.answer.result import Status
from onchip.answer.schedule import Schedule
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.energies import stated
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Port
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.program.compute_cost import nest_cost
from onchip.ops.fusable_reading import partly_fusable_of
from onchip.ops.layers_of import Precision
from onchip.scheduling.program.composition import ScheduleQuestion
from onchip.scheduling.search.solve import solve_schedule
from onchip.search.budget.limits import Run
from onchip.transform.groups.tiled import tile_graph
from onchip.verify.rules import Rule
from onchip.verify.schedule.machine import ScheduleSetting, ScheduleVerdict
from onchip.verify.schedule.verifier import verify_schedule
from oracles.schedule import LeastSchedule
from oracles.schedule_costs import Toy
from oracles.schedule_programs import recounted, schedule_of

PRECISION = Precision(8, 8)


def machine(*sizes: int) -> Accelerator:
    levels = tuple(
        MemoryLevel(
            Memory(name, size), is_scratchpad=True, access=Access(8, 1, 2), ports=(Port(Direction.READ_WRITE, 8),)
        )
        for name, size in zip(("near", "far"), sizes, strict=False)
    )
    dram = Dram(Access(8, 10, 20), (Port(Direction.READ_WRITE, 8),))
    scratchpads = tuple(level.memory for level in levels)
    return Accelerator("tiny", scratchpads, levels, None, ComputeArray({"lane": 1}, None, 0.0), dram)


def chain(*operators: tuple[str, int], elements: int = 4) -> Graph:
    """Return maps x, m0, m1 ... with `elements` elements each; each operator is a kind and its workspace in bytes."""
    names = ["x", *(f"m{at}" for at in range(len(operators)))]
    roles = [Role.INPUT, *[Role.ACTIVATION] * (len(operators) - 1), Role.OUTPUT]
    tensors = [Tensor.of_shape(name, (1, 1, 1, elements), 8, role) for name, role in zip(names, roles, strict=True)]
    made = (
        Operator(f"op{at}", kind, (names[at],), (names[at + 1],), workspace_bytes=size)
        for at, (kind, size) in enumerate(operators)
    )
    return Graph("chain", tuple(tensors), tuple(made))


def found_for(graph: Graph, accelerator: Accelerator, objective: ScheduleObjective) -> Schedule | None:
    question = ScheduleQuestion(graph, accelerator, PRECISION, objective, uses_cache=False)
    found = solve_schedule(question, ScheduleOptions(LAYERS), Run())
    assert (found.answer is None) is (found.status is Status.UNKNOWN)
    return None if found.answer is None else found.answer.composition.schedule


def verdict_of(graph: Graph, accelerator: Accelerator, schedule: Schedule) -> ScheduleVerdict:
    tiles = tile_graph(graph, schedule.stacks, PRECISION).graph
    return verify_schedule(ScheduleSetting(graph, accelerator, tiles, 8), schedule, None, nest_cost)


@pytest.mark.parametrize("kind", ["Relu", "Softmax"])
def test_it_takes_room_in_the_memory_farthest_from_the_units_while_the_operator_runs(kind: str) -> None:
    graph, accelerator = chain((kind, 5), (kind, 0)), machine(8, 20)
    schedule = found_for(graph, accelerator, ScheduleObjective.TRAFFIC)
    assert schedule is not None
    verdict = verdict_of(graph, accelerator, schedule)
    assert verdict.violations == ()
    allocated = [one for one in schedule.program.instructions if isinstance(one, Allocate)]
    assert ("op0@workspace", "far") in [(one.tensor, one.memory) for one in allocated]
    less = replace(graph, operators=tuple(replace(one, workspace_bytes=0) for one in graph.operators))
    peaks = [
        verdict.figures.peak_bytes
        for verdict in (verdict_of(one, accelerator, schedule) for one in (graph, less))
        if verdict.figures is not None
    ]
    assert peaks[0] == peaks[1] + 5


@pytest.mark.parametrize("kind", ["Relu", "Softmax"])
def test_a_program_that_leaves_no_room_for_it_is_not_legal(kind: str) -> None:
    graph, accelerator = chain((kind, 0), (kind, 0)), machine(8, 20)
    schedule = found_for(graph, accelerator, ScheduleObjective.TRAFFIC)
    assert schedule is not None
    needing = replace(graph, operators=tuple(replace(one, workspace_bytes=21) for one in graph.operators))
    assert {one.rule for one in verdict_of(needing, accelerator, schedule).violations} == {Rule.BEYOND_CAPACITY}


@pytest.mark.parametrize("kind", ["Relu", "Softmax"])
def test_a_program_without_it_is_not_legal(kind: str) -> None:
    graph, accelerator = chain((kind, 5)), machine(8, 20)
    schedule = found_for(graph, accelerator, ScheduleObjective.TRAFFIC)
    assert schedule is not None
    left = tuple(one for one in schedule.program.instructions if getattr(one, "tensor", "") != "op0@workspace")
    lacking = replace(schedule, program=replace(schedule.program, instructions=left))
    assert Rule.WORKSPACE_MISSING in {one.rule for one in verdict_of(graph, accelerator, lacking).violations}


@pytest.mark.parametrize("kind", ["Relu", "Softmax"])
def test_where_it_has_no_room_there_is_no_schedule(kind: str) -> None:
    assert found_for(chain((kind, 21)), machine(8, 20), ScheduleObjective.TRAFFIC) is None
    assert found_for(chain((kind, 12)), machine(8, 20), ScheduleObjective.TRAFFIC) is not None


def test_rows_pass_through_what_it_leaves() -> None:
    graph, accelerator = chain(("Softmax", 18)), machine(1, 20)
    schedule = found_for(graph, accelerator, ScheduleObjective.TRAFFIC)
    assert schedule is not None
    verdict = verdict_of(graph, accelerator, schedule)
    assert verdict.violations == ()
    assert verdict.figures is not None
    assert verdict.figures.peak_bytes == 20


@pytest.mark.parametrize("objective", ["energy", "traffic"])
@pytest.mark.parametrize("seed", range(8))
def test_the_oracle_finds_nothing_better_that_is_legal(objective: str, seed: int) -> None:
    random = Random(seed)
    operators = [(random.choice(("Relu", "Softmax")), random.choice((0, 1, 3, 5))) for _ in range(2)]
    graph = chain(*operators, elements=random.choice((2, 3)))
    accelerator = machine(*sorted((random.choice((5, 7, 9)), random.choice((7, 11)))))
    toy = Toy(graph, accelerator, PRECISION)
    least = LeastSchedule(toy, objective).least()
    schedule = schedule_of(toy, least)
    verdict = verdict_of(graph, accelerator, schedule)
    assert verdict.violations == ()
    assert verdict.figures is not None
    counted = recounted(toy, schedule)
    assert (counted.energy_fj, counted.traffic_bytes) == (verdict.figures.energy_fj, verdict.figures.traffic_bytes)
    own = found_for(graph, accelerator, ScheduleObjective(objective))
    assert own is not None
    checked = verdict_of(graph, accelerator, own)
    assert checked.violations == ()
    assert checked.figures is not None
    reached = {"energy": stated(checked.figures.energy_fj), "traffic": checked.figures.traffic_bytes}[objective]
    assert reached >= least.cost


def test_no_tiles_are_made_of_an_operator_that_has_one() -> None:
    graph = chain(("Relu", 0), ("Relu", 5), ("Relu", 0))
    network = partly_fusable_of(graph).network
    assert [layer.runs_alone for layer in network.layers] == [False, True, False]


def test_the_operator_that_has_no_room_for_itself_is_named_with_what_it_needs() -> None:
    question = ScheduleQuestion(
        chain(("Relu", 0), ("Relu", 30)), machine(8, 20), PRECISION, ScheduleObjective.ENERGY, uses_cache=False
    )
    found = solve_schedule(question, ScheduleOptions(LAYERS), Run())
    assert found.status is Status.UNKNOWN
    assert found.why_not == "operator 'op1': it needs 30 bytes for itself in 'far', where 20 are free"
