"""The makespan of a program, computed byte by byte: each byte of a scratchpad knows the end of its last use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

from onchip.answer.problem import Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction
from onchip.arch.memory import DRAM, Operand
from onchip.ir.operator import Operator

Place: TypeAlias = tuple[str, str]
"""A tensor and the scratchpad that it is in."""
LOADS: Place = (DRAM, "")
STORES: Place = ("", DRAM)


@dataclass(frozen=True)
class ByteClock:
    """An immutable clock; each instruction makes another one.

    `written` and `in_dram` give the cycle of a tensor's last write; `channels_free` gives the cycle in which a
    channel's next transfer may begin. The array reads a tensor in the first scratchpad that may hold such operands and
    has its bytes.
    """

    problem: Problem
    busy: Mapping[str, tuple[int, ...]]
    places: Mapping[Place, range] = field(default_factory=lambda: MappingProxyType({}))
    written: Mapping[Place, int] = field(default_factory=lambda: MappingProxyType({}))
    in_dram: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    array_free: int = 0
    queues_free: tuple[int, ...] = ()
    channels_free: Mapping[Place, int] = field(default_factory=lambda: MappingProxyType({}))
    copies: int = 0
    latest: int = 0

    @classmethod
    def at_start(cls, problem: Problem) -> ByteClock:
        """Return the clock before the first instruction."""
        assert problem.durations is not None
        busy = {memory.name: (0,) * memory.capacity_bytes for memory in problem.memories}
        return cls(problem, busy, queues_free=(0,) * problem.durations.queues)

    @property
    def loads_free(self) -> int:
        """Return the cycle in which DRAM can begin the next load."""
        return self.channels_free.get(LOADS, 0)

    @property
    def moment(self) -> object:
        """Return the state that later steps depend on."""
        queues = tuple(
            self.queues_free[(self.copies + k) % len(self.queues_free)] for k in range(len(self.queues_free))
        )
        there = frozenset((at, place.start, self.written.get(at, 0)) for at, place in self.places.items())
        busy, stored = tuple(self.busy.values()), frozenset(self.in_dram.items())
        return busy, there, stored, self.array_free, queues, frozenset(self.channels_free.items()), self.latest

    def after(self, instruction: Instruction) -> ByteClock:
        """Return the clock after one more instruction."""
        match instruction:
            case Allocate(tensor, memory, start):
                place = range(start, start + self.problem.graph.tensor[tensor].size_bytes)
                return replace(self, places={**self.places, (tensor, memory): place})
            case Free(tensor, memory):
                gone = (tensor, memory)
                written = {at: since for at, since in self.written.items() if at != gone}
                return replace(self, places={at: p for at, p in self.places.items() if at != gone}, written=written)
            case Copy(tensor, source, target):
                return self._copied(tensor, source, target)
            case Compute(operator):
                return self._computed(operator)

    def read_in(self, operator: Operator, tensor: str) -> Place:
        """Return the residency from which the array reads the tensor."""
        operand = self.problem.operand(operator, self.problem.graph.tensor[tensor])
        return next(at for at in self._held(tensor, operand) if at in self.written)

    def _held(self, tensor: str, operand: Operand) -> list[Place]:
        """Return the tensor's residencies in scratchpads that may hold such an operand."""
        reached = [memory.name for memory in self.problem.memories if operand in memory.holds]
        return [(tensor, name) for name in reached if (tensor, name) in self.places]

    def _free_at(self, at: Place) -> int:
        return max(self.busy[at[1]][byte] for byte in self.places[at])

    def _used(self, at: Place, end: int) -> ByteClock:
        place, until = self.places[at], max(end, self._free_at(at))
        busy = tuple(until if byte in place else old for byte, old in enumerate(self.busy[at[1]]))
        return replace(self, busy={**self.busy, at[1]: busy})

    def _copied(self, tensor: str, source: str, target: str) -> ByteClock:
        durations = self.problem.durations
        assert durations is not None
        cost = self.problem.transfer_cost(self.problem.graph.tensor[tensor], source, target)
        channel = (source, target)
        if DRAM in channel:
            channel = LOADS if durations.has_one_channel or source == DRAM else STORES
        queue, ends = self.copies % durations.queues, [(tensor, name) for name in (source, target) if name != DRAM]
        ready = self.in_dram.get(tensor, 0) if source == DRAM else self.written[tensor, source]
        if target != DRAM:
            ready = max(ready, self._free_at((tensor, target)))
        channel_free = self.channels_free.get(channel, 0)
        end = max(ready, self.queues_free[queue], channel_free - durations.setup_cycles) + cost
        queues = tuple(end if number == queue else free for number, free in enumerate(self.queues_free))
        done = replace(self, queues_free=queues, channels_free={**self.channels_free, channel: end})
        done = replace(done, copies=self.copies + 1, latest=max(self.latest, end))
        for at in ends:
            done = done._used(at, end)
        if target == DRAM:
            return replace(done, in_dram={**self.in_dram, tensor: end})
        return replace(done, written={**self.written, (tensor, target): end})

    def _computed(self, name: str) -> ByteClock:
        durations, operator = self.problem.durations, self.problem.graph.operator[name]
        assert durations is not None
        read = [
            self.read_in(operator, one.name) for one in self.problem.operands(operator) if one.name in operator.reads
        ]
        made = [at for tensor in operator.outputs for at in self._held(tensor, Operand.OUTPUT)]
        ready = [*(self.written[at] for at in read), *(self._free_at(at) for at in made)]
        end = max(self.array_free, *ready) + durations.of_operator(operator)
        done = replace(self, array_free=end, latest=max(self.latest, end))
        for at in (*read, *made):
            done = done._used(at, end)
        return replace(done, written={**self.written, **dict.fromkeys(made, end)})


def clocked(problem: Problem, instructions: tuple[Instruction, ...]) -> int:
    """Return the cycle in which the last instruction has ended."""
    clock = ByteClock.at_start(problem)
    for instruction in instructions:
        clock = clock.after(instruction)
    return clock.latest
