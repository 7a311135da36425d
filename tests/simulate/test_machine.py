"""The simulated machine finds planted faults."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.bindings import Bindings
from onchip.answer.problem import Count, Order, Placement, Problem
from onchip.answer.program import (
    Allocate,
    Began,
    Compute,
    Copy,
    Free,
    Instruction,
    Plan,
    TransferKind,
    residencies_of,
    transfers_of,
)
from onchip.answer.schedule import WORKSPACE
from onchip.api.check_schedule import check_schedule_document, priced_schedule
from onchip.api.networks import read_network
from onchip.api.plan import plan_problem
from onchip.api.run import RunValues, execution_of, kernels_of_schedule, network_inputs
from onchip.arch.memory import DRAM, Memory
from onchip.errors import OnchipError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role
from onchip.model.capacity.bounds import greatest_need
from onchip.simulate.kernel_protocol import Bytes, SeededKernels
from onchip.simulate.kernels.onnx_kernels import OnnxKernels
from onchip.simulate.machine import (
    MachineError,
    MachineRun,
    ScheduledProgram,
    WrongBytes,
    run_in_given_order,
    run_plan_on_machine,
    run_schedule_on_machine,
)
from onchip.transform.groups.tile_graph import with_all_parameters
from onchip.verify.rules import Rule
from onchip.verify.verifier import verify
from support.onnx_networks import LIGHT_MODELS
from support.plan_states import Refusal
from support.plan_tables import LEGAL
from support.programs import (
    CHAIN,
    CHAIN_WITH_PARAMETER,
    HELD,
    MOVED,
    SPILLED,
    TWO_OUTPUTS,
    TWO_SCRATCHPADS,
    Case,
    graph,
    linked,
    sram,
)
from support.refusal_table import REFUSALS
from support.runs import inputs_of, run_seeded
from support.several import corrupted_plans, scattered_plans
from support.small_schedules import document, three
from support.strategies import graphs

# Plans and schedules executed on byte arrays


@pytest.mark.parametrize("name", LEGAL)
def test_a_legal_plan_runs_and_moves_what_the_verifier_says(name: str) -> None:
    case = LEGAL[name]
    run = run_seeded(case.problem, case.plan)
    figures = verify(case.problem, case.plan).figures
    assert run.difference is None
    assert (run.loads, run.write_backs, run.moved) == (figures.loads, figures.write_backs, figures.moved)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(graphs(), st.sampled_from(Count), st.integers(0, 3), st.sampled_from((1, 4)))
def test_whatever_is_planned_runs(graph: Graph, count: Count, extra: int, alignment: int) -> None:
    roomy = Problem(graph, (Memory("sram", 10**6, alignment),), count=count)
    capacity = greatest_need(roomy).need_bytes + extra
    problem = Problem(graph, (Memory("sram", capacity, alignment),), order=Order.GIVEN, count=count)
    result = plan_problem(problem)
    if result.answer is None:  # a capacity equal to the largest working set does not always pack
        return
    run = run_seeded(problem, result.answer)
    figures = verify(problem, result.answer).figures
    assert run.difference is None
    assert (run.loads, run.write_backs, run.moved) == (figures.loads, figures.write_backs, figures.moved)


def test_every_tensor_is_compared_and_the_outputs_are_handed_out() -> None:
    run = run_seeded(SPILLED.problem, SPILLED.plan)
    assert run.compared == 4
    assert {name: len(content) for name, content in run.outputs.items()} == {"y": 4}


IMPOSSIBLE = {
    *(Rule.UNKNOWN_TENSOR, Rule.UNKNOWN_OPERATOR, Rule.UNKNOWN_MEMORY, Rule.UNCOUNTED_PARAMETER, Rule.DRAM_ALLOCATED),
    *(Rule.NEGATIVE_OFFSET, Rule.MISALIGNED, Rule.BEYOND_CAPACITY, Rule.ALLOCATED_TWICE, Rule.FREED_NOT_RESIDENT),
    *(Rule.NO_STATE, Rule.OUTPUT_NEVER_WRITTEN, Rule.COPY_TO_ITSELF, Rule.TARGET_NOT_ALLOCATED, Rule.NOT_IN_DRAM),
    *(Rule.SOURCE_NOT_RESIDENT, Rule.NO_LINK, Rule.OPERAND_NOT_RESIDENT, Rule.OPERAND_NOT_HELD, Rule.OUTPUT_NOT_HELD),
    *(Rule.OUTPUT_IN_SEVERAL, Rule.OUTPUT_NOT_RESIDENT),
}
"""Rules that no machine can break."""


@pytest.mark.parametrize("refusal", [one for one in REFUSALS if one.rule in IMPOSSIBLE], ids=str)
def test_the_machine_refuses_what_cannot_be(refusal: Refusal) -> None:
    with pytest.raises(MachineError, match=r"step|network output"):
        run_seeded(refusal.illegal.problem, refusal.illegal.plan)


def test_an_impossible_instruction_is_named_by_step_and_index() -> None:
    case = SPILLED.edited(9, "allocate a sram 9")
    with pytest.raises(MachineError, match="step 2, instruction 9: "):
        run_seeded(case.problem, case.plan)


DIFFERENT = {
    "reads what was never loaded": (CHAIN.edited(1), "x", WrongBytes.READ),
    "reads what was freed and allocated again": (
        CHAIN.edited(3, "free x sram", "allocate x sram 0", "compute f"),
        "x",
        WrongBytes.READ,
    ),
    "reads what another tensor was allocated over": (CHAIN.edited(2, "allocate a sram 3"), "x", WrongBytes.READ),
    "moves what was never loaded": (MOVED.without(1), "x", WrongBytes.READ),
    "reads what only waits": (
        HELD.edited(0, "allocate x inputs 0", "allocate x outputs 8").edited(2, "copy x dram outputs"),
        "x",
        WrongBytes.READ,
    ),
    "reads what was never moved to where it is read": (HELD.without(7), "a", WrongBytes.READ),
    "writes out what was never computed": (TWO_OUTPUTS.edited(3), "y", WrongBytes.AT_THE_END),
    "reloads at the place of a live tensor": (SPILLED.edited(9, "allocate a sram 4"), "b", WrongBytes.READ),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_the_machine_finds_bytes_that_are_not_the_tensors(what: str) -> None:
    case, tensor, found = DIFFERENT[what]
    assert verify(case.problem, case.plan).violations
    difference = run_seeded(case.problem, case.plan).difference
    assert difference is not None
    assert (difference.tensor, difference.found) == (tensor, found)


def test_a_copy_that_was_overwritten_is_found_although_another_scratchpad_has_a_good_one() -> None:
    moved = linked(TWO_SCRATCHPADS, ("right", "left"))
    case = moved.edited(4, "allocate a left 4", "copy a right left", "allocate y left 4")  # y overlaps a
    difference = run_seeded(case.problem, case.plan).difference
    assert difference is not None
    assert (difference.tensor, difference.found, difference.operator) == ("a", WrongBytes.READ, "g")


def test_outputs_on_top_of_each_other_are_found() -> None:
    case = Case(
        Problem(graph("x:input:4 y:output:4 z:output:4", f="x -> y z"), sram(12)),
        """
        allocate x sram 0
        copy x dram sram
        allocate y sram 4
        allocate z sram 7
        compute f
        copy y sram dram
        copy z sram dram
        """,
    )
    difference = run_seeded(case.problem, case.plan).difference
    assert difference is not None
    assert (difference.tensor, difference.found) == ("y", WrongBytes.WRITTEN)


def test_after_a_difference_the_machine_stops() -> None:
    case = CHAIN.edited(1)
    run = run_seeded(case.problem, case.plan)
    assert str(run.difference) == "step 0, instruction 2: 'x', read by an operator 'f', differs from the unplanned run"
    assert (run.loads, run.write_backs, run.outputs) == (0, 0, {})


def test_what_waits_where_it_is_not_read_may_be_anything() -> None:
    """x waits without data among the outputs while f reads it among the inputs."""
    case = HELD.edited(0, "allocate x inputs 0", "allocate x outputs 8")
    assert run_seeded(case.problem, case.plan).difference is None


def test_parameters_are_bytes_like_others_where_they_count() -> None:
    never_loaded = CHAIN_WITH_PARAMETER.edited(3)
    difference = run_seeded(never_loaded.problem, never_loaded.plan).difference
    assert difference is not None
    assert difference.tensor == "w"


def test_kernels_that_write_too_much_are_refused() -> None:
    class TooMuch(SeededKernels):
        def run(self, operator: Operator, operands: Mapping[str, Bytes]) -> Mapping[str, Bytes]:
            return {name: np.append(content, np.uint8(0)) for name, content in super().run(operator, operands).items()}

    kernels = SeededKernels(CHAIN.problem.graph)
    inputs = inputs_of(CHAIN.problem.graph, kernels)
    reference = run_in_given_order(CHAIN.problem, kernels, inputs)
    with pytest.raises(OnchipError, match="'f' wrote 4 bytes of 'a'"):
        run_plan_on_machine(CHAIN.problem, CHAIN.plan, TooMuch(CHAIN.problem.graph), inputs, reference)


NO_MATTER_OF_BYTES = {
    Rule.OVERLAP,  # overlap of a tensor that is not read any more
    Rule.SOURCE_UNDEFINED,  # the copy is not read
    Rule.OUTPUT_WRITTEN_AGAIN,
    Rule.OPERATOR_RUN_TWICE,
    Rule.OPERATOR_NEVER_RUN,  # its output is not read
}
"""Rules that a machine may break without a wrong byte."""


@settings(max_examples=60, deadline=None)
@given(scattered_plans())
def test_a_good_plan_over_several_scratchpads_is_legal_and_moves_what_the_verifier_says(
    case: tuple[Problem, Plan],
) -> None:
    problem, plan = case
    verdict = verify(problem, plan)
    assert verdict.violations == ()
    run = run_seeded(problem, plan)
    assert run.difference is None
    figures = verdict.figures
    assert (run.loads, run.write_backs, run.moved) == (figures.loads, figures.write_backs, figures.moved)
    size = {tensor.name: tensor.size_bytes for tensor in problem.graph.tensors}
    copies = [each for each in plan.instructions if isinstance(each, Copy)]
    assert figures.moved == sum(size[copy.tensor] for copy in copies if DRAM not in (copy.source, copy.target))
    assert figures.transfer_cost == sum(size[copy.tensor] for copy in copies)


@pytest.mark.slow
@settings(max_examples=160, deadline=None)
@given(corrupted_plans())
def test_what_the_verifier_passes_the_machine_carries_out_and_what_it_refuses_the_machine_feels(
    case: tuple[Problem, Plan],
) -> None:
    problem, plan = case
    verdict = verify(problem, plan)
    rules = {violation.rule for violation in verdict.violations}
    try:
        run = run_seeded(problem, plan)
    except MachineError:
        assert rules
        return
    if run.difference is not None:
        assert rules
        return
    assert rules <= NO_MATTER_OF_BYTES or Rule.OVERLAP in rules  # bytes of one tensor may equal another's by chance
    if not rules:
        figures = verdict.figures
        assert (run.loads, run.write_backs, run.moved) == (figures.loads, figures.write_backs, figures.moved)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(scattered_plans())
def test_placement_is_static_where_every_tensor_stays_or_comes_for_one_operator(case: tuple[Problem, Plan]) -> None:
    problem, plan = case
    stays: dict[str, list[int]] = defaultdict(list)
    for residency in residencies_of(plan, problem.graph):
        stays[residency.tensor].append(residency.stop_step - residency.start_step)
    moving = {tensor for tensor, steps in stays.items() if len(steps) > 1 and any(operators > 1 for operators in steps)}
    violations = verify(replace(problem, placement=Placement.STATIC), plan).violations
    assert {violation.rule for violation in violations} <= {Rule.PLACEMENT_NOT_STATIC}
    assert sorted(violation.subject for violation in violations) == sorted(moving)


@settings(max_examples=40, deadline=None)
@given(scattered_plans())
def test_moves_are_the_transfers_that_dram_has_no_part_in(case: tuple[Problem, Plan]) -> None:
    problem, plan = case
    for transfer in transfers_of(plan, problem.graph):
        assert (transfer.kind is TransferKind.MOVE) is (DRAM not in (transfer.source, transfer.target))


def test_a_residency_that_begins_with_a_move_says_so() -> None:
    began = {(one.tensor, one.memory): one.began for one in residencies_of(MOVED.plan, MOVED.problem.graph)}
    assert began["x", "left"] is Began.LOADED
    assert began["x", "right"] is Began.MOVED
    began = {(one.tensor, one.memory): one.began for one in residencies_of(HELD.plan, HELD.problem.graph)}
    assert began["a", "outputs"] is Began.COMPUTED
    assert began["a", "inputs"] is Began.MOVED
    assert [str(transfer.kind) for transfer in transfers_of(HELD.plan, HELD.problem.graph)] == [
        "load",
        "load",
        "move",
        "write",
    ]


ENOUGH = 4
BOTH = pytest.mark.parametrize("in_tiles", [False, True])


def on_machine(in_tiles: bool, change: Callable[[list[Instruction]], list[Instruction]]) -> MachineRun:
    """Run the program after `change`, which the verifier has not seen."""
    own = document(in_tiles=in_tiles)
    check = check_schedule_document(own, three())
    assert check.tiles is not None
    costs = priced_schedule(own, check.tiles).costs
    executed = with_all_parameters(check.tiles, check.network)
    program = own.answer.program
    changed = Plan(program.memories, tuple(change(list(program.instructions))))
    workspaces = {name: cost.workspace_bytes for name, cost in costs.items()}
    scheduled = ScheduledProgram(changed, check.tiles.graph, executed, workspaces)
    kernels = kernels_of_schedule(three(), own.reading, executed, check.network, RunValues())
    inputs = network_inputs(executed, kernels, {})
    reference = run_in_given_order(Problem(executed, program.memories, count=Count.ALL), kernels, inputs)
    return run_schedule_on_machine(scheduled, kernels, inputs, reference)


@BOTH
def test_a_legal_schedule_gives_the_networks_values_and_moves_what_is_planned(in_tiles: bool) -> None:
    found = execution_of(check_schedule_document(document(in_tiles=in_tiles), three()), three(), RunValues(7))
    assert found.is_right
    assert found.run is not None
    assert found.planned is not None
    assert found.relative_difference == 0
    assert (found.run.loads, found.run.write_backs) == (found.planned.loads, found.planned.write_backs)
    assert found.check.verdict.figures is not None
    assert found.planned.total == found.check.verdict.figures.traffic_bytes


@BOTH
def test_every_tensor_of_the_tile_graph_that_an_operator_touches_is_compared(in_tiles: bool) -> None:
    check = check_schedule_document(document(in_tiles=in_tiles), three())
    assert check.tiles is not None
    graph = check.tiles.graph
    touched = {name for operator in graph.operators for name in (*operator.reads, *operator.outputs)}
    assert on_machine(in_tiles, lambda program: program).compared == len(touched)


@BOTH
def test_bytes_of_others_in_a_workspace_are_found_out(in_tiles: bool) -> None:
    program = document(in_tiles=in_tiles).answer.program.instructions
    found: list[MachineRun] = []
    for scratch, beside in _beside_workspaces(list(program)):
        if len(found) == ENOUGH:
            break
        moved = replace(scratch, offset_bytes=beside.offset_bytes)
        with suppress(MachineError):  # the tensor does not fit there
            found.append(on_machine(in_tiles, partial(_replaced, scratch, moved)))
    assert found
    for run in found:
        assert run.difference is not None
        assert run.difference.found in (WrongBytes.READ, WrongBytes.WRITTEN)


def _replaced(old: Instruction, new: Instruction, program: list[Instruction]) -> list[Instruction]:
    return [new if one == old else one for one in program]


def _beside_workspaces(program: list[Instruction]) -> list[tuple[Allocate, Allocate]]:
    """Return each workspace with each operand of its operator that is resident in the same memory at that time.

    Operands that have a copy in another memory are left out: the operator may read the copy.
    """
    allocated = [one for one in program if isinstance(one, Allocate)]
    graph = check_schedule_document(document(in_tiles=any("#" in one.tensor for one in allocated)), three()).tiles
    assert graph is not None
    found = []
    for scratch in (one for one in allocated if one.tensor.endswith(WORKSPACE)):
        operator = graph.graph.operator[scratch.tensor.removesuffix(WORKSPACE)]
        start = program.index(scratch)
        resident = [one for one in allocated if program.index(one) < start < _end(program, one)]
        times = Counter(one.tensor for one in resident)
        for one in resident:
            is_operand = one.tensor in (*operator.reads, *operator.outputs) and one.memory == scratch.memory
            if is_operand and times[one.tensor] == 1:
                found.append((scratch, one))
    return found


def _end(program: list[Instruction], allocated: Allocate) -> int:
    ends = (at for at, one in enumerate(program) if one == Free(allocated.tensor, allocated.memory))
    return next((at for at in ends if at > program.index(allocated)), len(program))


def test_an_operator_without_its_workspace_does_not_run() -> None:
    def without(program: list[Instruction]) -> list[Instruction]:
        first = next(one.tensor for one in program if isinstance(one, Allocate) and one.tensor.endswith(WORKSPACE))
        return [one for one in program if not isinstance(one, Allocate | Free) or one.tensor != first]

    with pytest.raises(MachineError, match="has no workspace in"):
        on_machine(False, without)


def test_a_workspace_that_no_mapping_needs_has_no_size() -> None:
    with pytest.raises(MachineError, match="no mapping needs 'add@workspace' in 'register'"):
        on_machine(False, lambda program: [Allocate("add@workspace", "register", 0), *program])


def test_what_is_not_in_dram_cannot_stream() -> None:
    """The last operator reads the second one's output, made on the chip: after its free no copy exists."""

    def freed(program: list[Instruction]) -> list[Instruction]:
        at = next(index for index, one in enumerate(program) if one == Compute("add"))
        resident = [one for one in program[:at] if isinstance(one, Allocate) and one.tensor == "m1"]
        frees: list[Instruction] = [Free(one.tensor, one.memory) for one in resident]
        return [*program[:at], *frees, *(one for one in program[at:] if one not in frees)]

    with pytest.raises(MachineError, match="DRAM has no 'm1'"):
        on_machine(False, freed)


