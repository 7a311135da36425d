"""A replay of a plan, instruction by instruction, on plain dicts."""

from __future__ import annotations

from onchip.answer.problem import Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction
from onchip.arch.memory import DRAM, Memory
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.verify.addresses import Addresses, LiveResidency
from onchip.verify.figures import ROLES_IN_DRAM, Meter, must_be_loaded
from onchip.verify.in_place import Overwritten
from onchip.verify.names import Names
from onchip.verify.on_chip import OnChip
from onchip.verify.order import GivenOrder
from onchip.verify.placement import Stays
from onchip.verify.reporting import Reporting
from onchip.verify.rules import Rule
from onchip.verify.states import StatesOnChip


class Replay:
    """The machine state between two instructions, and the violations found so far.

    After a violation the state becomes what the plan seems to intend, so that one mistake is not reported again at each
    later instruction that depends on it. This leniency hides no violation, because it starts with one.
    """

    def __init__(self, problem: Problem, *, forbids_spills: bool) -> None:
        self.report = Reporting()
        self.meter = Meter(problem)
        self._problem = problem
        self._graph = problem.graph
        self._forbids_spills = forbids_spills
        self._names = Names(problem, self.report)
        self._on_chip = OnChip(problem)
        self._addresses = {memory.name: Addresses() for memory in problem.memories}
        self._in_dram = {tensor.name for tensor in problem.counted_tensors if tensor.role in ROLES_IN_DRAM}
        self._written_outputs: set[str] = set()
        self._been_on_chip: set[str] = set()
        self._step_of: dict[str, int] = {}
        self._order = GivenOrder(problem, self.report)
        self._stays = Stays(problem)
        self.states = StatesOnChip(problem.graph, self.report)
        self._overwritten = Overwritten(problem.graph, self.states, self.report)

    def execute(self, index: int, instruction: Instruction) -> None:
        """Change the state as instruction number `index` does, and report the rules that it breaks."""
        self.report.instruction = index
        self.states.execute(instruction)
        match instruction:
            case Allocate():
                self._allocate(instruction)
            case Copy():
                self._copy(instruction)
            case Compute():
                self._compute(instruction)
            case Free():
                self._free(instruction)

    def finish(self) -> None:
        """Check the end of the program: all operators have run, outputs are in DRAM, and the placement is legal."""
        for operator in self._graph.operators:
            if operator.name not in self._step_of:
                self.report.of_plan(Rule.OPERATOR_NEVER_RUN, operator.name, "the plan ends and it has not run")
        for tensor in self._graph.with_role(Role.OUTPUT):
            if tensor.name not in self._written_outputs and not self.states.stays(tensor.name):
                detail = "the plan ends and this network output has not been copied to DRAM"
                self.report.of_plan(Rule.OUTPUT_NEVER_WRITTEN, tensor.name, detail)
        self.states.finish()
        self._overwritten.finish()
        for name, residency in self._on_chip.all():
            self._stays.end(self._graph.tensor[name], self.report.step - residency.start_step)
        self._stays.each_is_the_only_one_or_for_one_operator(self.report)

    # Allocate and Free

    def _allocate(self, allocate: Allocate) -> None:
        tensor = self._names.tensor(allocate.tensor)
        memory = self._names.scratchpad(allocate.tensor, allocate.memory)
        if tensor is None or memory is None:
            return
        residency = self._begin(tensor, memory, allocate.offset_bytes)
        residency.is_written = residency.is_written or allocate.is_state

    def _begin(self, tensor: Tensor, memory: Memory, start: int) -> LiveResidency:
        """Begin a residency of the tensor at address `start`."""
        residency = LiveResidency(start, start + tensor.size_bytes, self.report.step)
        self._a_tensor_is_allocated_once_in_a_scratchpad(tensor, memory, residency)
        self._addresses_lie_in_the_scratchpad(tensor, memory, residency)
        self.meter.end(self._residencies_do_not_overlap(tensor, memory, residency))
        self._on_chip[memory.name][tensor.name] = residency
        self.report.no_excuse(tensor.name)
        self.meter.begin(memory.name, tensor.size_bytes, residency.stop_bytes)
        return residency

    def _a_tensor_is_allocated_once_in_a_scratchpad(self, tensor: Tensor, memory: Memory, new: LiveResidency) -> None:
        """Report a second allocation in one scratchpad.

        The new residency replaces the old one and inherits its contents.
        """
        old = self._on_chip[memory.name].pop(tensor.name, None)
        if old is not None:
            detail = f"allocated at {new} while resident at {old} of {memory.name!r}"
            self.report.violation(Rule.ALLOCATED_TWICE, tensor.name, detail)
            self._end(tensor, memory, old)
            new.start_step, new.is_written = old.start_step, old.is_written

    def _addresses_lie_in_the_scratchpad(self, tensor: Tensor, memory: Memory, new: LiveResidency) -> None:
        """Check 0 <= start, the alignment of start, and stop <= capacity."""
        if new.start_bytes < 0:
            detail = f"{new} of {memory.name!r} starts below address 0"
            self.report.violation(Rule.NEGATIVE_OFFSET, tensor.name, detail)
        if new.start_bytes % memory.alignment_bytes != 0:
            detail = f"{new} of {memory.name!r} starts at no multiple of {memory.alignment_bytes}"
            self.report.violation(Rule.MISALIGNED, tensor.name, detail)
        if new.stop_bytes > memory.capacity_bytes:
            detail = f"{new} of {memory.name!r} ends beyond the capacity of {memory.capacity_bytes}"
            self.report.violation(Rule.BEYOND_CAPACITY, tensor.name, detail)

    def _residencies_do_not_overlap(self, tensor: Tensor, memory: Memory, new: LiveResidency) -> int:
        """Report overlaps, and leave an overlapping range unoccupied; return the number of bytes that may be shared."""
        there = self._on_chip[memory.name]
        overlapped, shared = self._overwritten.take(tensor.name, new, self._addresses[memory.name], there)
        for name in overlapped:
            detail = f"{new} of {memory.name!r} overlaps {name!r} at {there[name]}"
            self.report.violation(Rule.OVERLAP, tensor.name, detail)
        return shared

    def _end(self, tensor: Tensor, memory: Memory, old: LiveResidency) -> None:
        """Release the residency's own bytes."""
        self.meter.end(old.own_bytes)
        for start, _ in old.own:
            self._addresses[memory.name].release(tensor.name, start)

    def _free(self, free: Free) -> None:
        tensor = self._names.tensor(free.tensor)
        memory = self._names.scratchpad(free.tensor, free.memory)
        if tensor is None or memory is None:
            return
        residency = self._on_chip[memory.name].pop(tensor.name, None)
        if residency is not None:
            self._end(tensor, memory, residency)
            self._overwritten.freed(tensor.name)
            self._stays.end(tensor, self.report.step - residency.start_step)
        else:
            self.report.not_resident(
                Rule.FREED_NOT_RESIDENT, tensor.name, f"freed in {memory.name!r}, where it is not resident"
            )
        self.report.no_excuse(tensor.name)

    # Copy

    def _copy(self, copy: Copy) -> None:
        tensor = self._names.tensor(copy.tensor)
        ends_are_known = [self._names.is_memory(copy.tensor, name) for name in (copy.source, copy.target)]
        if tensor is None:
            return
        if copy.source == copy.target:
            self.report.violation(Rule.COPY_TO_ITSELF, tensor.name, f"copied from {copy.source!r} to itself")
            return
        if all(ends_are_known) and self._a_way_leads(tensor, copy):
            self._a_plan_without_spills_moves_only_the_compulsory(tensor, copy)
            self._measure(tensor, copy)
        self._overwritten.copied(tensor.name)
        self._the_source_holds_the_bytes(tensor, copy.source)
        self._the_target_has_a_place(tensor, copy.target)

    def _a_way_leads(self, tensor: Tensor, copy: Copy) -> bool:
        """Return True if the copy goes from or to DRAM or along a link; otherwise report it."""
        ends = (copy.source, copy.target)
        if DRAM not in ends and ends not in self._problem.transfers.links:
            detail = f"no link leads from {copy.source!r} to {copy.target!r}: moving between them goes through DRAM"
            self.report.violation(Rule.NO_LINK, tensor.name, detail)
            return False
        return True

    def _a_plan_without_spills_moves_only_the_compulsory(self, tensor: Tensor, copy: Copy) -> None:
        """Report copies other than the first load of a network input or parameter and the write of a network output."""
        if copy.target == DRAM:
            is_compulsory = tensor.role is Role.OUTPUT
        else:
            is_compulsory = must_be_loaded(self._problem, tensor) and tensor.name not in self._been_on_chip
        if self._forbids_spills and not is_compulsory:
            detail = f"copied from {copy.source!r} to {copy.target!r}, which a plan without spills need not do"
            self.report.violation(Rule.NON_COMPULSORY_TRAFFIC, tensor.name, detail)

    def _measure(self, tensor: Tensor, copy: Copy) -> None:
        if copy.source == DRAM:
            self.meter.load(tensor, copy.target, was_on_chip=tensor.name in self._been_on_chip)
            self._been_on_chip.add(tensor.name)
        elif copy.target == DRAM:
            self.meter.write_back(tensor, copy.source)
        else:
            self.meter.move(tensor, copy.source, copy.target)

    def _the_source_holds_the_bytes(self, tensor: Tensor, source: str) -> None:
        if source in self._on_chip:
            residency = self._on_chip[source].get(tensor.name)
            if residency is None:
                detail = f"copied out of {source!r}, where it is not resident"
                self.report.not_resident(Rule.SOURCE_NOT_RESIDENT, tensor.name, detail)
            elif not residency.is_written:
                detail = f"copied out of {source!r} at {residency}, where nothing has been written"
                self.report.violation(Rule.SOURCE_UNDEFINED, tensor.name, detail)
                residency.is_written = True
        elif source == DRAM and tensor.name not in self._in_dram:
            self.report.violation(Rule.NOT_IN_DRAM, tensor.name, "loaded, but DRAM has no copy of it")
            self._in_dram.add(tensor.name)

    def _the_target_has_a_place(self, tensor: Tensor, target: str) -> None:
        if target in self._on_chip:
            residency = self._on_chip[target].get(tensor.name)
            if residency is not None:
                residency.is_written = True
            else:
                detail = f"copied into {target!r}, where it is not allocated"
                self.report.not_resident(Rule.TARGET_NOT_ALLOCATED, tensor.name, detail)
        elif target == DRAM:
            if tensor.name in self._written_outputs:
                self.report.violation(Rule.OUTPUT_WRITTEN_AGAIN, tensor.name, "this network output is in DRAM already")
            self._in_dram.add(tensor.name)
            if tensor.role is Role.OUTPUT:
                self._written_outputs.add(tensor.name)

    # Compute

    def _compute(self, compute: Compute) -> None:
        operator = self._graph.operator.get(compute.operator)
        if operator is None:
            self.report.violation(Rule.UNKNOWN_OPERATOR, compute.operator, "no operator of the graph has this name")
        elif operator.name not in self._step_of:
            self._order.runs(operator)
            self._run(operator)
            self._step_of[operator.name] = self.report.step
        elif self._problem.may_run_again(operator):
            self._what_is_written_again_has_a_fresh_place(operator)
            self._run(operator)
            self.meter.run_again(operator)
        else:
            allowed = self._problem.recomputation is not None
            why = "it touches state or draws at random" if allowed else "recomputation is not allowed"
            detail = f"it ran in step {self._step_of[operator.name]} already, and {why}"
            self.report.violation(Rule.OPERATOR_RUN_TWICE, operator.name, detail)
            for name in operator.outputs:
                for residency in self._on_chip.of(self._graph.tensor[name]).values():
                    residency.is_written = True
        self.report.step += 1

    def _run(self, operator: Operator) -> None:
        self._overwritten.runs(operator.name)
        self._operands_are_in_place(operator)

    def _what_is_written_again_has_a_fresh_place(self, operator: Operator) -> None:
        """Report a rerun whose output is already written in some residency: a rerun needs new residencies."""
        for name in operator.outputs:
            written = [one for one in self._on_chip.of(self._graph.tensor[name]).values() if one.is_written]
            if written:
                detail = f"operator {operator.name!r} runs again and writes it at {written[0]}, where it is still there"
                self.report.violation(Rule.RECOMPUTED_IN_USE, name, detail)

    def _operands_are_in_place(self, operator: Operator) -> None:
        """Check that inputs are resident and written, and that outputs are allocated; no operand is streamed."""
        for tensor in self._problem.operands(operator):
            if tensor.name in operator.outputs:
                self._write_output(operator, tensor)
            else:
                self._what_an_operator_reads_is_resident_and_written(operator, tensor)

    def _what_an_operator_reads_is_resident_and_written(self, operator: Operator, tensor: Tensor) -> None:
        """Check an input in the scratchpads that hold such an operand; the array cannot read the other scratchpads."""
        held = self._on_chip.held(operator, tensor)
        if any(residency.is_written for residency in held):
            return
        if not self._on_chip.of(tensor):
            detail = f"operator {operator.name!r} reads it, but it is in no scratchpad"
            self.report.not_resident(Rule.OPERAND_NOT_RESIDENT, tensor.name, detail)
        elif not held:
            detail = f"operator {operator.name!r} reads it{self._on_chip.where_not_held(operator, tensor)}"
            self.report.not_resident(Rule.OPERAND_NOT_HELD, tensor.name, detail)
        else:
            where = ", ".join(str(residency) for residency in held)
            detail = f"operator {operator.name!r} reads it at {where}, where nothing has been written"
            self.report.violation(Rule.OPERAND_UNDEFINED, tensor.name, detail)
            held[0].is_written = True

    def _write_output(self, operator: Operator, tensor: Tensor) -> None:
        """Write an output into the only scratchpad that it is allocated in, which must hold outputs."""
        residencies, held = self._on_chip.of(tensor), self._on_chip.held(operator, tensor)
        if not residencies:
            detail = f"operator {operator.name!r} writes it, but it is allocated in no scratchpad"
            self.report.not_resident(Rule.OUTPUT_NOT_RESIDENT, tensor.name, detail)
        elif not held:
            detail = f"operator {operator.name!r} writes it{self._on_chip.where_not_held(operator, tensor)}"
            self.report.not_resident(Rule.OUTPUT_NOT_HELD, tensor.name, detail)
        elif len(residencies) > 1:
            where = ", ".join(map(repr, residencies))
            detail = f"operator {operator.name!r} writes it, and it is allocated in {where}: one is written"
            self.report.violation(Rule.OUTPUT_IN_SEVERAL, tensor.name, detail)
        for residency in residencies.values():
            residency.is_written = True
        self._been_on_chip.add(tensor.name)
