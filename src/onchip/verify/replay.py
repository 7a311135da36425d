"""Replay a plan instruction by instruction, and report each violation of a rule."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from onchip.answer.problem import Order, Placement, Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction
from onchip.arch.memory import DRAM, Memory
from onchip.ir.graph import Graph, State
from onchip.ir.operator import SEEN_ORDERS, SEEN_PARTS, SEEN_SHAPES, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.verify.figures import ROLES_IN_DRAM, Meter, must_be_loaded
from onchip.verify.rules import Rule, Violation


class Reporting:
    """A collector of violations with their positions; each mistake is reported once."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.step = 0
        self.instruction: int | None = None
        self._excused: set[str] = set()  # reported as not resident, and neither allocated nor freed since
        self._said_once: set[tuple[Rule, str]] = set()

    def violation(self, rule: Rule, subject: str, detail: str) -> None:
        """Report a violation by the current instruction."""
        self.violations.append(Violation(rule, subject, detail, self.instruction, self.step))

    def of_plan(self, rule: Rule, subject: str, detail: str) -> None:
        """Report a violation of the whole plan."""
        self.violations.append(Violation(rule, subject, detail))

    def once(self, rule: Rule, subject: str, detail: str) -> None:
        """Report a wrong name at its first use only."""
        if (rule, subject) not in self._said_once:
            self._said_once.add((rule, subject))
            self.violation(rule, subject, detail)

    def not_resident(self, rule: Rule, tensor: str, detail: str) -> None:
        """Report a missing tensor at its first use only, until it is allocated or freed."""
        if tensor not in self._excused:
            self._excused.add(tensor)
            self.violation(rule, tensor, detail)

    def excuse(self, tensor: str) -> None:
        """Suppress reports that the tensor is missing, because they follow from a violation already reported."""
        self._excused.add(tensor)

    def no_excuse(self, tensor: str) -> None:
        """End the suppression for a tensor: an Allocate or Free makes its location known again."""
        self._excused.discard(tensor)


class Names:
    """The tensors and scratchpads that a plan of `problem` may name."""

    def __init__(self, problem: Problem, report: Reporting) -> None:
        self._problem = problem
        self._report = report
        self._scratchpads = {memory.name: memory for memory in problem.memories}
        self._counted = {tensor.name: tensor for tensor in problem.counted_tensors}

    def tensor(self, name: str) -> Tensor | None:
        """Return the tensor with that name, or report why the plan may not name it and return None."""
        tensor = self._counted.get(name)
        if tensor is None and name in self._problem.graph.tensor:
            self._report.once(Rule.UNCOUNTED_PARAMETER, name, "a parameter, and only activations count")
        elif tensor is None:
            self._report.once(Rule.UNKNOWN_TENSOR, name, "no tensor of the graph has this name")
        return tensor

    def scratchpad(self, tensor: str, memory: str) -> Memory | None:
        """Return the scratchpad with that name, or None after a report that the tensor has no address there."""
        if memory == DRAM:
            self._report.once(Rule.DRAM_ALLOCATED, tensor, "only scratchpads are allocated and freed, DRAM is not")
            self._report.excuse(tensor)
        elif self.is_memory(tensor, memory):
            return self._scratchpads[memory]
        return None

    def is_memory(self, tensor: str, memory: str) -> bool:
        """Return True if `memory` is DRAM or a scratchpad.

        Otherwise report it, and treat the tensor's location as unknown.
        """
        if memory != DRAM and memory not in self._scratchpads:
            known = ", ".join(map(repr, self._scratchpads))
            self._report.once(Rule.UNKNOWN_MEMORY, memory, f"no scratchpad has this name; there is {known}")
            self._report.excuse(tensor)
            return False
        return True


@dataclass(slots=True)
class GivenOrder:
    """A check that compares each operator with its predecessor only; one operator moved is one violation."""

    problem: Problem
    report: Reporting
    _position: dict[str, int] = field(init=False)
    _last: int = 0

    def __post_init__(self) -> None:
        self._position = {operator.name: index for index, operator in enumerate(self.problem.graph.operators)}

    def runs(self, operator: Operator) -> None:
        """Report an operator whose first run follows the run of an operator that the given order places later."""
        position = self._position[operator.name]
        if self.problem.order is Order.GIVEN and position < self._last:
            later = self.problem.graph.operators[self._last].name
            detail = f"it runs after {later!r}; the given order says before"
            self.report.violation(Rule.OUT_OF_ORDER, operator.name, detail)
        self._last = position