def test_a_load_that_is_left_out_is_found_in_what_is_read() -> None:
    """An allocated but unfilled tensor is no home: the operator streams it, and the values are right."""

    def without_loads(program: list[Instruction]) -> list[Instruction]:
        return [one for one in program if not isinstance(one, Copy) or one.source != "dram"]

    run = on_machine(False, without_loads)
    assert run.loads == 0
    assert run.difference is None


# Ten faults planted in the plan of a real network: the verifier and the machine each find every one


(SHUFFLENET,) = (path for path in LIGHT_MODELS if "shufflenet" in path.name)


@dataclass(frozen=True)
class Bench:
    """A problem, a good plan of it, and the machine to run plans on."""

    problem: Problem
    plan: Plan
    run: Callable[[Plan], MachineRun]

    def size(self, tensor: str) -> int:
        return self.problem.graph.tensor[tensor].size_bytes

    def reads(self, instruction: Instruction) -> tuple[str, ...]:
        return self.problem.graph.operator[instruction.operator].inputs if isinstance(instruction, Compute) else ()

    def held(self, index: int) -> dict[str, Allocate]:
        """Return the residents before an instruction, by tensor."""
        held: dict[str, Allocate] = {}
        for instruction in self.plan.instructions[:index]:
            if isinstance(instruction, Allocate):
                held[instruction.tensor] = instruction
            elif isinstance(instruction, Free):
                del held[instruction.tensor]
        return held

    def next_use(self, tensor: str, index: int) -> int | None:
        """Return the first instruction from `index` on that reads the tensor, or None if it is freed before."""
        for at, instruction in enumerate(self.plan.instructions[index:], index):
            if instruction == Free(tensor, "sram"):
                return None
            if tensor in self.reads(instruction) or instruction == Copy(tensor, "sram", DRAM):
                return at
        return None

    def with_(self, *changes: tuple[int, Instruction | None]) -> Plan:
        """Return the plan with instructions replaced; None drops one."""
        changed = dict(changes)
        kept = (changed.get(index, old) for index, old in enumerate(self.plan.instructions))
        return replace(self.plan, instructions=tuple(each for each in kept if each is not None))

    def moved(self, source: int, target: int) -> Plan:
        """Return the plan with an instruction moved before another."""
        rest = list(self.plan.instructions)
        instruction = rest.pop(source)
        rest.insert(target - (source < target), instruction)
        return replace(self.plan, instructions=tuple(rest))


