"""Recompute the latency of a plan, from the bytes that each instruction uses."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from onchip.answer.problem import Durations, Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Plan
from onchip.arch.memory import DRAM


@dataclass(slots=True)
class UsedBytes:
    """The last use of each address range: cycle `until[i]` applies from `starts[i]` to the next start."""

    starts: list[int] = field(default_factory=lambda: [0])
    until: list[int] = field(default_factory=lambda: [0])

    def latest(self, start: int, stop: int) -> int:
        """Return the last cycle in which any of the bytes is in use."""
        first = bisect_right(self.starts, start) - 1
        return max(self.until[first : bisect_left(self.starts, stop)])

    def use(self, start: int, stop: int, cycle: int) -> None:
        """Mark all of the bytes as used until `cycle`, which must not precede their recorded last use."""
        self._begin_at(stop)
        first, last = bisect_left(self.starts, start), bisect_left(self.starts, stop)
        self.starts[first:last] = [start]
        self.until[first:last] = [cycle]

    def _begin_at(self, address: int) -> None:
        place = bisect_left(self.starts, address)
        if place == len(self.starts) or self.starts[place] != address:
            self.starts.insert(place, address)
            self.until.insert(place, self.until[place - 1])


def latency_cycles(problem: Problem, durations: Durations, plan: Plan) -> int:
    """Return the cycle in which the last operator and the last transfer of a legal plan have ended.

    Raises UsageError if the duration of an operator is unknown.
    """
    clock = _PlanClock(problem, durations)
    for instruction in plan.instructions:
        match instruction:
            case Allocate(tensor, memory, start, is_state):
                clock.allocate(tensor, memory, start, is_written=is_state)
            case Free(tensor, memory):
                del clock.places[tensor, memory]
            case Copy(tensor, source, target):
                clock.copy(tensor, source, target)
            case Compute(operator):
                clock.compute(operator)
    return clock.latest


@dataclass(slots=True)
class _PlaceOfTensor:
    """A tensor's bytes [start, stop) of a scratchpad, with the cycle of their last use and that of their last write."""

    start: int
    stop: int
    used_until: int
    is_written: bool
    written_at: int = 0

    def write(self, end: int) -> None:
        """Record that the bytes hold the tensor from cycle `end` on."""
        self.written_at, self.is_written = end, True


@dataclass(slots=True)
class _PlanClock:
    """The clock of a plan's execution: an instruction waits only for conflicting instructions before it."""

    problem: Problem
    durations: Durations
    latest: int = 0
    places: dict[tuple[str, str], _PlaceOfTensor] = field(default_factory=dict)
    _used: dict[str, UsedBytes] = field(default_factory=lambda: defaultdict(UsedBytes))
    _in_dram_at: dict[str, int] = field(default_factory=dict)
    _computed_until: int = 0
    _queue_until: dict[int, int] = field(default_factory=dict)
    _channel_until: dict[tuple[str, str], int] = field(default_factory=dict)
    _copies: int = 0

    def allocate(self, tensor: str, memory: str, start: int, *, is_written: bool) -> None:
        """Reserve the bytes; they may be written once the last earlier use of any of them has ended."""
        stop = start + self.problem.graph.tensor[tensor].size_bytes
        used_until = self._used[memory].latest(start, stop)
        self.places[tensor, memory] = _PlaceOfTensor(start, stop, used_until, is_written)

    def copy(self, tensor: str, source: str, target: str) -> None:
        """Run copy k on queue k mod `queues`; it starts late enough that its set-up is never followed by a wait."""
        queue = self._copies % self.durations.queues
        self._copies += 1
        channel = self._channel(source, target)
        size_bytes = self.problem.graph.tensor[tensor].size_bytes
        setup_cycles = self.durations.setup_cycles
        begins = [self._queue_until.get(queue, 0), self._channel_until.get(channel, 0) - setup_cycles]
        begins.append(self._in_dram_at.get(tensor, 0) if source == DRAM else self.places[tensor, source].written_at)
        if target != DRAM:
            begins.append(self.places[tensor, target].used_until)
        end = max(0, *begins) + self.problem.transfers.rates[source, target].cost(size_bytes)
        self._queue_until[queue] = self._channel_until[channel] = end
        if source != DRAM:
            self._use([(tensor, source)], end)
        if target == DRAM:
            self._in_dram_at[tensor] = end
        else:
            self._use([(tensor, target)], end)
            self.places[tensor, target].write(end)
        self.latest = max(self.latest, end)

    def compute(self, name: str) -> None:
        """Run the operator after the operators before it, once inputs are written and the bytes of outputs are free."""
        operator = self.problem.graph.operator[name]
        read: list[tuple[str, str]] = []
        written: list[tuple[str, str]] = []
        for tensor in self.problem.operands(operator):
            operand = self.problem.operand(operator, tensor)
            holding = [memory.name for memory in self.problem.memories if operand in memory.holds]
            places = [(tensor.name, memory) for memory in holding if (tensor.name, memory) in self.places]
            is_output = tensor.name in operator.outputs
            (written if is_output else read).append(places[0] if is_output else self._read_from(places))
        begins = [self.places[each].written_at for each in read] + [self.places[each].used_until for each in written]
        end = max(self._computed_until, *begins, 0) + self.durations.of_operator(operator)
        self._computed_until = end
        self._use((*read, *written), end)
        for each in written:
            self.places[each].write(end)
        self.latest = max(self.latest, end)

    def _read_from(self, places: Sequence[tuple[str, str]]) -> tuple[str, str]:
        """Return the first residency that has been written; copies into other scratchpads may still be pending."""
        return next(place for place in places if self.places[place].is_written)

    def _channel(self, source: str, target: str) -> tuple[str, str]:
        """Return the exclusive resource of a transfer: DRAM, its ports of one direction, or an on-chip link."""
        if DRAM not in (source, target):
            return source, target
        return ("", "") if self.durations.has_one_channel else (source if source == DRAM else "", "")

    def _use(self, places: Iterable[tuple[str, str]], end: int) -> None:
        for name, memory in places:
            place = self.places[name, memory]
            place.used_until = max(place.used_until, end)
            self._used[memory].use(place.start, place.stop, place.used_until)