class Stays:
    """The finished residencies of each tensor, as the number of operators that ran during each."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._operators: dict[str, list[int]] = {tensor.name: [] for tensor in problem.counted_tensors}

    def end(self, tensor: Tensor, operators: int) -> None:
        """Record the end of a residency of `tensor` during which `operators` operators ran."""
        self._operators[tensor.name].append(operators)

    def each_is_the_only_one_or_for_one_operator(self, report: Reporting) -> None:
        """Report tensors that break static placement: several residencies, and one spans several operators."""
        if self._problem.placement is Placement.STATIC:
            for tensor, operators in self._operators.items():
                if len(operators) > 1 and max(operators) > 1:
                    detail = (
                        f"it has {len(operators)} residencies, one of them over {max(operators)} operators; "
                        "static placement allows one in all, or any number over one operator each"
                    )
                    report.of_plan(Rule.PLACEMENT_NOT_STATIC, tensor, detail)


Range = tuple[int, int]
"""Addresses [start, stop)."""


@dataclass(slots=True)
class LiveResidency:
    """A tensor's residency at addresses [start, stop) of one scratchpad, since `start_step`.

    `is_written` is True once the tensor's bytes have been written. `own` lists the address ranges that the tensor does
    not share with an output that overwrites it in place.
    """

    start_bytes: int
    stop_bytes: int
    start_step: int
    is_written: bool = False
    own: list[Range] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.own = [(self.start_bytes, self.stop_bytes)]

    @property
    def own_bytes(self) -> int:
        """Return the number of bytes that the residency shares with no other residency."""
        return sum(stop - start for start, stop in self.own)

    def __str__(self) -> str:
        return f"[{self.start_bytes}, {self.stop_bytes})"


@dataclass(slots=True)
class Addresses:
    """The occupied address ranges of one memory.

    `starts` is sorted; `stops` and `names` are parallel to it. A range that overlaps an occupied range is not entered.
    """

    starts: list[int] = field(default_factory=list)
    stops: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def take(self, name: str, start: int, stop: int) -> list[str]:
        """Occupy the half-open range unless it overlaps occupied ranges.

        Return the names of the ranges that it overlaps.
        """
        place = bisect_left(self.starts, start)
        begins_before = place > 0 and self.stops[place - 1] > start
        overlapped = self.names[place - begins_before : bisect_left(self.starts, stop)]
        if not overlapped:
            self.starts.insert(place, start)
            self.stops.insert(place, stop)
            self.names.insert(place, name)
        return overlapped

    def release(self, name: str, start: int) -> None:
        """Release the range with that name and start; do nothing if it was never entered."""
        place = bisect_left(self.starts, start)
        if place < len(self.starts) and self.names[place] == name:
            del self.starts[place], self.stops[place], self.names[place]


class OnChip:
    """The residencies of every scratchpad, by tensor name."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.scratchpads = {memory.name: memory for memory in problem.memories}
        self._residencies: dict[str, dict[str, LiveResidency]] = {name: {} for name in self.scratchpads}

    def __getitem__(self, memory: str) -> dict[str, LiveResidency]:
        """Return the residencies of one scratchpad by tensor name, as a dict that the caller may change."""
        return self._residencies[memory]

    def __contains__(self, memory: str) -> bool:
        """Return True if a scratchpad has this name."""
        return memory in self._residencies

    def all(self) -> list[tuple[str, LiveResidency]]:
        """Return every residency with the name of its tensor."""
        return [one for held in self._residencies.values() for one in held.items()]

    def of(self, tensor: Tensor) -> dict[str, LiveResidency]:
        """Return the residencies of a tensor by the name of their scratchpad."""
        return {name: held[tensor.name] for name, held in self._residencies.items() if tensor.name in held}

    def held(self, operator: Operator, tensor: Tensor) -> list[LiveResidency]:
        """Return the tensor's residencies in scratchpads that may hold it as the operator's operand."""
        operand = self._problem.operand(operator, tensor)
        return [residency for name, residency in self.of(tensor).items() if operand in self.scratchpads[name].holds]

    def where_not_held(self, operator: Operator, tensor: Tensor) -> str:
        """Return text that names the tensor's scratchpads, and the scratchpads that may hold such an operand."""
        operand = self._problem.operand(operator, tensor)
        holding = [name for name, memory in self.scratchpads.items() if operand in memory.holds]
        where = ", ".join(f"{name!r} at {residency}" for name, residency in self.of(tensor).items())
        do = ", ".join(map(repr, holding)) or "none"
        return f" as {operand}, but it is only in {where}; scratchpads that hold {operand}s: {do}"