@pytest.fixture(scope="module")
def bench() -> Bench:
    graph = read_network(str(SHUFFLENET))
    roomy = Problem(graph, (Memory("sram", 2**40),))
    problem = Problem(graph, (Memory("sram", greatest_need(roomy).need_bytes),), order=Order.GIVEN)
    plan = plan_problem(problem).answer
    assert plan is not None
    kernels = OnnxKernels(graph, SHUFFLENET, Bindings(), random_weights=1)
    inputs = {tensor.name: kernels.network_input(tensor) for tensor in graph.with_role(Role.INPUT)}
    reference = run_in_given_order(problem, kernels, inputs)
    return Bench(problem, plan, lambda plan: run_plan_on_machine(problem, plan, kernels, inputs, reference))


def allocations(bench: Bench) -> Iterator[tuple[int, Allocate, Allocate]]:
    """Yield each allocation with each resident that is read later: the faulty allocation may overlap it."""
    for index, instruction in enumerate(bench.plan.instructions):
        if isinstance(instruction, Allocate):
            for other in bench.held(index).values():
                if bench.next_use(other.tensor, index) is not None:
                    yield index, instruction, other


def reloads(bench: Bench) -> Iterator[tuple[int, Copy]]:
    for index, instruction in enumerate(bench.plan.instructions):
        if not isinstance(instruction, Copy) or instruction.source != DRAM:
            continue
        if bench.problem.graph.tensor[instruction.tensor].role is Role.ACTIVATION:
            yield index, instruction


