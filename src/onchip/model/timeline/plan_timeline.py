"""The timeline of a plan, with the energy and the links of its transfers.

The array runs the operators in the plan's order. Transfers go to the DMA queues in turn, each queue in the plan's
order. A transfer is set up on its queue and then has DRAM exclusively, or the DRAM ports of its direction if reads and
writes have separate ports. A transfer between scratchpads has their link exclusively. Otherwise each activity starts as
soon as it can:

* an operator waits for the bytes it reads and for the space it writes to;
* a load waits for its space, and for the write-back that made DRAM's copy;
* a write-back waits for the bytes, a move over a link for the bytes and for its space;
* a space waits until every earlier read or write of its bytes has ended.

Allocate and Free take no time. Because the plan fixes every order, no activity can start later when another gets
shorter: a faster DRAM never makes a plan slower.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from onchip.answer.problem import Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Access, Direction, Dma
from onchip.errors import AcceleratorError
from onchip.ir.operator import Operator
from onchip.ir.tensor import Tensor
from onchip.model.timeline.activity import (
    START,
    Activity,
    LatencyParts,
    Moment,
    PlaceUse,
    Wait,
    begin_after,
    latency_parts,
)


@dataclass(frozen=True, slots=True)
class Energy:
    """The energy of a plan in pJ: multiply-accumulates, scratchpad accesses and DRAM accesses.

    Each operator reads each operand from its scratchpad once and writes each result once. A move over a link reads one
    scratchpad and writes another. A part is None if the accelerator does not state its cost. Memories nearer to the
    MACs are excluded, since a plan does not describe them.
    """

    mac_pj: float | None
    scratchpad_read_pj: float | None
    scratchpad_write_pj: float | None
    dram_read_pj: float | None
    dram_write_pj: float | None

    @property
    def total_pj(self) -> float | None:
        """Return the sum of the parts, or None if one is unknown."""
        parts = (self.mac_pj, self.scratchpad_read_pj, self.scratchpad_write_pj, self.dram_read_pj, self.dram_write_pj)
        return None if None in parts else sum(part for part in parts if part is not None)


@dataclass(slots=True)
class AccessMeter:
    """The accesses of one or several memories; an energy is None once an access has an unknown cost."""

    read_pj: float | None = 0.0
    write_pj: float | None = 0.0

    def read(self, access: Access | None, size_bytes: int) -> None:
        """Add a read of `size_bytes`."""
        more = None if access is None else access.read_energy_pj * accesses(access, size_bytes)
        self.read_pj = None if self.read_pj is None or more is None else self.read_pj + more

    def write(self, access: Access | None, size_bytes: int) -> None:
        """Add a write of `size_bytes`."""
        more = None if access is None else access.write_energy_pj * accesses(access, size_bytes)
        self.write_pj = None if self.write_pj is None or more is None else self.write_pj + more


def accesses(access: Access, size_bytes: int) -> float:
    """Return the number of accesses for the bytes; the last may be as short as the memory allows."""
    unit = access.shortest_access_bits or access.access_bits
    return -(-size_bytes * 8 // unit) * unit / access.access_bits


class Links:
    """The scratchpads of a problem on an accelerator, with their links and the paths to DRAM.

    Scratchpads match by name; a single scratchpad on both sides always matches. Raises AcceleratorError for a
    scratchpad that the accelerator lacks.
    """

    def __init__(self, problem: Problem, accelerator: Accelerator) -> None:
        self.dma = accelerator.dma or Dma()
        self._accelerator = accelerator
        self._access: dict[str, Access | None] = {
            level.memory.name: level.access for level in accelerator.levels if level.is_scratchpad
        } | {DRAM: accelerator.dram.access if accelerator.dram else None}
        self._names = _names_of(problem, accelerator)

    @property
    def has_one_channel(self) -> bool:
        """Return True if loads and write-backs take turns at DRAM: a read-write port does one at a time."""
        ports = self._accelerator.dram.ports if self._accelerator.dram else ()
        return any(port.direction is Direction.READ_WRITE for port in ports)

    def access(self, memory: str) -> Access | None:
        """Return the access of a scratchpad or DRAM, None if its cost is not stated."""
        return self._access[self._names[memory]]

    def cycles(self, size_bytes: int, source: str, target: str) -> int:
        """Return the cycles of a transfer without its set-up; raises AcceleratorError if no rate is stated."""
        bits_per_cycle = self._accelerator.bits_per_cycle(self._names[source], self._names[target])
        return -(-size_bytes * 8 // bits_per_cycle)


def _names_of(problem: Problem, accelerator: Accelerator) -> dict[str, str]:
    """Return the accelerator's name of each memory of the plan."""
    known = [memory.name for memory in accelerator.scratchpads]
    names = [memory.name for memory in problem.memories]
    if len(names) == len(known) == 1:
        return {DRAM: DRAM, names[0]: known[0]}
    for name in names:
        if name not in known:
            raise AcceleratorError(
                f"it has no scratchpad {name!r}, which the plan uses",
                place=f"accelerator {accelerator.name!r}",
                expected=f"one of {', '.join(known)}",
            )
    return {name: name for name in (DRAM, *names)}


