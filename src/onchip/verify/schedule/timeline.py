"""The latency of a schedule: a plain clock that goes through the program once (docs/schedule.md, 7)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction
from onchip.answer.schedule import WORKSPACE
from onchip.arch.memory import DRAM, Dma, Operand
from onchip.verify.schedule.costs import Expense
from onchip.verify.schedule.operands import TileOperand
from onchip.verify.schedule.streaming import HomeOf
from onchip.verify.used_bytes import UsedBytes


@dataclass(slots=True)
class _TimedPlace:
    """A residency: when its bytes are free, when its content is written, and when its last use ends, in cycles."""

    start: int
    stop: int
    free_at: int
    written_at: int = 0
    used_until: int | None = None

    def use(self, cycle: int) -> None:
        self.used_until = max(cycle, self.used_until or 0)


@dataclass(slots=True)
class Clock:
    """Goes through a legal program once; `sizes` are bytes by tensor and memory, `expenses` by instruction's number."""

    sizes: Mapping[tuple[str, str], int]
    expenses: Mapping[int, Expense]
    operands: Mapping[str, Sequence[TileOperand]]
    homes: Mapping[str, HomeOf]
    dma: Dma
    latency_cycles: int = 0
    _places: dict[tuple[str, str], _TimedPlace] = field(default_factory=dict)
    _used: dict[str, UsedBytes] = field(default_factory=lambda: defaultdict(UsedBytes))
    _in_dram_at: dict[str, int] = field(default_factory=dict)
    _computed_until: int = 0
    _dram_until: int = 0
    _queues_until: dict[int, int] = field(default_factory=dict)
    _copies: int = 0

    def run(self, program: Sequence[Instruction]) -> int:
        """Return the cycle in which the last instruction and the last DRAM transfer have ended."""
        for number, instruction in enumerate(program):
            match instruction:
                case Allocate(tensor, memory, start):
                    stop = start + self.sizes[tensor, memory]
                    self._places[tensor, memory] = _TimedPlace(start, stop, self._used[memory].latest(start, stop))
                case Free(tensor, memory):
                    place = self._places.pop((tensor, memory))
                    if place.used_until is not None:
                        self._used[memory].use(place.start, place.stop, place.used_until)
                case Copy():
                    self._copy(instruction, self.expenses[number])
                case Compute(operator):
                    self._compute(operator, self.expenses[number])
        return self.latency_cycles

    def _copy(self, copy: Copy, expense: Expense) -> None:
        """Copy k takes its turn in queue k mod queues."""
        queue = self._copies % self.dma.queues
        self._copies += 1
        moments = [self._queues_until.get(queue, 0), self._written_at(copy.tensor, copy.source)]
        if copy.target != DRAM:
            moments.append(self._places[copy.tensor, copy.target].free_at)
        end = self._begin(moments, expense) + expense.cycles
        self._queues_until[queue] = end
        if copy.source != DRAM:
            self._places[copy.tensor, copy.source].use(end)
        self._write(copy.tensor, copy.target, end)

    def _compute(self, operator: str, expense: Expense) -> None:
        """Computes take their turns, each where its operands have their homes."""
        read: list[tuple[str, str]] = []
        written: list[tuple[str, str]] = []
        for operand in self.operands[operator]:
            home = self.homes[operator][operand.base] or DRAM
            (written if operand.held_as is Operand.OUTPUT else read).extend([(band, home) for band in operand.bands])
        used = [self._places[operator + WORKSPACE, memory] for memory in expense.workspaces]
        moments = [self._computed_until, *[place.free_at for place in used]]
        moments += [self._places[each].free_at for each in written if each[1] != DRAM]
        moments += [self._written_at(*each) for each in read]
        used += [self._places[each] for each in read if each[1] != DRAM]
        end = self._begin(moments, expense) + expense.cycles
        self._computed_until = end
        for place in used:
            place.use(end)
        for band, home in written:
            self._write(band, home, end)

    def _begin(self, moments: Sequence[int], expense: Expense) -> int:
        """Return the cycle in which an instruction begins.

        It begins when its dependencies have ended and, if it moves bits from or to DRAM, when DRAM is free.
        """
        start = max(*moments, self._dram_until if expense.dram_cycles else 0)
        if expense.dram_cycles:
            self._dram_until = start + expense.dram_cycles
        self.latency_cycles = max(self.latency_cycles, start + expense.cycles, self._dram_until)
        return start

    def _written_at(self, tensor: str, memory: str) -> int:
        return self._in_dram_at.get(tensor, 0) if memory == DRAM else self._places[tensor, memory].written_at

    def _write(self, tensor: str, memory: str, end: int) -> None:
        """Record the end of a write of a tensor; the last writer determines when the tensor is available."""
        if memory == DRAM:
            self._in_dram_at[tensor] = end
        else:
            place = self._places[tensor, memory]
            place.written_at = end
            place.use(end)
