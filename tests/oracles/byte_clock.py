"""When everything of a program ends, byte by byte: each byte knows until when it is in use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from onchip.answer.problem import Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction
from onchip.arch.memory import DRAM


@dataclass(frozen=True)
class ByteClock:
    """One scratchpad; a step makes another clock. `written` and `in_dram` say since when a tensor is there."""

    problem: Problem
    busy: tuple[int, ...]
    places: Mapping[str, range] = field(default_factory=lambda: MappingProxyType({}))
    written: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    in_dram: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    array_free: int = 0
    queues_free: tuple[int, ...] = ()
    channels_free: tuple[int, int] = (0, 0)
    copies: int = 0
    latest: int = 0

    @classmethod
    def at_start(cls, problem: Problem) -> ByteClock:
        """Nothing has happened."""
        assert problem.durations is not None
        return cls(problem, (0,) * problem.memories[0].capacity_bytes, queues_free=(0,) * problem.durations.queues)

    @property
    def moment(self) -> object:
        """All that later steps depend on."""
        queues = tuple(
            self.queues_free[(self.copies + k) % len(self.queues_free)] for k in range(len(self.queues_free))
        )
        there = frozenset((name, place.start, self.written.get(name, 0)) for name, place in self.places.items())
        stored = frozenset(self.in_dram.items())
        return self.busy, there, stored, self.array_free, queues, self.channels_free, self.latest

    def after(self, instruction: Instruction) -> ByteClock:
        """The clock when an instruction more has been read."""
        match instruction:
            case Allocate(tensor, _, start):
                place = range(start, start + self.problem.graph.tensor[tensor].size_bytes)
                return replace(self, places={**self.places, tensor: place})
            case Free(tensor):
                return replace(self, places={name: at for name, at in self.places.items() if name != tensor})
            case Copy(tensor, source, target):
                return self._copied(tensor, source, target)
            case Compute(operator):
                return self._computed(operator)

    def _free_at(self, tensor: str) -> int:
        return max(self.busy[byte] for byte in self.places[tensor])

    def _used(self, tensor: str, end: int) -> ByteClock:
        place, until = self.places[tensor], max(end, self._free_at(tensor))
        return replace(self, busy=tuple(until if byte in place else old for byte, old in enumerate(self.busy)))

    def _copied(self, tensor: str, source: str, target: str) -> ByteClock:
        durations = self.problem.durations
        assert durations is not None
        cost = self.problem.transfer_cost(self.problem.graph.tensor[tensor], source, target)
        queue, channel = self.copies % durations.queues, 0 if durations.has_one_channel or source == DRAM else 1
        ready = self.in_dram.get(tensor, 0) if source == DRAM else self.written[tensor]
        if target != DRAM:
            ready = max(ready, self._free_at(tensor))
        start = max(ready, self.queues_free[queue], self.channels_free[channel] - durations.setup_cycles)
        end = start + cost
        queues = tuple(end if number == queue else free for number, free in enumerate(self.queues_free))
        channels = (end, self.channels_free[1]) if channel == 0 else (self.channels_free[0], end)
        done = replace(self, queues_free=queues, channels_free=channels, copies=self.copies + 1)
        done = replace(done._used(tensor, end), latest=max(self.latest, end))
        if target == DRAM:
            return replace(done, in_dram={**self.in_dram, tensor: end})
        return replace(done, written={**self.written, tensor: end})

    def _computed(self, name: str) -> ByteClock:
        durations, operator = self.problem.durations, self.problem.graph.operator[name]
        assert durations is not None
        ready = [self.written[tensor] for tensor in operator.reads]
        ready += [self._free_at(tensor) for tensor in operator.outputs]
        end = max(self.array_free, *ready) + durations.of_operator(operator)
        done = replace(self, array_free=end, latest=max(self.latest, end))
        for tensor in dict.fromkeys((*operator.reads, *operator.outputs)):
            done = done._used(tensor, end)
        return replace(done, written={**self.written, **dict.fromkeys(operator.outputs, end)})


def clocked(problem: Problem, instructions: tuple[Instruction, ...]) -> int:
    """The cycle in which all has ended."""
    clock = ByteClock.at_start(problem)
    for instruction in instructions:
        clock = clock.after(instruction)
    return clock.latest