class StatedLinks:
    """The transfer paths of a problem that states durations, but no energies."""

    def __init__(self, problem: Problem) -> None:
        durations = problem.known_durations
        self.dma = Dma(durations.queues, durations.setup_cycles)
        self.has_one_channel = durations.has_one_channel
        self._rates = problem.transfers.rates

    def access(self, memory: str) -> Access | None:
        """Return None: access costs are unknown."""
        del memory
        return None

    def cycles(self, size_bytes: int, source: str, target: str) -> int:
        """Return the cycles of a transfer without its set-up; every path of such a problem has a rate."""
        rate = self._rates[source, target]
        return rate.cost(size_bytes) - rate.setup


@dataclass(frozen=True, slots=True)
class Timeline:
    """The timeline of a plan: `activities` in the plan's order, in cycles from 0 to `total_cycles`.

    `places` are the residencies in the order of their Allocates, in cycles.
    """

    activities: tuple[Activity, ...]
    macs: int
    macs_per_cycle: int
    dma: Dma
    energy: Energy
    places: tuple[PlaceUse, ...] = ()

    @property
    def total_cycles(self) -> int:
        """Return the end of the last activity."""
        return max((activity.stop for activity in self.activities), default=0)

    @property
    def compute_cycles(self) -> int:
        """Return the cycles in which the array runs operators."""
        return sum(activity.cycles for activity in self.activities if activity.queue is None)

    @property
    def stalled_cycles(self) -> int:
        """Return the cycles in which the array waits for transfers, including the last ones."""
        return self.total_cycles - self.compute_cycles

    @property
    def parts(self) -> LatencyParts:
        """Return the parts of the latency."""
        return latency_parts(self.activities)

    @property
    def transfer_cycles(self) -> int:
        """Return the sum of all transfers' cycles, over all queues."""
        return sum(activity.cycles for activity in self.activities if activity.queue is not None)

    @property
    def dma_utilisation(self) -> float:
        """Return the share of time that a queue is busy, set-up included."""
        return self.transfer_cycles / (self.dma.queues * self.total_cycles) if self.total_cycles else 0.0

    @property
    def mac_utilisation(self) -> float:
        """Return the MAC utilisation: multiply-accumulates over units times cycles."""
        return self.macs / (self.macs_per_cycle * self.total_cycles) if self.total_cycles else 0.0


def time_plan(
    problem: Problem,
    plan: Plan,
    accelerator: Accelerator,
    compute_cycles: Callable[[Operator], int],
    macs: Callable[[Operator], int],
) -> Timeline:
    """Return the timeline of a legal plan; raises AcceleratorError if the rate of DRAM or a link is not stated."""
    clock = PlanClock(problem, plan, Links(problem, accelerator), compute_cycles).replayed()
    done = sum(
        macs(problem.graph.operator[activity.subject]) for activity in clock.activities if activity.queue is None
    )
    array = accelerator.array
    mac_pj = None if array is None or array.mac_energy_pj is None else done * array.mac_energy_pj
    scratchpads, dram = clock.scratchpads, clock.dram
    energy = Energy(mac_pj, scratchpads.read_pj, scratchpads.write_pj, dram.read_pj, dram.write_pj)
    links_dma, places = clock.links.dma, tuple(clock.places)
    return Timeline(tuple(clock.activities), done, array.macs if array else 1, links_dma, energy, places)


