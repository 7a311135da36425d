"""From an order with its transfers, and offsets, to a plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from onchip.answer.problem import Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.arch.memory import DRAM
from onchip.memory.timed.placing import PlacedOrder
from onchip.native import LatencyStay, LatencyTensor


@dataclass(slots=True)
class ProgramWriter:
    """Writes the program of a problem in bands: piece k of the search is operator k of the graph, and so for tensors.

    Before each operator, in this order: what is stored or no longer used leaves, loads begin in the order of the
    queues, what the operator writes gets its place.
    """

    problem: Problem
    placed: PlacedOrder
    _stays: Sequence[LatencyStay] = field(init=False)
    _instructions: list[Instruction] = field(default_factory=list)
    _leaving: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    _written: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self._stays = self.placed.timing.stays

    def plan(self) -> Plan:
        """Return the plan; stay i of the timing lies at offset i."""
        transfers = defaultdict(list)
        for transfer in self.placed.timing.transfers:
            transfers[transfer.position].append(transfer)
        for number, stay in enumerate(self._stays):
            self._leaving[stay.stop].append(number)
            if not stay.is_loaded:
                self._written[stay.start].append(number)
        operators = self.problem.graph.operators
        for step in range(len(self.placed.order) + 1):
            waiting = {one.stay for one in transfers[step] if one.is_store} & {*self._leaving[step]}
            self._free(number for number in self._leaving[step] if number not in waiting)
            for transfer in transfers[step]:
                self._begin(transfer.stay, is_store=transfer.is_store)
                if transfer.is_store and transfer.stay in waiting:
                    self._free((transfer.stay,))
            for number in self._written[step]:
                self._allocate(number)
            if step < len(self.placed.order):
                self._instructions.append(Compute(operators[self.placed.order[step]].name))
        return Plan(self.problem.memories, tuple(self._instructions), self.problem)

    def _begin(self, stay: int, *, is_store: bool) -> None:
        if not is_store:
            self._allocate(stay)
        memory = self._memory(stay)
        ends = (memory, DRAM) if is_store else (DRAM, memory)
        self._instructions.append(Copy(self._name(stay), *ends))

    def _allocate(self, stay: int) -> None:
        offset_bytes = self.placed.offsets_bytes[stay]
        self._instructions.append(Allocate(self._name(stay), self._memory(stay), offset_bytes))

    def _free(self, stays: Iterable[int]) -> None:
        self._instructions += (Free(self._name(stay), self._memory(stay)) for stay in stays)

    def _name(self, stay: int) -> str:
        number, same_as = self._stays[stay].tensor, self._tensor(stay).same_as
        return self.problem.counted_tensors[number if same_as < 0 else same_as].name

    def _memory(self, stay: int) -> str:
        return self.problem.memories[self._tensor(stay).memory].name

    def _tensor(self, stay: int) -> LatencyTensor:
        return self.placed.tensors[self._stays[stay].tensor]
