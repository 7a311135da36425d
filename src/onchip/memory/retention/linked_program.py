"""From a solution of the model with links to a plan: copies in the order of their times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.arch.memory import DRAM
from onchip.memory.retention.addressed_variables import StepPlace
from onchip.memory.retention.linked_variables import PossibleCopy
from onchip.model.lifetimes.indexed import IndexedProblem


@dataclass(frozen=True, slots=True)
class Residence:
    """A place at an offset in bytes; `end`: until when, in the boundary before its step, or None if in the step too."""

    place: StepPlace
    offset_bytes: int
    end: int | None


@dataclass(frozen=True, slots=True)
class TimedCopy:
    """A copy and when, within its boundary, it happens."""

    way: PossibleCopy
    time: int


class LinkedProgram:
    """The instructions so far of a plan whose scratchpads may be linked."""

    def __init__(self, indexed: IndexedProblem) -> None:
        self._indexed = indexed
        self._memories = [memory.name for memory in indexed.problem.memories]
        self._names = [tensor.name for tensor in indexed.tensors]
        self._instructions: list[Instruction] = []

    def copy(
        self, ends: Mapping[StepPlace, int], arriving: Sequence[Residence], transfers: Sequence[TimedCopy]
    ) -> None:
        """Write one boundary: `ends` says until when what was there in the step before, and leaves, is held."""
        arrivals = {one.place: one for one in arriving}
        held = [(end, place) for place, end in ends.items()]
        held += [(one.end, place) for place, one in arrivals.items() if one.end is not None]
        for transfer in sorted(transfers, key=lambda one: one.time):
            for end, place in sorted(held, key=lambda pair: pair[0]):
                if end <= transfer.time:
                    held.remove((end, place))
                    self._free(place)
            way = transfer.way
            if way.arrival in arrivals:
                self._allocate(way.arrival, arrivals[way.arrival].offset_bytes)
            self._instructions.append(Copy(self._names[way.tensor], self._name(way.source), self._name(way.target)))
        for _, place in held:
            self._free(place)

    def run(self, operator: int, offsets_bytes: Mapping[StepPlace, int]) -> None:
        """Write one step: the outputs have these places."""
        for place, offset_bytes in offsets_bytes.items():
            self._allocate(place, offset_bytes)
        self._instructions.append(Compute(self._indexed.problem.graph.operators[operator].name))

    def plan(self) -> Plan:
        """Return the plan; what nothing reads any more is freed at once."""
        return Plan(self._indexed.problem.memories, tuple(_freed_early(self._indexed, self._instructions)))

    def _allocate(self, place: StepPlace, offset_bytes: int) -> None:
        self._instructions.append(Allocate(self._names[place.tensor], self._memories[place.memory], offset_bytes))

    def _free(self, place: StepPlace) -> None:
        self._instructions.append(Free(self._names[place.tensor], self._memories[place.memory]))

    def _name(self, memory: int) -> str:
        return DRAM if memory < 0 else self._memories[memory]


def _freed_early(indexed: IndexedProblem, instructions: Sequence[Instruction]) -> list[Instruction]:
    """Return the same with each Free right behind the last instruction that uses its residency."""
    operands = {
        operator.name: {tensor.name for tensor in indexed.problem.operands(operator)}
        for operator in indexed.problem.graph.operators
    }
    last_use: dict[tuple[str, str], int] = {}
    frees: dict[int, list[Free]] = {}
    for index, instruction in enumerate(instructions):
        match instruction:
            case Allocate(tensor, memory, _):
                last_use[tensor, memory] = index
            case Copy(tensor, source, target):
                last_use |= {(tensor, end): index for end in (source, target) if (tensor, end) in last_use}
            case Compute(operator):
                last_use |= {key: index for key in last_use if key[0] in operands[operator]}
            case Free(tensor, memory):
                frees.setdefault(last_use.pop((tensor, memory)), []).append(instruction)
    for (tensor, memory), index in last_use.items():
        frees.setdefault(index, []).append(Free(tensor, memory))
    early: list[Instruction] = []
    for index, instruction in enumerate(instructions):
        if not isinstance(instruction, Free):
            early += (instruction, *frees.get(index, ()))
    return early
