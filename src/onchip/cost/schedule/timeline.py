"""When each Compute and each Copy of a schedule's program begins and ends (docs/schedule.md, section 7).

Every order is fixed by the program: of Computes, of Copies in their queue, of turns at DRAM. So nothing begins later
when anything gets shorter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from onchip.answer.program import Allocate, Compute, Copy, Free, Plan
from onchip.answer.schedule import WORKSPACE
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Dma, Operand
from onchip.cost.schedule.activity import ScheduledActivity, ScheduleTimeline, Wait
from onchip.cost.schedule.compute_cost import ComputeCost
from onchip.cost.schedule.copies import CopyPrices, dram_cycles
from onchip.cost.schedule.freed_places import FreedPlaces
from onchip.cost.schedule.operands import BandedOperand, operands_of
from onchip.cost.schedule.rates import MemoryRates
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role


def time_schedule(
    graph: Graph, accelerator: Accelerator, program: Plan, compute_costs: Mapping[str, ComputeCost]
) -> ScheduleTimeline:
    """Time a legal program over a tile graph, given what the Compute of each operator costs.

    Raises AcceleratorError where a memory has no port that is needed.
    """
    clock = _ProgramClock(graph, accelerator, compute_costs)
    for number, instruction in enumerate(program.instructions):
        match instruction:
            case Allocate(tensor, memory, offset_bytes):
                clock.begin(tensor, memory, offset_bytes)
            case Free(tensor, memory):
                clock.end(tensor, memory)
            case Copy():
                clock.copy(number, instruction)
            case Compute(operator):
                clock.compute(number, operator)
    return ScheduleTimeline(tuple(clock.activities))


@dataclass(slots=True)
class _WrittenPlace:
    """Bytes [start, stop) of a memory under one residency.

    They may be written from `free_at` on (None: nobody has asked yet), are in use until `busy_until`, and hold what
    they are for from `written_at` on.
    """

    start: int
    stop: int
    free_at: int | None = None
    busy_until: int = 0
    written_at: int | None = None


@dataclass(slots=True)
class _Residents:
    """The residencies of one memory, and what is known of those that ended."""

    places: dict[str, _WrittenPlace] = field(default_factory=dict)
    freed: FreedPlaces = field(default_factory=FreedPlaces)

    def free_at(self, place: _WrittenPlace) -> int:
        """From when on the place may be written."""
        if place.free_at is None:
            place.free_at = self.freed.take(place.start, place.stop)
        return place.free_at


_Moment: TypeAlias = tuple[int, Wait]
_RANK: Final = {wait: rank for rank, wait in enumerate(Wait)}


@dataclass(frozen=True, slots=True)
class _Beginning:
    """When an activity begins, what it waited for since its turn came, and the cycles for which it has DRAM."""

    start: int
    waited_for: Wait
    idle_cycles: int
    dram_cycles: int

    def activity(
        self, number: int, subject: str, cycles: int, way: tuple[int | None, str | None, str | None] = (None,) * 3
    ) -> ScheduledActivity:
        """The activity that begins there and takes so many cycles; `way` is a Copy's queue and ends."""
        waited = self.waited_for, self.idle_cycles, self.dram_cycles
        return ScheduledActivity(number, subject, self.start, self.start + cycles, *waited, *way)