def an_offset_shifted(bench: Bench) -> Iterator[Plan]:
    for index, new, other in allocations(bench):
        if new.offset_bytes + bench.size(new.tensor) == other.offset_bytes:
            yield bench.with_((index, replace(new, offset_bytes=new.offset_bytes + 4)))


def an_overlap_of_one_byte(bench: Bench) -> Iterator[Plan]:
    for index, new, other in allocations(bench):
        if other.offset_bytes + bench.size(other.tensor) == new.offset_bytes:
            yield bench.with_((index, replace(new, offset_bytes=new.offset_bytes - 1)))


def a_spill_dropped(bench: Bench) -> Iterator[Plan]:
    reloaded = {copy.tensor for _, copy in reloads(bench)}
    for index, instruction in enumerate(bench.plan.instructions):
        if isinstance(instruction, Copy) and instruction.target == DRAM and instruction.tensor in reloaded:
            yield bench.with_((index, None))


def a_reload_dropped(bench: Bench) -> Iterator[Plan]:
    for index, _ in reloads(bench):
        yield bench.with_((index, None))


def two_instructions_swapped(bench: Bench) -> Iterator[Plan]:
    computes = [index for index, each in enumerate(bench.plan.instructions) if isinstance(each, Compute)]
    for first, second in pairwise(computes):
        before, after = bench.plan.instructions[first], bench.plan.instructions[second]
        assert isinstance(before, Compute)
        if set(bench.problem.graph.operator[before.operator].outputs) & set(bench.reads(after)):
            yield bench.with_((first, after), (second, before))


