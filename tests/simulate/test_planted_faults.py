"""Ten faults planted in the plan of a real network: the verifier and the machine each find every one.

The network is ShuffleNet at M_R, with spills, on random weights: its own weights are constants, which would hide wrong
reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest

from onchip.answer.bindings import Bindings
from onchip.answer.problem import Order, Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.api.networks import read_network
from onchip.api.plan import plan_problem
from onchip.arch.memory import DRAM, Memory
from onchip.ir.tensor import Role
from onchip.model.capacity.bounds import greatest_need
from onchip.simulate.kernels.onnx_kernels import OnnxKernels
from onchip.simulate.machine import MachineError, MachineRun, run_in_given_order, run_plan_on_machine
from onchip.verify.verifier import verify
from support.onnx_networks import LIGHT_MODELS

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