class _ProgramClock:
    """Replays a program and notes when everything was last used."""

    def __init__(self, graph: Graph, accelerator: Accelerator, compute_costs: Mapping[str, ComputeCost]) -> None:
        self.activities: list[ScheduledActivity] = []
        self._graph = graph
        self._costs = compute_costs
        self._rates = MemoryRates(accelerator)
        self._prices = CopyPrices(accelerator)
        self._residents = {level.memory.name: _Residents() for level in self._rates.addressed}
        self._holding = {
            operand: [level.memory.name for level in self._rates.addressed if operand in level.memory.holds]
            for operand in Operand
        }
        self._queue_free = [0] * (accelerator.dma or Dma()).queues
        self._copies = 0
        self._array_free = 0
        self._dram_free = 0
        self._in_dram_at: dict[str, int] = {}

    def begin(self, tensor: str, memory: str, offset_bytes: int) -> None:
        """Note that a tensor, or a workspace, takes its place in a memory; raises KeyError for one of neither."""
        if tensor.endswith(WORKSPACE) and tensor not in self._graph.tensor:
            size_bytes = self._costs[tensor.removesuffix(WORKSPACE)].workspace_bytes[memory]
        else:
            size_bytes = self._graph.tensor[tensor].size_bytes
        self._residents[memory].places[tensor] = _WrittenPlace(offset_bytes, offset_bytes + size_bytes)

    def end(self, tensor: str, memory: str) -> None:
        """A residency ends; if nobody wrote it, its bytes are as they were."""
        residents = self._residents[memory]
        place = residents.places.pop(tensor)
        if place.free_at is not None:
            residents.freed.give_back(place.start, place.stop, place.busy_until)

    def copy(self, number: int, copy: Copy) -> None:
        """A Copy takes the next queue, and DRAM if that is an end of it."""
        tensor = self._graph.tensor[copy.tensor]
        is_parameter = tensor.role is Role.PARAMETER
        price = self._prices.of(tensor.size_bytes, copy.source, copy.target, is_parameter=is_parameter)
        queue = self._copies % len(self._queue_free)
        self._copies += 1
        source, target = self._place(copy.tensor, copy.source), self._place(copy.tensor, copy.target)
        moments = [(self._written_at(copy.tensor, source), Wait.DATA)]
        if target is not None:
            moments.append((self._residents[copy.target].free_at(target), Wait.PLACE))
        begun = self._begun(self._queue_free[queue], moments, price.dram_cycles)
        done = begun.activity(number, copy.tensor, price.cycles, (queue, copy.source, copy.target))
        self.activities.append(done)
        self._queue_free[queue] = done.stop
        _use([one for one in (source, target) if one is not None], done.stop)
        self._write(copy.tensor, target, done.stop)

    def compute(self, number: int, name: str) -> None:
        """An operator runs on the array, and has DRAM for what it streams."""
        cost = self._costs[name]
        read, written = [], []
        moments: list[_Moment] = []
        for operand in operands_of(self._graph, self._graph.operator[name]):
            home = self._home(operand)
            for band in operand.bands:
                place = None if home is None else home.places[band.name]
                if operand.operand is not Operand.OUTPUT:
                    moments.append((self._written_at(band.name, place), Wait.DATA))
                    read.append((band.name, place))
                    continue
                written.append((band.name, place))
                if home is not None and place is not None:
                    moments.append((home.free_at(place), Wait.PLACE))
        scratch = list(self._workspaces(name, cost))
        moments.extend((self._residents[memory].free_at(place), Wait.PLACE) for memory, place in scratch)
        turn = dram_cycles(self._rates, cost.dram_read_bits, cost.dram_written_bits)
        done = self._begun(self._array_free, moments, turn).activity(number, name, cost.cycles)
        self.activities.append(done)
        self._array_free = done.stop
        used = [*(place for _, place in (*read, *written)), *(place for _, place in scratch)]
        _use([place for place in used if place is not None], done.stop)
        for tensor, place in written:
            self._write(tensor, place, done.stop)

    def _begun(self, turn: int, moments: Iterable[_Moment], turn_cycles: int) -> _Beginning:
        """When all moments have come, and DRAM's if so many cycles of it are wanted; takes these."""
        start, cause = turn, Wait.TURN
        for cycle, wait in moments:
            if cycle > start or (cycle == start and _RANK[wait] < _RANK[cause]):
                start, cause = cycle, wait
        if turn_cycles:
            if self._dram_free > start:
                start, cause = self._dram_free, Wait.DRAM
            self._dram_free = start + turn_cycles
        return _Beginning(start, cause, start - turn, turn_cycles)

    def _home(self, operand: BandedOperand) -> _Residents | None:
        """The residents of the memory that is the operand's home; None where it is streamed."""
        homes = (self._residents[memory] for memory in self._holding[operand.operand])
        return next((home for home in homes if _are_there(operand, home.places)), None)

    def _workspaces(self, name: str, cost: ComputeCost) -> Iterator[tuple[str, _WrittenPlace]]:
        for memory in cost.workspace_bytes:
            place = self._residents[memory].places.get(f"{name}{WORKSPACE}")
            if place is not None:
                yield memory, place

    def _place(self, tensor: str, memory: str) -> _WrittenPlace | None:
        return None if memory == DRAM else self._residents[memory].places[tensor]

    def _written_at(self, tensor: str, place: _WrittenPlace | None) -> int:
        """When the bytes are there; those of inputs and parameters are in DRAM from the start."""
        return self._in_dram_at.get(tensor, 0) if place is None else place.written_at or 0

    def _write(self, tensor: str, place: _WrittenPlace | None, cycle: int) -> None:
        if place is None:
            self._in_dram_at[tensor] = cycle
        else:
            place.written_at = cycle


def _use(places: Sequence[_WrittenPlace], until: int) -> None:
    for place in places:
        place.busy_until = max(place.busy_until, until)


def _are_there(operand: BandedOperand, places: Mapping[str, _WrittenPlace]) -> bool:
    """Whether a memory with these places has all bands, and of what is read their bytes, too."""
    for band in operand.bands:
        place = places.get(band.name)
        if place is None or (place.written_at is None and operand.operand is not Operand.OUTPUT):
            return False
    return True