def a_residency_shortened(bench: Bench) -> Iterator[Plan]:
    """Free a tensor just before its last reader instead of after it."""
    for index, instruction in enumerate(bench.plan.instructions):
        if isinstance(instruction, Free):
            readers = [at for at in range(index) if instruction.tensor in bench.reads(bench.plan.instructions[at])]
            if readers:
                yield bench.moved(index, readers[-1])


def freed_before_it_is_written_out(bench: Bench) -> Iterator[Plan]:
    for index, instruction in enumerate(bench.plan.instructions):
        if isinstance(instruction, Copy) and instruction.target == DRAM:
            plan = bench.plan.instructions
            free = Free(instruction.tensor, "sram")
            if free in plan[index:]:
                yield bench.moved(plan.index(free, index), index)


def a_wrong_but_live_tensor_read(bench: Bench) -> Iterator[Plan]:
    """Allocate a tensor over another that is read later: its reader finds the wrong values."""
    for index, new, other in allocations(bench):
        if new.offset_bytes != other.offset_bytes and bench.size(new.tensor) == bench.size(other.tensor):
            yield bench.with_((index, replace(new, offset_bytes=other.offset_bytes)))


def a_copy_to_the_wrong_tensor(bench: Bench) -> Iterator[Plan]:
    """Send a reload to another resident tensor, which DRAM does not have or which becomes correct by chance."""
    for index, copy in reloads(bench):
        for other in bench.held(index):
            if other != copy.tensor:
                yield bench.with_((index, replace(copy, tensor=other)))