@dataclass(frozen=True, slots=True)
class PlanClock:
    """A plan with the durations of its activities, from an accelerator or from its problem."""

    problem: Problem
    plan: Plan
    links: Links | StatedLinks
    compute_cycles: Callable[[Operator], int]

    @classmethod
    def stated(cls, problem: Problem, plan: Plan) -> PlanClock:
        """Return the clock of a plan whose problem states durations; raises UsageError if it does not."""
        return cls(problem, plan, StatedLinks(problem), problem.known_durations.of_operator)

    def run(self, roomy: AbstractSet[str] = frozenset()) -> tuple[tuple[Activity, ...], tuple[PlaceUse, ...]]:
        """Return the activities and residencies; in `roomy` memories no activity waits for space."""
        clock = self.replayed(roomy)
        return tuple(clock.activities), tuple(clock.places)

    def replayed(self, roomy: AbstractSet[str] = frozenset()) -> _Clock:
        """Return the clock after the last instruction."""
        clock = _Clock(self.problem, self.links, self.compute_cycles, roomy)
        for index, instruction in enumerate(self.plan.instructions):
            clock.execute(index, instruction)
        return clock


def stated_timeline(problem: Problem, plan: Plan) -> Timeline:
    """Return a legal plan's timeline by its problem's durations, without energy; raises UsageError without them."""
    clock = PlanClock.stated(problem, plan)
    activities, places = clock.run()
    return Timeline(activities, 0, 1, clock.links.dma, Energy(None, None, None, None, None), places)


def latency_of_plan(problem: Problem, plan: Plan) -> int:
    """Return the latency of a legal plan in cycles; raises UsageError if durations are not stated."""
    activities, _ = PlanClock.stated(problem, plan).run()
    return max((activity.stop for activity in activities), default=0)


@dataclass(slots=True)
class _BusyPlace:
    """A residency with the time its bytes are written, and the end of the last use of its space."""

    used: PlaceUse
    busy_until: Moment
    written_at: Moment | None = None

    @property
    def start(self) -> int:
        return self.used.offset_bytes

    @property
    def stop(self) -> int:
        return self.used.offset_bytes + self.used.size_bytes

    def use(self, start: int, end: Moment) -> None:
        self.used.use(start, end[0])
        self.busy_until = max(self.busy_until, end)


@dataclass(slots=True)
class _Memory:
    """The residencies of one scratchpad, and the times when freed spaces are no longer in use.

    In a roomy memory no activity waits for space.
    """

    is_roomy: bool = False
    held: dict[str, _BusyPlace] = field(default_factory=dict)
    freed: list[_BusyPlace] = field(default_factory=list)

    def begin(self, used: PlaceUse, *, is_state: bool) -> None:
        start, stop = used.offset_bytes, used.offset_bytes + used.size_bytes
        others = (*self.freed, *self.held.values())  # a new residency overwrites held tensors that overlap
        below = [place for place in others if place.start < stop and start < place.stop]
        busy_until = max((place.busy_until for place in below if not self.is_roomy), default=START)
        self.held[used.tensor] = _BusyPlace(used, busy_until, START if is_state else None)
        # The new residency starts after all that it fully covers.
        self.freed = [place for place in self.freed if place.start < start or place.stop > stop]

    def end(self, tensor: str) -> None:
        self.freed.append(self.held.pop(tensor))


