"""When each operator and each transfer of a plan starts and ends.

The array runs the operators in the plan's order. Transfers go to the DMA queues in turn, each
queue in the plan's order: a transfer is set up on its queue and then has the DRAM to itself, or,
where DRAM has ports for reading and for writing apart, the ports of its direction; one from
scratchpad to scratchpad has their link to itself. Otherwise all runs as soon as it can:

* an operator waits for the bytes it reads and for the places it writes to;
* a load waits for its place, and for the write-back that made DRAM's copy;
* a write-back waits for the bytes, a move over a link for the bytes and for its place;
* a place waits until whatever used its bytes before, reading or writing, is done with them.

Allocate and Free take no time. Because every order is fixed by the plan, no activity can begin
later when another gets shorter: a faster DRAM never makes a plan slower.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from onchip.answer.problem import Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Dma
from onchip.cost.timeline.energy import AccessMeter, Energy
from onchip.cost.timeline.links import Links, StatedLinks
from onchip.ir.operator import Operator
from onchip.ir.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Activity:
    """Cycles [start, stop) of an operator, or of a transfer on DMA queue `queue` (None for operators).

    `subject` names the operator or tensor; `instruction` is an index into the plan.
    """

    instruction: int
    subject: str
    start: int
    stop: int
    queue: int | None = None
    source: str | None = None
    target: str | None = None

    @property
    def cycles(self) -> int:
        """Return for how many cycles it lasts."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Timeline:
    """`activities` in the plan's order; cycles from 0, when the plan begins, to `total_cycles`, when all is done."""

    activities: tuple[Activity, ...]
    macs: int
    macs_per_cycle: int
    dma: Dma
    energy: Energy

    @property
    def total_cycles(self) -> int:
        """Until the last activity has ended."""
        return max((activity.stop for activity in self.activities), default=0)

    @property
    def compute_cycles(self) -> int:
        """Return for how many cycles the array runs operators."""
        return sum(activity.cycles for activity in self.activities if activity.queue is None)

    @property
    def stalled_cycles(self) -> int:
        """In which it does not: it can only be waiting for transfers, the last of them included."""
        return self.total_cycles - self.compute_cycles

    @property
    def transfer_cycles(self) -> int:
        """Return for how many cycles transfers last, those of all queues added up."""
        return sum(activity.cycles for activity in self.activities if activity.queue is not None)

    @property
    def dma_utilisation(self) -> float:
        """The share of its time that a queue is busy, set-up included."""
        return self.transfer_cycles / (self.dma.queues * self.total_cycles) if self.total_cycles else 0.0

    @property
    def mac_utilisation(self) -> float:
        """Multiply-accumulates done, by those that could have been done."""
        return self.macs / (self.macs_per_cycle * self.total_cycles) if self.total_cycles else 0.0


def time_plan(
    problem: Problem,
    plan: Plan,
    accelerator: Accelerator,
    compute_cycles: Callable[[Operator], int],
    macs: Callable[[Operator], int],
) -> Timeline:
    """Time a legal plan; raises AcceleratorError where the accelerator does not say how fast DRAM or a link is."""
    clock = _Clock(problem, Links(problem, accelerator), compute_cycles)
    for index, instruction in enumerate(plan.instructions):
        clock.execute(index, instruction)
    done = sum(
        macs(problem.graph.operator[activity.subject]) for activity in clock.activities if activity.queue is None
    )
    array = accelerator.array
    mac_pj = None if array is None or array.mac_energy_pj is None else done * array.mac_energy_pj
    scratchpads, dram = clock.scratchpads, clock.dram
    energy = Energy(mac_pj, scratchpads.read_pj, scratchpads.write_pj, dram.read_pj, dram.write_pj)
    return Timeline(tuple(clock.activities), done, array.macs if array else 1, clock.links.dma, energy)


def latency_of_plan(problem: Problem, plan: Plan) -> int:
    """Return the cycle in which a legal plan has ended; raises UsageError where nothing says how long things last."""
    clock = _Clock(problem, StatedLinks(problem), problem.known_durations.of_operator)
    for index, instruction in enumerate(plan.instructions):
        clock.execute(index, instruction)
    return max((activity.stop for activity in clock.activities), default=0)


@dataclass(slots=True)
class _BusyPlace:
    """Bytes [start, stop) of a scratchpad: whose they are, since when they hold it, until when they are in use."""

    start: int
    stop: int
    busy_until: int
    written_at: int | None = None