def an_output_never_written(bench: Bench) -> Iterator[Plan]:
    for output in bench.problem.graph.with_role(Role.OUTPUT):
        yield bench.with_((bench.plan.instructions.index(Copy(output.name, "sram", DRAM)), None))


FAULTS = (
    an_offset_shifted,
    an_overlap_of_one_byte,
    a_spill_dropped,
    a_reload_dropped,
    two_instructions_swapped,
    a_residency_shortened,
    freed_before_it_is_written_out,
    a_wrong_but_live_tensor_read,
    a_copy_to_the_wrong_tensor,
    an_output_never_written,
)
SITES = 5
"""Number of places at which each fault is planted, if that many exist, spread over the plan."""


@pytest.mark.slow
def test_the_plan_without_a_fault_passes_both(bench: Bench) -> None:
    verdict = verify(bench.problem, bench.plan)
    run = bench.run(bench.plan)
    assert verdict.is_legal
    assert run.difference is None
    assert (run.loads, run.write_backs) == (verdict.figures.loads, verdict.figures.write_backs)
    assert verdict.figures.reloads > 0


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found_by_the_verifier_and_by_the_machine(
    bench: Bench, fault: Callable[[Bench], Iterator[Plan]]
) -> None:
    plans = list(fault(bench))
    assert plans
    for plan in plans[:: -(-len(plans) // SITES)]:
        assert verify(bench.problem, plan).violations
        assert is_found_by_the_machine(bench, plan)


def is_found_by_the_machine(bench: Bench, plan: Plan) -> bool:
    try:
        return bench.run(plan).difference is not None
    except MachineError:
        return True