class StatesOnChip:
    """The states that stay on chip, each with its fixed location: (scratchpad, offset in bytes)."""

    def __init__(self, graph: Graph, report: Reporting) -> None:
        self._report = report
        self._state = {name: state for state in graph.states for name in (state.old, state.new)}
        self._place: dict[str, tuple[str, int]] = {}
        self._followed: set[str] = set()
        self._has_begun = False
        self._vacant: State | None = None

    def stays(self, tensor: str) -> bool:
        """Return True if the tensor is the old or new tensor of a state that stays on chip."""
        return tensor in self._state and self._state[tensor].old in self._place

    def overwritten_by(self, tensor: str) -> str | None:
        """Return the old tensor of a state on chip that its new tensor `tensor` may overwrite in place, or None."""
        state = self._state.get(tensor)
        return state.old if state and state.in_place and tensor == state.new and self.stays(tensor) else None

    def execute(self, instruction: Instruction) -> None:
        """Report violations of the states' residency by an instruction; call it before the instruction takes effect."""
        self._the_new_one_follows_at_once(instruction)
        match instruction:
            case Allocate(is_state=True):
                self._begin(instruction)
                return
            case Allocate(tensor, memory, offset_bytes):
                self._the_new_one_lies_where_the_old_one_lay(tensor, memory, offset_bytes)
            case Copy(tensor):
                if self.stays(tensor):
                    self._report.violation(Rule.STATE_COPIED, tensor, "copied, and its state stays on the chip")
            case Free(tensor):
                self._free(tensor)
        self._has_begun = True

    def finish(self) -> None:
        """Report a state whose old tensor is freed at the end of the plan without its new tensor in its place."""
        if self._vacant is not None:
            detail = f"the plan ends, and {self._vacant.new!r} has not come to its place"
            self._report.of_plan(Rule.STATE_MOVED, self._vacant.old, detail)

    def _begin(self, allocate: Allocate) -> None:
        state = self._state.get(allocate.tensor)
        if state is None or state.old != allocate.tensor:
            detail = "allocated with what the inference before left there, and the network has no state of this name"
            self._report.violation(Rule.NO_STATE, allocate.tensor, detail)
            return
        if allocate.tensor in self._place:
            detail = f"allocated at {allocate.offset_bytes} of {allocate.memory!r}, and its state lies elsewhere"
            self._report.violation(Rule.STATE_MOVED, allocate.tensor, detail)
        elif self._has_begun:
            detail = "allocated with what the inference before left there, and the plan has begun"
            self._report.violation(Rule.STATE_NOT_FIRST, allocate.tensor, detail)
        self._place.setdefault(allocate.tensor, (allocate.memory, allocate.offset_bytes))

    def _the_new_one_lies_where_the_old_one_lay(self, tensor: str, memory: str, offset_bytes: int) -> None:
        if not self.stays(tensor):
            return
        self._followed.add(tensor)
        place = self._place[self._state[tensor].old]
        if (memory, offset_bytes) != place:
            detail = f"allocated at {offset_bytes} of {memory!r}, and its state lies at {place[1]} of {place[0]!r}"
            self._report.violation(Rule.STATE_MOVED, tensor, detail)

    def _free(self, tensor: str) -> None:
        """Record that an old tensor makes way for its new one; report the Free of a new tensor."""
        if not self.stays(tensor):
            return
        state = self._state[tensor]
        if tensor == state.new:
            self._report.violation(Rule.STATE_MOVED, tensor, "freed, and its state stays on the chip")
        elif state.new not in self._followed:
            self._vacant = state

    def _the_new_one_follows_at_once(self, instruction: Instruction) -> None:
        state, self._vacant = self._vacant, None
        if state is not None and not (isinstance(instruction, Allocate) and instruction.tensor == state.new):
            detail = f"freed, and the next instruction does not allocate {state.new!r} there"
            self._report.violation(Rule.STATE_MOVED, state.old, detail)


@dataclass(slots=True)
class _Lent:
    """An input that shares its bytes with an output, from the output's Allocate to the input's Free."""

    operator: str
    output: str
    has_run: bool = False