class _Clock:
    def __init__(
        self,
        problem: Problem,
        links: Links | StatedLinks,
        compute_cycles: Callable[[Operator], int],
        roomy: AbstractSet[str] = frozenset(),
    ) -> None:
        self.links = links
        self.activities: list[Activity] = []
        self.places: list[PlaceUse] = []
        self.scratchpads, self.dram = AccessMeter(), AccessMeter()
        self._problem = problem
        self._compute_cycles = compute_cycles
        self._memories = {memory.name: _Memory(memory.name in roomy) for memory in problem.memories}
        self._array_free = START
        self._queue_free = [START] * links.dma.queues
        self._channel_free: dict[tuple[str, str], Moment] = {}
        self._in_dram_at: dict[str, Moment] = {}
        self._transfers = 0

    def execute(self, index: int, instruction: Instruction) -> None:
        tensors = self._problem.graph.tensor
        match instruction:
            case Allocate(tensor, memory, offset_bytes, is_state):
                used = PlaceUse(index, tensor, memory, offset_bytes, tensors[tensor].size_bytes)
                self.places.append(used)
                self._memories[memory].begin(used, is_state=is_state)
            case Free(tensor, memory):
                self._memories[memory].end(tensor)
            case Copy(tensor, source, target):
                self._transfer(index, tensors[tensor], source, target)
            case Compute(operator):
                self._compute(index, self._problem.graph.operator[operator])

    def _transfer(self, index: int, tensor: Tensor, source: str, target: str) -> None:
        held = {name: memory.held[tensor.name] for name, memory in self._memories.items() if name in (source, target)}
        written_at = held[source].written_at if source in held else self._in_dram_at.get(tensor.name)
        moments = [(written_at or START, Wait.DATA)]
        if target in held:
            moments.append((held[target].busy_until, Wait.PLACE))
        done = self._take_turn(index, tensor, (source, target), moments)
        end = self._done(done)
        for place in held.values():
            place.use(done.start, end)
        if target in held:
            held[target].written_at = end
        else:
            self._in_dram_at[tensor.name] = end
        self._meter(source).read(self.links.access(source), tensor.size_bytes)
        self._meter(target).write(self.links.access(target), tensor.size_bytes)

    def _take_turn(
        self, index: int, tensor: Tensor, way: tuple[str, str], moments: list[tuple[Moment, Wait]]
    ) -> Activity:
        """Schedule a transfer on the next queue; it occupies DRAM or the link right after its set-up."""
        queue = self._transfers % len(self._queue_free)
        self._transfers += 1
        channel = self._channel(*way)
        setup_cycles = self.links.dma.setup_cycles
        free_at, whose = self._channel_free.get(channel, START)
        begun = begin_after(self._queue_free[queue], [*moments, ((free_at - setup_cycles, whose), Wait.DRAM)])
        stop = begun.start + setup_cycles + self.links.cycles(tensor.size_bytes, *way)
        self._queue_free[queue] = self._channel_free[channel] = stop, len(self.activities)
        return begun.activity(index, tensor.name, stop - begun.start, (queue, *way))

    def _done(self, activity: Activity) -> Moment:
        """Append an activity, and return its end."""
        self.activities.append(activity)
        return activity.stop, len(self.activities) - 1

    def _channel(self, source: str, target: str) -> tuple[str, str]:
        """Return the exclusive resource of a transfer: DRAM, its ports of one direction, or a link."""
        if DRAM not in (source, target):
            return source, target
        return (DRAM, "") if source == DRAM or self.links.has_one_channel else ("", DRAM)

    def _meter(self, memory: str) -> AccessMeter:
        return self.dram if memory == DRAM else self.scratchpads

    def _compute(self, index: int, operator: Operator) -> None:
        reads, writes = [], []
        moments: list[tuple[Moment, Wait]] = []
        for tensor in self._problem.operands(operator):
            operand = self._problem.operand(operator, tensor)
            places = [
                (memory.name, self._memories[memory.name].held[tensor.name])
                for memory in self._problem.memories
                if operand in memory.holds and tensor.name in self._memories[memory.name].held
            ]
            if tensor.name in operator.outputs:
                writes += places
                moments += [(place.busy_until, Wait.PLACE) for _, place in places]
                for name, _ in places:
                    self.scratchpads.write(self.links.access(name), tensor.size_bytes)
            else:
                name, place = next(each for each in places if each[1].written_at is not None)
                reads.append(place)
                moments.append((place.written_at or START, Wait.DATA))
                self.scratchpads.read(self.links.access(name), tensor.size_bytes)
        begun = begin_after(self._array_free, moments)
        end = self._done(begun.activity(index, operator.name, self._compute_cycles(operator)))
        self._array_free = end
        for place in (*reads, *(place for _, place in writes)):
            place.use(begun.start, end)
        for _, place in writes:
            place.written_at = end
