"""Operands kept on chip, workspaces, and objectives of schedules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem, operands_kept
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import LAYERS, ScheduleOptions
from onchip.answer.program import Allocate
from onchip.answer.result import Status
from onchip.answer.schedule import Homes, Schedule
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.energies import stated
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.layer.cost import layer_cost
from onchip.model.program.compute_cost import nest_cost
from onchip.ops.fusable_reading import partly_fusable_of
from onchip.ops.layers_of import Precision
from onchip.scheduling.program.composition import ScheduleQuestion
from onchip.scheduling.search.solve import solve_schedule
from onchip.search.budget.limits import Run
from onchip.transform.groups.tiled import tile_graph
from onchip.verify.mapping import verify_mapping
from onchip.verify.rules import Rule
from onchip.verify.schedule.machine import ScheduleSetting, ScheduleVerdict
from onchip.verify.schedule.verifier import verify_schedule
from oracles.mapspace import homed_toy, lean_toy, levels_with_room, narrow_toy, toy
from oracles.schedule import LeastSchedule
from oracles.schedule_costs import Toy
from oracles.schedule_programs import recounted, schedule_of
from support.nests import one_after_the_other
from support.series import in_one_test

# A memory keeps tiles of an operand only if it has room for one element


INPUT, WEIGHT, OUTPUT = Operand
SUM = Layer(k=4, c=2, input_bits=8, weight_bits=16, output_bits=8, partial_bits=24)
PRODUCT = replace(SUM, c=1)


def memory(
    capacity_bytes: int, holds: tuple[Operand, ...], *, double_buffered: bool = False, name: str = "memory"
) -> MemoryLevel:
    return MemoryLevel(Memory(name, capacity_bytes, holds=holds), double_buffered=double_buffered)


@pytest.mark.parametrize(
    ("level", "layer", "kept"),
    [
        (memory(1, (INPUT,)), SUM, {INPUT}),
        (memory(1, (INPUT,), double_buffered=True), SUM, set()),
        (memory(2, (INPUT,), double_buffered=True), SUM, {INPUT}),
        (memory(1, (WEIGHT,)), SUM, set()),
        (memory(2, (WEIGHT,)), SUM, {WEIGHT}),
        (memory(2, (WEIGHT,)), replace(SUM, has_weight=False), set()),
        (memory(2, (OUTPUT,)), SUM, set()),
        (memory(3, (OUTPUT,)), SUM, {OUTPUT}),
        (memory(1, (OUTPUT,)), PRODUCT, {OUTPUT}),
        (memory(3, (INPUT, WEIGHT, OUTPUT)), SUM, {OUTPUT}),
        (memory(4, (INPUT, WEIGHT, OUTPUT)), SUM, {OUTPUT, INPUT}),
        (memory(5, (INPUT, WEIGHT, OUTPUT)), SUM, {OUTPUT, INPUT}),
        (memory(6, (INPUT, WEIGHT, OUTPUT)), SUM, {OUTPUT, INPUT, WEIGHT}),
        (memory(2, (INPUT, WEIGHT, OUTPUT)), SUM, {INPUT}),
        (memory(2, (INPUT, WEIGHT)), SUM, {INPUT}),
        (memory(3, (INPUT, WEIGHT)), SUM, {INPUT, WEIGHT}),
    ],
)
def test_a_memory_keeps_that_of_which_an_element_fits_beside_those_served_first(
    level: MemoryLevel, layer: Layer, kept: set[Operand]
) -> None:
    assert [set(one) for one in operands_kept((level,), layer)] == [kept]


def test_only_the_nearest_memory_that_keeps_outputs_has_to_have_room_for_a_sum_in_the_making() -> None:
    below, wide, above = (memory(size, (OUTPUT,), name=f"of {size}") for size in (2, 3, 1))
    assert [list(kept) for kept in operands_kept((below, wide, above), SUM)] == [[], [OUTPUT], [OUTPUT]]


@pytest.mark.parametrize("make", [toy, lean_toy, homed_toy, narrow_toy])
def test_keepers_are_those_found_by_looking_at_every_choice(make: Callable[[int], LayerProblem]) -> None:
    for seed in range(60):
        problem = make(seed)
        found = levels_with_room(problem)
        for operand in problem.layer.operands:
            assert list(problem.keepers(operand)) == found[operand]


@pytest.mark.parametrize("make", [toy, lean_toy, narrow_toy])
def test_one_element_at_a_time_always_fits(make: Callable[[int], LayerProblem]) -> None:
    for seed in range(60):
        problem = replace(make(seed), homes=Homes(), room_bytes={})
        mapping = one_after_the_other(problem)
        assert verify_mapping(problem, mapping) == ()
        assert layer_cost(problem, mapping).energy_pj > 0


def test_a_tile_in_a_memory_that_mappers_leave_out_may_be_legal() -> None:
    """A finished output fits where a partial sum does not, if the whole sum is made in parallel."""
    problem = narrow_problem(partial_bits=16)
    mapping = LayerMapping((Loop("C", 2, "lane"),), output=(Kept("sums", 1),))
    assert [level.memory.name for level in problem.keepers(OUTPUT)] == ["both"]
    assert verify_mapping(problem, mapping) == ()
    assert layer_cost(problem, mapping).energy_pj > 0


def narrow_problem(partial_bits: int) -> LayerProblem:
    machine = lean_toy(0).accelerator
    level = MemoryLevel(Memory("sums", 1, holds=(OUTPUT,)), ("lane",), access=machine.levels[-1].access)
    levels = (level, machine.levels[-1])
    return LayerProblem(Layer(c=2, partial_bits=partial_bits), replace(machine, levels=levels))


@in_one_test("seed", range(40))
def test_without_memories_of_no_use_a_mapping_costs_the_same(seed: int) -> None:
    problem = narrow_toy(seed)
    less = problem.without_memories_of_no_use()
    mapping = one_after_the_other(problem)
    for operand in problem.layer.operands:
        kept, kept_there = ([level.memory.name for level in one.keepers(operand)] for one in (problem, less))
        assert kept == kept_there
    if verify_mapping(problem, mapping) == ():
        found, again = (layer_cost(one, mapping) for one in (problem, less))
        assert (found.energy_pj, found.cycles) == (again.energy_pj, again.cycles)


def test_some_memories_are_of_no_use_and_homes_never() -> None:
    gone = 0
    for seed in range(60):
        problem = narrow_toy(seed)
        less = problem.without_memories_of_no_use()
        gone += len(less.levels) < len(problem.levels)
        names = {level.memory.name for level in less.levels}
        assert {home for _, home in problem.homes} <= names
    assert gone >= 10


def test_a_machine_all_of_whose_memories_are_too_narrow_keeps_them() -> None:
    machine: Accelerator = lean_toy(0).accelerator
    wide = replace(lean_toy(0).layer, input_bits=4096, weight_bits=4096, output_bits=4096, partial_bits=4096)
    problem = LayerProblem(wide, machine)
    assert problem.without_memories_of_no_use() == problem
    assert all(problem.keepers(operand) == () for operand in Operand)


# Workspaces of operators in a schedule: they take room like tiles and rows, and change nothing else


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


# Ties in a schedule's objective are broken by energy, then latency, then traffic


@dataclass(frozen=True)
class Values:
    energy_fj: int
    latency_cycles: int
    traffic_bytes: int

    @property
    def edp(self) -> int:
        return self.energy_fj * self.latency_cycles


SMALL = st.integers(0, 3)
VALUES = st.builds(Values, SMALL, SMALL, SMALL)
BASE = Values(energy_fj=5, latency_cycles=5, traffic_bytes=5)


@given(VALUES, VALUES, st.sampled_from(ScheduleObjective))
def test_the_objective_decides_before_all_other_figures(
    one: Values, other: Values, objective: ScheduleObjective
) -> None:
    if objective.value_of(one) < objective.value_of(other):
        assert objective.key_of(one) < objective.key_of(other)


@given(VALUES, VALUES, st.sampled_from(ScheduleObjective))
def test_of_two_schedules_with_one_key_all_figures_are_the_same(
    one: Values, other: Values, objective: ScheduleObjective
) -> None:
    assert (objective.key_of(one) == objective.key_of(other)) == (one == other)


@given(VALUES, VALUES, st.sampled_from(ScheduleObjective))
def test_a_schedule_that_is_dominated_never_comes_first(
    one: Values, other: Values, objective: ScheduleObjective
) -> None:
    figures = ("energy_fj", "latency_cycles", "traffic_bytes")
    if all(getattr(one, name) <= getattr(other, name) for name in figures):
        assert objective.key_of(one) <= objective.key_of(other)


@pytest.mark.parametrize(
    ("objective", "better"),
    [
        ("latency", replace(BASE, energy_fj=4, traffic_bytes=9)),
        ("latency", replace(BASE, traffic_bytes=4)),
        ("traffic", replace(BASE, energy_fj=4, latency_cycles=9)),
        ("traffic", replace(BASE, latency_cycles=4)),
        ("energy", replace(BASE, latency_cycles=4, traffic_bytes=9)),
        ("energy", replace(BASE, traffic_bytes=4)),
        ("edp", replace(BASE, traffic_bytes=4)),
        ("edp", Values(energy_fj=1, latency_cycles=25, traffic_bytes=9)),
    ],
)
def test_ties_are_broken_by_energy_then_latency_then_traffic(objective: str, better: Values) -> None:
    kind = ScheduleObjective(objective)
    assert kind.value_of(better) == kind.value_of(BASE)
    assert min((BASE, better), key=kind.key_of) is better