@dataclass(slots=True)
class Overwritten:
    """The inputs being overwritten, by name.

    Until such an input is freed, only its operator may run, and neither the input nor the output may be copied.
    """

    graph: Graph
    states: StatesOnChip
    report: Reporting
    _lent: dict[str, list[_Lent]] = field(default_factory=dict)

    def take(
        self, name: str, new: LiveResidency, addresses: Addresses, there: dict[str, LiveResidency]
    ) -> tuple[list[str], int]:
        """Enter the residency of a tensor, which may share the bytes of inputs that its producer overwrites.

        Returns the names of the residencies that it overlaps illegally, and the number of bytes newly shared.
        """
        overlapped = addresses.take(name, new.start_bytes, new.stop_bytes)
        pairs = self._pairs(name)
        lenders = [one for one in overlapped if one in pairs and there[one].start_bytes + pairs[one] == new.start_bytes]
        if len(lenders) < len(overlapped):
            return [one for one in overlapped if one not in lenders], 0
        shared = 0
        for lender in lenders:
            shared += _lend(lender, there[lender], new, addresses)
            self._lent.setdefault(lender, []).append(_Lent(self.graph.producer[name].name, name))
        addresses.take(name, new.start_bytes, new.stop_bytes)
        return [], shared

    def _pairs(self, name: str) -> dict[str, int]:
        """Map each input whose bytes a tensor may take to the shift of its offset in bytes."""
        producer = self.graph.producer.get(name)
        if producer is None:
            return {}
        pairs = {one.input: one.shift_bytes for one in producer.in_place if one.output == name}
        pairs |= {state: 0 for state in (self.states.overwritten_by(name),) if state is not None}
        return {read: shift for read, shift in pairs.items() if not reads_elsewhere(producer, read)}

    def copied(self, tensor: str) -> None:
        """Report a Copy, before the input's Free, of an overwritten input or of the output that overwrites it."""
        for lender, lent in self._lent.items():
            for one in lent:
                if tensor in (lender, one.output):
                    detail = f"copied while {one.output!r} lies in the bytes of {lender!r}, which is not freed"
                    self.report.violation(Rule.OVERWRITTEN_NOT_FREED, tensor, detail)

    def runs(self, operator: str) -> None:
        """Report an operator that runs while another operator's output occupies the bytes of an input."""
        for lender, lent in self._lent.items():
            for one in lent:
                if one.operator != operator:
                    detail = f"{operator!r} runs while {one.output!r} lies in its bytes for {one.operator!r}"
                    self.report.violation(Rule.OVERWRITTEN_NOT_FREED, lender, detail)
                one.has_run = one.has_run or one.operator == operator

    def freed(self, tensor: str) -> None:
        """Report an input that is freed before its operator has run.

        After its Free the bytes belong to the output alone.
        """
        for one in self._lent.pop(tensor, ()):
            if not one.has_run:
                detail = f"freed before {one.operator!r} has run, for which {one.output!r} lies in its bytes"
                self.report.violation(Rule.OVERWRITTEN_NOT_FREED, tensor, detail)

    def finish(self) -> None:
        """Report each input that is overwritten and not freed at the end of the plan."""
        for lender, (one, *_) in self._lent.items():
            detail = f"the plan ends while {one.output!r} lies in its bytes"
            self.report.of_plan(Rule.OVERWRITTEN_NOT_FREED, lender, detail)


def reads_elsewhere(operator: Operator, name: str) -> bool:
    """Return True if the operator also reads the input at positions that it does not write, through a second view."""
    parts, shapes, orders = (_listed(operator, kind) for kind in (SEEN_PARTS, SEEN_SHAPES, SEEN_ORDERS))
    places = [at for at, one in enumerate(operator.inputs) if one == name]
    return any(parts.get(at) for at in places) or len({repr((shapes.get(at), orders.get(at))) for at in places}) > 1


def _listed(operator: Operator, kind: str) -> dict[int, object]:
    """Return the entries of a list attribute by input index; an empty dict if the operator lacks the attribute."""
    listed = operator.attributes.get(kind)
    return dict(enumerate(listed)) if isinstance(listed, list) else {}


def _lend(name: str, lender: LiveResidency, output: LiveResidency, addresses: Addresses) -> int:
    """Remove the output's address range from the lender's own ranges; return the number of bytes lent."""
    before = lender.own_bytes
    for start, _ in lender.own:
        addresses.release(name, start)
    lender.own = [part for one in lender.own for part in _beside(one, output) if part[0] < part[1]]
    for start, stop in lender.own:
        addresses.take(name, start, stop)
    return before - lender.own_bytes


def _beside(one: Range, output: LiveResidency) -> tuple[Range, Range]:
    start, stop = one
    return (start, min(stop, output.start_bytes)), (max(start, output.stop_bytes), stop)


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