@dataclass(slots=True)
class _Memory:
    """The places of one scratchpad, and when those that were freed are no longer in use."""

    held: dict[str, _BusyPlace] = field(default_factory=dict)
    freed: list[_BusyPlace] = field(default_factory=list)

    def begin(self, tensor: Tensor, start: int, *, is_state: bool) -> None:
        stop = start + tensor.size_bytes
        others = (*self.freed, *self.held.values())  # what is held there is overwritten
        below = [place for place in others if place.start < stop and start < place.stop]
        busy_until = max((place.busy_until for place in below), default=0)
        self.held[tensor.name] = _BusyPlace(start, stop, busy_until, 0 if is_state else None)
        # What the new place covers wholly is done with before the new one is.
        self.freed = [place for place in self.freed if place.start < start or place.stop > stop]

    def end(self, tensor: Tensor) -> None:
        self.freed.append(self.held.pop(tensor.name))


class _Clock:
    def __init__(self, problem: Problem, links: Links | StatedLinks, compute_cycles: Callable[[Operator], int]) -> None:
        self.links = links
        self.activities: list[Activity] = []
        self.scratchpads, self.dram = AccessMeter(), AccessMeter()
        self._problem = problem
        self._compute_cycles = compute_cycles
        self._memories = {memory.name: _Memory() for memory in problem.memories}
        self._array_free = 0
        self._queue_free = [0] * links.dma.queues
        self._channel_free: dict[tuple[str, str], int] = {}
        self._in_dram_at: dict[str, int] = {}
        self._transfers = 0

    def execute(self, index: int, instruction: Instruction) -> None:
        tensors = self._problem.graph.tensor
        match instruction:
            case Allocate(tensor, memory, offset_bytes, is_state):
                self._memories[memory].begin(tensors[tensor], offset_bytes, is_state=is_state)
            case Free(tensor, memory):
                self._memories[memory].end(tensors[tensor])
            case Copy(tensor, source, target):
                self._transfer(index, tensors[tensor], source, target)
            case Compute(operator):
                self._compute(index, self._problem.graph.operator[operator])

    def _transfer(self, index: int, tensor: Tensor, source: str, target: str) -> None:
        held = {name: memory.held[tensor.name] for name, memory in self._memories.items() if name in (source, target)}
        ready = (held[source].written_at or 0) if source in held else self._in_dram_at.get(tensor.name, 0)
        if target in held:
            ready = max(ready, held[target].busy_until)
        start, stop, queue = self._take_turn(ready, tensor.size_bytes, source, target)
        self.activities.append(Activity(index, tensor.name, start, stop, queue, source, target))
        for place in held.values():
            place.busy_until = max(place.busy_until, stop)
        if target in held:
            held[target].written_at = stop
        else:
            self._in_dram_at[tensor.name] = stop
        self._meter(source).read(self.links.access(source), tensor.size_bytes)
        self._meter(target).write(self.links.access(target), tensor.size_bytes)

    def _take_turn(self, ready: int, size_bytes: int, source: str, target: str) -> tuple[int, int, int]:
        """The next queue, and the DRAM or the link once set-up is over; never waits in between."""
        queue = self._transfers % len(self._queue_free)
        self._transfers += 1
        channel = self._channel(source, target)
        setup_cycles = self.links.dma.setup_cycles
        start = max(ready, self._queue_free[queue], self._channel_free.get(channel, 0) - setup_cycles)
        stop = start + setup_cycles + self.links.cycles(size_bytes, source, target)
        self._queue_free[queue] = self._channel_free[channel] = stop
        return start, stop, queue

    def _channel(self, source: str, target: str) -> tuple[str, str]:
        """What one transfer at a time has to itself: DRAM, its ports of one direction, or a link."""
        if DRAM not in (source, target):
            return source, target
        return (DRAM, "") if source == DRAM or self.links.has_one_channel else ("", DRAM)

    def _meter(self, memory: str) -> AccessMeter:
        return self.dram if memory == DRAM else self.scratchpads

    def _compute(self, index: int, operator: Operator) -> None:
        reads, writes = [], []
        start = self._array_free
        for tensor in self._problem.operands(operator):
            operand = self._problem.operand(operator, tensor)
            places = [
                (memory.name, self._memories[memory.name].held[tensor.name])
                for memory in self._problem.memories
                if operand in memory.holds and tensor.name in self._memories[memory.name].held
            ]
            if tensor.name in operator.outputs:
                writes += places
                start = max(start, *(place.busy_until for _, place in places))
                for name, _ in places:
                    self.scratchpads.write(self.links.access(name), tensor.size_bytes)
            else:
                name, place = next(each for each in places if each[1].written_at is not None)
                reads.append(place)
                start = max(start, place.written_at or 0)
                self.scratchpads.read(self.links.access(name), tensor.size_bytes)
        stop = start + self._compute_cycles(operator)
        self._array_free = stop
        self.activities.append(Activity(index, operator.name, start, stop))
        for place in reads:
            place.busy_until = max(place.busy_until, stop)
        for _, place in writes:
            place.busy_until = place.written_at = stop
