"""A machine that executes plans and schedules on real data, and the reference run without a plan.

The machine executes each instruction without any knowledge of the rules of plans; it uses only the bytes that are
physically present. An illegal plan ends in a MachineError, or in bytes that differ from the tensor's.

The Compute itself reads streamed operands from DRAM and writes them there. The bytes of a workspace are overwritten
while its operator runs, before it reads and after it has written, so that any other data there is destroyed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, TypeAlias

import numpy as np

from onchip.answer.problem import Count, Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.answer.schedule import WORKSPACE
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.errors import OnchipError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.nests import BandedOperand, operands_of
from onchip.simulate.kernel_protocol import Bytes, Kernels, fingerprint


class WrongBytes(StrEnum):
    """The event at which wrong bytes of a tensor were found."""

    READ = "read by an operator"
    WRITTEN = "written by an operator"
    AT_THE_END = "at the end"


@dataclass(frozen=True, slots=True)
class Difference:
    """The first bytes that differ from the unplanned run; `step` is the number of operators run before."""

    tensor: str
    found: WrongBytes
    step: int
    instruction: int | None = None
    operator: str | None = None

    def __str__(self) -> str:
        place = "" if self.instruction is None else f", instruction {self.instruction}"
        who = "" if self.operator is None else f" {self.operator!r}"
        return f"step {self.step}{place}: {self.tensor!r}, {self.found}{who}, differs from the unplanned run"


@dataclass(frozen=True, slots=True)
class MachineRun:
    """The result of a run: bytes moved, the number of tensors compared bit for bit, and the first difference.

    `loads` and `write_backs` are from and to DRAM, `moved` between scratchpads, in bytes. The machine stops at a
    difference, because everything after it differs too. `left` are the bytes of each scratchpad at the end.
    """

    loads: int
    write_backs: int
    moved: int
    compared: int
    difference: Difference | None
    outputs: Mapping[str, Bytes]
    left: Mapping[str, Bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reference:
    """The expected values: the fingerprint of each tensor, and the bytes of the network's outputs.

    Fingerprints save memory, because all tensors of a network together are much larger than those of a plan.
    """

    fingerprints: Mapping[str, bytes]
    outputs: Mapping[str, Bytes]


def run_in_given_order(problem: Problem, kernels: Kernels, inputs: Mapping[str, Bytes]) -> Reference:
    """Run the graph of `problem` without a plan; each tensor is dropped after its last reader."""
    graph = problem.graph
    last_reader = {name: readers[-1].name for name, readers in graph.readers.items() if readers}
    held = dict(inputs)
    fingerprints = {name: fingerprint(content) for name, content in inputs.items()}
    for operator in graph.operators:
        operands = [tensor for tensor in problem.operands(operator) if tensor.name not in operator.outputs]
        for tensor in operands:
            if tensor.role is Role.PARAMETER and tensor.name not in held:
                held[tensor.name] = kernels.parameter(tensor)
                fingerprints[tensor.name] = fingerprint(held[tensor.name])
        written = _written(graph, kernels, operator, {tensor.name: held[tensor.name] for tensor in operands})
        for name in operator.outputs:
            held[name] = written[name]
            fingerprints[name] = fingerprint(written[name])
        for name in (*(tensor.name for tensor in operands), *operator.outputs):
            if last_reader.get(name, operator.name) == operator.name and graph.tensor[name].role is not Role.OUTPUT:
                del held[name]
    return Reference(fingerprints, {tensor.name: held[tensor.name] for tensor in graph.with_role(Role.OUTPUT)})


def _written(graph: Graph, kernels: Kernels, operator: Operator, operands: Mapping[str, Bytes]) -> Mapping[str, Bytes]:
    """Return the operator's outputs; its workspace, which no kernel knows, is filled with zeros."""
    own = operator.name + WORKSPACE
    if own not in operator.outputs:
        return kernels.run(operator, operands)
    known = replace(operator, outputs=tuple(name for name in operator.outputs if name != own))
    return {**kernels.run(known, operands), own: np.zeros(graph.tensor[own].size_bytes, np.uint8)}


ALIGNMENT_BYTES: Final = 64
FILL: Final = 0xFF
"""Fill of fresh and freed memory: NaN in every floating-point format, -1 in integers."""

MOST_BLOCKS: Final = 256
"""Maximum number of sequential blocks of an operator that overwrites bytes which it reads again."""


class MachineError(OnchipError):
    """An error for an instruction that no machine can execute: an address out of range, a missing tensor."""


def run_plan_on_machine(
    problem: Problem,
    plan: Plan,
    kernels: Kernels,
    inputs: Mapping[str, Bytes],
    reference: Reference,
    left: Mapping[str, Bytes] | None = None,
) -> MachineRun:
    """Execute `plan` in the scratchpads of `problem`; raises MachineError.

    `left` holds the scratchpads after the preceding inference, which contain the states that stay on the chip; `inputs`
    does not contain these.
    """
    return run_on(ProgramMachine(problem, kernels, inputs, reference, left), plan)


def run_on(machine: ProgramMachine, plan: Plan) -> MachineRun:
    """Execute a program, instruction by instruction; raises MachineError with the place of the failure."""
    for index, instruction in enumerate(plan.instructions):
        try:
            machine.execute(index, instruction)
        except MachineError as error:
            error.place = f"step {machine.step}, instruction {index}"
            raise
        if machine.difference is not None:
            break
    else:
        machine.finish()
    moved = (machine.loads, machine.write_backs, machine.moved)
    return MachineRun(*moved, len(machine.compared), machine.difference, machine.outputs, machine.scratchpads)


class ProgramMachine:
    """The state of scratchpads and DRAM, and the effect of each instruction of a plan; schedules extend it."""

    def __init__(
        self,
        problem: Problem,
        kernels: Kernels,
        inputs: Mapping[str, Bytes],
        reference: Reference,
        left: Mapping[str, Bytes] | None = None,
    ) -> None:
        self.dram: dict[str, Bytes] = dict(inputs)
        self.loads = self.write_backs = self.moved = self.step = 0
        self.compared: set[str] = set()
        self.difference: Difference | None = None
        self.problem = problem
        self.kernels = kernels
        self._fingerprints = reference.fingerprints
        self._memories = {memory.name: memory for memory in problem.memories}
        self.scratchpads = left or {memory.name: filled(memory.capacity_bytes) for memory in problem.memories}
        self._is_first = left is None
        self._next = {state.old: state.new for state in problem.graph.states}
        self._staying: set[str] = set()
        self.places: dict[str, dict[str, BytePlace]] = {name: {} for name in self._memories}
        self._instruction = 0
        self._sharing: dict[str, list[str]] = {}
        for operator in problem.graph.operators:
            for pair in operator.in_place:
                self._sharing.setdefault(pair.input, []).append(pair.output)
                self._sharing.setdefault(pair.output, []).append(pair.input)
        for state in problem.graph.states:
            self._sharing.setdefault(state.new, []).append(state.old)
            self._sharing.setdefault(state.old, []).append(state.new)

    def execute(self, index: int, instruction: Instruction) -> None:
        """Execute an instruction, the program's number `index`; raises MachineError."""
        self._instruction = index
        match instruction:
            case Allocate(tensor, memory, offset_bytes, is_state):
                self._allocate(self._tensor(tensor), self._memory(memory), offset_bytes, is_state=is_state)
            case Copy(tensor, source, target):
                self._copy(self._tensor(tensor), source, target)
            case Free(tensor, memory):
                self._free(self._tensor(tensor), self._memory(memory))
            case Compute(operator):
                self._compute(self._operator(operator))

    def finish(self) -> None:
        """Raise MachineError unless every network output is in DRAM; compare the outputs with the reference."""
        for tensor in self.problem.graph.with_role(Role.OUTPUT):
            if tensor.name not in self.outputs:
                raise MachineError(f"the plan has ended and DRAM has no network output {tensor.name!r}")
            if self.difference is None:
                self._compare(tensor, self.outputs[tensor.name], WrongBytes.AT_THE_END)

    @property
    def outputs(self) -> dict[str, Bytes]:
        """Return the network's outputs in DRAM, and the next values of the states that stay on the chip."""
        names = [tensor.name for tensor in self.problem.graph.with_role(Role.OUTPUT)]
        places = {
            name: self._bytes_at(memory, held[name]).copy()
            for memory, held in self.places.items()
            for name in self._staying & held.keys()
        }
        return {name: self.dram[name] for name in names if name in self.dram} | places

    # Allocate, Free, Copy

    def _allocate(self, tensor: Tensor, memory: Memory, offset_bytes: int, *, is_state: bool) -> None:
        place = BytePlace(offset_bytes, offset_bytes + tensor.size_bytes)
        where = f"[{place.start}, {place.stop}) of {memory.name!r}"
        if place.start < 0 or place.stop > memory.capacity_bytes:
            raise MachineError(f"{tensor.name!r} at {where} is outside its {memory.capacity_bytes} bytes")
        if place.start % memory.alignment_bytes:
            raise MachineError(f"{tensor.name!r} at {where} is at no multiple of {memory.alignment_bytes}")
        if tensor.name in self.places[memory.name]:
            raise MachineError(f"{tensor.name!r} has a place in {memory.name!r} already")
        self.places[memory.name][tensor.name] = place
        if is_state:
            self._find_state(tensor, memory, place)
        else:
            self._fill(tensor, memory, place)

    def _find_state(self, tensor: Tensor, memory: Memory, place: BytePlace) -> None:
        """Take the bytes left by the preceding inference as the tensor; initialise them before the first inference."""
        content = self.dram.pop(tensor.name, None)
        if content is None or tensor.name not in self._next:
            raise MachineError(f"{tensor.name!r} is no state that stays")
        if self._is_first:
            self._bytes_at(memory.name, place)[:] = content
        place.is_written = True
        self._staying.add(self._next[tensor.name])

    def _free(self, tensor: Tensor, memory: Memory) -> None:
        self._fill(tensor, memory, self._place(tensor, memory.name))
        del self.places[memory.name][tensor.name]

    def _fill(self, tensor: Tensor, memory: Memory, place: BytePlace) -> None:
        """Overwrite bytes without an owner, except those shared with a resident in-place partner of the tensor."""
        here = self._bytes_at(memory.name, place)
        others = [self.places[memory.name].get(name) for name in self._sharing.get(tensor.name, ())]
        kept = [(other.start - place.start, other.stop - place.start) for other in others if other is not None]
        ranges = [slice(max(0, start), max(0, stop)) for start, stop in kept]
        content = [here[one].copy() for one in ranges]
        here[:] = FILL
        for one, shared in zip(ranges, content, strict=True):
            here[one] = shared

    def _copy(self, tensor: Tensor, source: str, target: str) -> None:
        if not self._is_a_way(source, target):
            raise MachineError(f"no link leads from {source!r} to {target!r}")
        content = self._stored(tensor) if source == DRAM else self._content(tensor, source)
        if target == DRAM:
            self.dram[tensor.name] = content.copy()
            self.write_backs += tensor.size_bytes
            return
        place = self._place(tensor, self._memory(target).name)
        self._bytes_at(target, place)[:] = content
        place.is_written = True
        if source == DRAM:
            self.loads += tensor.size_bytes
        else:
            self.moved += tensor.size_bytes

    def _is_a_way(self, source: str, target: str) -> bool:
        """Return True if a transfer is possible: from or to DRAM, or along a link."""
        return (source == DRAM) is not (target == DRAM) or (source, target) in self.problem.transfers.links

    def _content(self, tensor: Tensor, memory: str) -> Bytes:
        return self._bytes_at(memory, self._place(tensor, self._memory(memory).name))

    def _stored(self, tensor: Tensor) -> Bytes:
        if tensor.name in self.dram:
            return self.dram[tensor.name]
        if tensor.role is not Role.PARAMETER:
            raise MachineError(f"DRAM has no {tensor.name!r}")
        return self.kernels.parameter(tensor)

    # Compute

    def _compute(self, operator: Operator) -> None:
        """Run an operator on its bytes in scratchpads; raises MachineError if one of its operands is missing."""
        operands: dict[str, Bytes] = {}
        for tensor in self.problem.operands(operator):
            if tensor.name not in operator.outputs:
                operands[tensor.name] = self._read(operator, tensor)
        if self.difference is not None:
            return
        written = _written(self.problem.graph, self.kernels, operator, operands)
        if self._overwrites_what_it_reads_elsewhere(operator):
            written = {operator.outputs[0]: self._run_in_order(operator, operands)}
        if operator.in_place or self._staying:  # a kernel may return bytes of an input, which are overwritten below
            written = {name: content.copy() for name, content in written.items()}
        for name in operator.outputs:
            tensor = self.problem.graph.tensor[name]
            if len(written[name]) != tensor.size_bytes:
                raise MachineError(
                    f"{operator.name!r} wrote {len(written[name])} bytes of {name!r}", expected=str(tensor.size_bytes)
                )
            memory, place = self._place_written(operator, tensor)
            self._bytes_at(memory, place)[:] = written[name]
            place.is_written = True
        # Compare after all writes, to detect overlapping outputs.
        for name in operator.outputs:
            tensor = self.problem.graph.tensor[name]
            memory, place = self._place_written(operator, tensor)
            self._compare(tensor, self._bytes_at(memory, place), WrongBytes.WRITTEN, operator)
        self.step += 1

    def _overwrites_what_it_reads_elsewhere(self, operator: Operator) -> bool:
        """Return True if the only output shares bytes with an input that is also read through another view."""
        repeated = [name for name in dict.fromkeys(operator.inputs) if not operator.may_overwrite(name)]
        if not repeated or len(operator.outputs) > 1:
            return False
        memory, written = self._place_written(operator, self.problem.graph.tensor[operator.outputs[0]])
        places = (self.places[memory].get(name) for name in repeated)
        return any(place is not None and place.start < written.stop and written.start < place.stop for place in places)

    def _run_in_order(self, operator: Operator, operands: Mapping[str, Bytes]) -> Bytes:
        """Run an operator on shared bytes in its kernel's order: each block reads the bytes left by earlier blocks."""
        tensor = self.problem.graph.tensor[operator.outputs[0]]
        here = self._bytes_at(*self._place_written(operator, tensor))
        element = max((tensor.bits or 8) // 8, 1)
        size = max(-(-tensor.size_bytes // (element * MOST_BLOCKS)), 1) * element
        for start in range(0, tensor.size_bytes, size):
            here[start : start + size] = self.kernels.run(operator, operands)[tensor.name][start : start + size]
        return here.copy()

    def _place_written(self, operator: Operator, tensor: Tensor) -> tuple[str, BytePlace]:
        """Return the only place of an output, because the array writes to one scratchpad at a time."""
        places = self._places_of(operator, tensor)
        allocated = [memory for memory, held in self.places.items() if tensor.name in held]
        if len(allocated) > 1:
            raise MachineError(
                f"{operator.name!r} writes {tensor.name!r}, which has places in {', '.join(map(repr, allocated))}",
                expected="a place in one scratchpad",
            )
        return places[0]

    def _read(self, operator: Operator, tensor: Tensor) -> Bytes:
        """Return an operand's bytes; if a tensor is in several scratchpads, every copy must be correct."""
        places = self._places_of(operator, tensor)
        written = [(memory, place) for memory, place in places if place.is_written] or places
        for memory, place in written:
            self._compare(tensor, self._bytes_at(memory, place), WrongBytes.READ, operator)
        content = self._bytes_at(*written[0])
        content.flags.writeable = False
        return content

    def _compare(self, tensor: Tensor, content: Bytes, found: WrongBytes, operator: Operator | None = None) -> None:
        self.compared.add(tensor.name)
        if self.difference is None and fingerprint(content) != self._fingerprints[tensor.name]:
            instruction = None if operator is None else self._instruction
            name = None if operator is None else operator.name
            self.difference = Difference(tensor.name, found, self.step, instruction, name)

    # Places

    def _bytes_at(self, memory: str, place: BytePlace) -> Bytes:
        return self.scratchpads[memory][place.start : place.stop]

    def _place(self, tensor: Tensor, memory: str) -> BytePlace:
        place = self.places[memory].get(tensor.name)
        if place is None:
            raise MachineError(f"{tensor.name!r} has no place in {memory!r}")
        return place

    def _places_of(self, operator: Operator, tensor: Tensor) -> list[tuple[str, BytePlace]]:
        """Return a tensor's places in the scratchpads that hold such an operand, to which the array is wired."""
        operand = self.problem.operand(operator, tensor)
        places = [
            (memory, held[tensor.name])
            for memory, held in self.places.items()
            if tensor.name in held and operand in self._memories[memory].holds
        ]
        if not places:
            raise MachineError(
                f"{operator.name!r} needs {tensor.name!r}, which is in no scratchpad that holds {operand}s"
            )
        return places

    def _tensor(self, name: str) -> Tensor:
        tensor = self.problem.graph.tensor.get(name)
        if tensor is None or not self.problem.counts(tensor):
            raise MachineError(f"there is no tensor {name!r} in this plan's memories")
        return tensor

    def _memory(self, name: str) -> Memory:
        if name not in self._memories:
            raise MachineError(f"there is no scratchpad {name!r}")
        return self._memories[name]

    def _operator(self, name: str) -> Operator:
        operator = self.problem.graph.operator.get(name)
        if operator is None:
            raise MachineError(f"there is no operator {name!r}")
        return operator


@dataclass(slots=True)
class BytePlace:
    """A range [start, stop) of a scratchpad; `is_written` is True after the first write."""

    start: int
    stop: int
    is_written: bool = False


def filled(capacity_bytes: int) -> Bytes:
    """Return a scratchpad's bytes; address 0 is aligned in host memory, so that aligned data are usable in place."""
    room = np.full(capacity_bytes + ALIGNMENT_BYTES, FILL, np.uint8)
    start = -room.ctypes.data % ALIGNMENT_BYTES
    return room[start : start + capacity_bytes]


TILE_BYTE = 0xA5
"""Fill value of a workspace, different from zero and from the fill value of fresh memory."""


@dataclass(frozen=True, slots=True)
class ScheduledProgram:
    """A program over the operators of `tiles`, with the bytes of each operator's workspaces by memory.

    `executed` has the same operators with all their parameters, the ones that no schedule counts among them.
    """

    program: Plan
    tiles: Graph
    executed: Graph
    workspaces: Mapping[str, Mapping[str, int]]

    @property
    def problem(self) -> Problem:
        """Return the problem of the program, as for a run without a schedule."""
        return Problem(self.executed, self.program.memories, count=Count.ALL)


def run_schedule_on_machine(
    scheduled: ScheduledProgram, kernels: Kernels, inputs: Mapping[str, Bytes], reference: Reference
) -> MachineRun:
    """Execute a schedule's program; raises MachineError for what no machine can carry out."""
    return run_on(_ScheduleMachine(scheduled, kernels, inputs, reference), scheduled.program)


_Target: TypeAlias = "tuple[Tensor, tuple[str, BytePlace] | None]"
"""A band that is written, with its memory and its place there; None: DRAM."""


class _ScheduleMachine(ProgramMachine):
    """The addressed memories and DRAM, with Copies between any two of them."""

    def __init__(
        self, scheduled: ScheduledProgram, kernels: Kernels, inputs: Mapping[str, Bytes], reference: Reference
    ) -> None:
        super().__init__(scheduled.problem, kernels, inputs, reference)
        self._tiles = scheduled.tiles
        self._workspaces = scheduled.workspaces

    def execute(self, index: int, instruction: Instruction) -> None:
        """Do what an instruction says; a workspace is as large as its operator's mapping needs it in that memory."""
        match instruction:
            case Allocate(name, memory, offset_bytes) if self._is_workspace(name):
                self._allocate(self._workspace(name, memory), self._memory(memory), offset_bytes, is_state=False)
            case Free(name, memory) if self._is_workspace(name):
                self._free(self._workspace(name, memory), self._memory(memory))
            case _:
                super().execute(index, instruction)

    def _is_workspace(self, name: str) -> bool:
        return name.endswith(WORKSPACE) and name not in self.problem.graph.tensor

    def _workspace(self, name: str, memory: str) -> Tensor:
        size_bytes = self._workspaces.get(name.removesuffix(WORKSPACE), {}).get(memory)
        if size_bytes is None:
            raise MachineError(f"no mapping needs {name!r} in {memory!r}")
        return Tensor(name, size_bytes, Role.ACTIVATION)

    def _is_a_way(self, source: str, target: str) -> bool:
        return source != target

    # Compute

    def _compute(self, operator: Operator) -> None:
        banded = operands_of(self._tiles, self._tiles.operator[operator.name])
        self._overwrite_workspaces(operator)
        operands: dict[str, Bytes] = {}
        for operand in banded:
            if operand.operand is not Operand.OUTPUT:
                operands |= self._read_from_home(operator, operand)
        if self.difference is not None:
            return
        written = self.kernels.run(operator, operands)
        targets = [target for one in banded if one.operand is Operand.OUTPUT for target in self._targets(operator, one)]
        for tensor, place in targets:
            self._write(operator, tensor, place, written[tensor.name])
        self._overwrite_workspaces(operator)
        for tensor, place in targets:
            content = self.dram[tensor.name] if place is None else self._bytes_at(*place)
            self._compare(tensor, content, WrongBytes.WRITTEN, operator)
        self.step += 1

    def _overwrite_workspaces(self, operator: Operator) -> None:
        for memory in self._workspaces.get(operator.name, {}):
            place = self.places[memory].get(operator.name + WORKSPACE)
            if place is None:
                raise MachineError(f"{operator.name!r} has no workspace in {memory!r}")
            self._bytes_at(memory, place)[:] = TILE_BYTE

    def _read_from_home(self, operator: Operator, operand: BandedOperand) -> Iterator[tuple[str, Bytes]]:
        """Yield each band's bytes, from the memory nearest the MACs that has them all, else from DRAM."""
        for memory in self.problem.memories:
            places = [self.places[memory.name].get(band.name) for band in operand.bands]
            there = [place for place in places if place is not None and place.is_written]
            if operand.operand in memory.holds and len(there) == len(operand.bands):
                contents = [self._bytes_at(memory.name, place) for place in there]
                break
        else:
            contents = [self._stored(band).view() for band in operand.bands]
        for band, content in zip(operand.bands, contents, strict=True):
            self._compare(band, content, WrongBytes.READ, operator)
            content.flags.writeable = False
            yield band.name, content

    def _targets(self, operator: Operator, operand: BandedOperand) -> Iterator[_Target]:
        """Yield each band with its place in the one memory in which all are; None: they are written to DRAM."""
        found = {
            memory.name: [band.name for band in operand.bands if band.name in self.places[memory.name]]
            for memory in self.problem.memories
        }
        resident = {memory: names for memory, names in found.items() if names}
        for band in operand.bands:
            if not resident:
                yield band, None
                continue
            (home, names), *others = resident.items()
            if others or len(names) < len(operand.bands) or operand.operand not in self._memories[home].holds:
                raise MachineError(
                    f"{operator.name!r} writes {band.name!r}, of which there are bands in {', '.join(resident)}",
                    expected="all of them in one memory that holds outputs, or none in any",
                )
            yield band, (home, self.places[home][band.name])

    def _write(self, operator: Operator, tensor: Tensor, place: tuple[str, BytePlace] | None, content: Bytes) -> None:
        if len(content) != tensor.size_bytes:
            what = f"{operator.name!r} wrote {len(content)} bytes of {tensor.name!r}"
            raise MachineError(what, expected=str(tensor.size_bytes))
        if place is None:
            self.dram[tensor.name] = content.copy()
        else:
            self._bytes_at(*place)[:] = content
            place[1].is_written = True
