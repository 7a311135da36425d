"""Start and end of each Compute and Copy of a schedule's program (docs/schedule.md, section 7).

The program fixes every order: of Computes, of Copies in their queue, of turns at DRAM. So no activity starts later if
one gets shorter.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from onchip.answer.program import Allocate, Compute, Copy, Free, Plan
from onchip.answer.schedule import WORKSPACE
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Dma, Operand
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.model.program.compute_cost import ComputeCost, CopyPrices, MemoryRates, dram_cycles, resident_bytes
from onchip.model.timeline.activity import (
    ON_THE_ARRAY,
    START,
    Activity,
    LatencyParts,
    Moment,
    PlaceUse,
    Wait,
    Way,
    begin_after,
    latency_parts,
)
from onchip.ops.nests import BandedOperand, operands_of

Freed: TypeAlias = tuple[int, int, Moment]
"""Bytes [start, stop), and the end of their last use."""


class FreedPlaces:
    """A set of disjoint freed byte ranges in address order; each is returned once and then removed.

    So a program with n residencies takes n log n steps: each write to a range takes it, and gives one back.
    """

    def __init__(self) -> None:
        self._ranges: list[Freed] = []

    def take(self, start: int, stop: int) -> Moment:
        """Remove the bytes [start, stop) and return the end of their last use, or the start of the program."""
        first = bisect_right(self._ranges, (start,))
        if first and self._ranges[first - 1][1] > start:
            first -= 1
        last, latest = first, START
        rests: list[Freed] = []
        while last < len(self._ranges) and self._ranges[last][0] < stop:
            begin, end, moment = self._ranges[last]
            latest = max(latest, moment)
            rests += [rest for rest in ((begin, start, moment), (stop, end, moment)) if rest[0] < rest[1]]
            last += 1
        self._ranges[first:last] = rests
        return latest

    def give_back(self, start: int, stop: int, moment: Moment) -> None:
        """Add bytes [start, stop), which were taken before, as free from that moment on."""
        insort(self._ranges, (start, stop, moment))


@dataclass(frozen=True)
class ScheduleTimeline:
    """The timeline of a schedule: `activities` in the program's order, in cycles from 0.

    `places` are the residencies in the order of their Allocates, in cycles.
    """

    activities: tuple[Activity, ...]
    places: tuple[PlaceUse, ...] = ()

    @cached_property
    def latency_cycles(self) -> int:
        """Return the end of the last instruction and the last use of DRAM."""
        return max((each.end for each in self.activities), default=0)

    @cached_property
    def parts(self) -> LatencyParts:
        """Return the parts of the latency."""
        return latency_parts(self.activities)


def time_schedule(
    graph: Graph,
    accelerator: Accelerator,
    program: Plan,
    compute_costs: Mapping[str, ComputeCost],
    roomy: AbstractSet[str] = frozenset(),
) -> ScheduleTimeline:
    """Return the timeline of a legal program over a tile graph, given the cost of each operator's Compute.

    In `roomy` memories no activity waits for space. Raises AcceleratorError if a memory lacks a needed port.
    """
    clock = _ProgramClock(graph, accelerator, compute_costs, roomy)
    for number, instruction in enumerate(program.instructions):
        match instruction:
            case Allocate(tensor, memory, offset_bytes):
                clock.begin(number, tensor, memory, offset_bytes)
            case Free(tensor, memory):
                clock.end(tensor, memory)
            case Copy():
                clock.copy(number, instruction)
            case Compute(operator):
                clock.compute(number, operator)
    return ScheduleTimeline(tuple(clock.activities), tuple(clock.places))


@dataclass(slots=True)
class _WrittenPlace:
    """The space of one residency.

    It may be written from `free_at` on (None until requested), is in use until `busy_until`, and holds its data from
    `written_at` on.
    """

    used: PlaceUse
    free_at: Moment | None = None
    lender: _WrittenPlace | None = None
    """The input whose bytes the tensor takes in place."""
    is_lent: bool = False
    busy_until: Moment = START
    written_at: Moment | None = None

    @property
    def ends(self) -> tuple[int, int]:
        return self.used.offset_bytes, self.used.offset_bytes + self.used.size_bytes


@dataclass(slots=True)
class _Residents:
    """The residencies of one memory and its freed ranges; in a roomy memory no activity waits for space."""

    is_roomy: bool = False
    places: dict[str, _WrittenPlace] = field(default_factory=dict)
    freed: FreedPlaces = field(default_factory=FreedPlaces)

    def free_at(self, place: _WrittenPlace) -> Moment:
        """Return the moment from which the space may be written."""
        if place.free_at is None and place.lender is not None:
            place.free_at = START if self.is_roomy else place.lender.busy_until
        if place.free_at is None:
            place.free_at = START if self.is_roomy else self.freed.take(*place.ends)
        return place.free_at


class _ProgramClock:
    """The replay of a program, with the last use of each resource."""

    def __init__(
        self, graph: Graph, accelerator: Accelerator, compute_costs: Mapping[str, ComputeCost], roomy: AbstractSet[str]
    ) -> None:
        self.activities: list[Activity] = []
        self.places: list[PlaceUse] = []
        self._graph = graph
        self._costs = compute_costs
        self._rates = MemoryRates(accelerator)
        self._prices = CopyPrices(accelerator)
        names = [level.memory.name for level in self._rates.addressed]
        self._residents = {name: _Residents(name in roomy) for name in names}
        self._holding = {
            operand: [level.memory.name for level in self._rates.addressed if operand in level.memory.holds]
            for operand in Operand
        }
        self._queue_free = [START] * (accelerator.dma or Dma()).queues
        self._copies = 0
        self._array_free = self._dram_free = START
        self._in_dram_at: dict[str, Moment] = {}

    def begin(self, number: int, tensor: str, memory: str, offset_bytes: int) -> None:
        """Start the residency of a tensor or workspace; raises KeyError if the name is neither."""
        size_bytes = resident_bytes(self._graph, self._costs, tensor, memory)
        used = PlaceUse(number, tensor, memory, offset_bytes, size_bytes)
        self.places.append(used)
        there = self._residents[memory].places
        lender = self._graph.lender(
            tensor, offset_bytes, lambda name: there[name].used.offset_bytes if name in there else None
        )
        there[tensor] = _WrittenPlace(used, lender=None if lender is None else there[lender])
        if lender is not None:
            there[lender].is_lent = True

    def end(self, tensor: str, memory: str) -> None:
        """End a residency; if it was never written, its bytes keep their earlier last use."""
        residents = self._residents[memory]
        place = residents.places.pop(tensor)
        if place.free_at is not None and not place.is_lent and not residents.is_roomy:
            residents.freed.give_back(*place.ends, place.busy_until)

    def copy(self, number: int, copy: Copy) -> None:
        """Schedule a Copy on the next queue, and at DRAM if DRAM is one of its ends."""
        tensor = self._graph.tensor[copy.tensor]
        is_parameter = tensor.role is Role.PARAMETER
        price = self._prices.of(tensor.size_bytes, copy.source, copy.target, is_parameter=is_parameter)
        queue = self._copies % len(self._queue_free)
        self._copies += 1
        source, target = self._place(copy.tensor, copy.source), self._place(copy.tensor, copy.target)
        moments = [(self._written_at(copy.tensor, source), Wait.DATA)]
        if target is not None:
            moments.append((self._residents[copy.target].free_at(target), Wait.PLACE))
        way = queue, copy.source, copy.target
        end = self._run(number, copy.tensor, (price.cycles, price.dram_cycles), self._queue_free[queue], moments, way)
        self._queue_free[queue] = end
        self._use([one for one in (source, target) if one is not None], end)
        self._write(copy.tensor, target, end)

    def compute(self, number: int, name: str) -> None:
        """Schedule an operator on the array, and at DRAM for its streamed operands."""
        cost = self._costs[name]
        read, written = [], []
        moments: list[tuple[Moment, Wait]] = []
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
        end = self._run(number, name, (cost.cycles, turn), self._array_free, moments)
        self._array_free = end
        used = [*(place for _, place in (*read, *written)), *(place for _, place in scratch)]
        self._use([place for place in used if place is not None], end)
        for tensor, place in written:
            self._write(tensor, place, end)

    def _run(
        self,
        number: int,
        subject: str,
        lasts: tuple[int, int],
        turn: Moment,
        moments: list[tuple[Moment, Wait]],
        way: Way = ON_THE_ARRAY,
    ) -> Moment:
        """Start an activity after all moments, and after DRAM's turn if it uses DRAM; return its end.

        `lasts` are the cycles of the activity, and those at DRAM; `way` is a Copy's queue and its ends.
        """
        cycles, dram_cycles = lasts
        begun = begin_after(turn, [*moments, (self._dram_free, Wait.DRAM)] if dram_cycles else moments)
        place = len(self.activities)
        self.activities.append(begun.activity(number, subject, cycles, way, dram_cycles))
        if dram_cycles:
            self._dram_free = begun.start + dram_cycles, place
        return begun.start + cycles, place

    def _use(self, places: Sequence[_WrittenPlace], end: Moment) -> None:
        start = self.activities[end[1]].start
        for place in places:
            place.busy_until = max(place.busy_until, end)
            place.used.use(start, end[0])

    def _home(self, operand: BandedOperand) -> _Residents | None:
        """Return the residents of the operand's home memory; None if it is streamed."""
        homes = (self._residents[memory] for memory in self._holding[operand.operand])
        return next((home for home in homes if _are_there(operand, home.places)), None)

    def _workspaces(self, name: str, cost: ComputeCost) -> Iterator[tuple[str, _WrittenPlace]]:
        for memory in cost.workspace_bytes:
            place = self._residents[memory].places.get(f"{name}{WORKSPACE}")
            if place is not None:
                yield memory, place

    def _place(self, tensor: str, memory: str) -> _WrittenPlace | None:
        return None if memory == DRAM else self._residents[memory].places[tensor]

    def _written_at(self, tensor: str, place: _WrittenPlace | None) -> Moment:
        """Return the moment the bytes are present; inputs and parameters are in DRAM from the start."""
        return self._in_dram_at.get(tensor, START) if place is None else place.written_at or START

    def _write(self, tensor: str, place: _WrittenPlace | None, end: Moment) -> None:
        if place is None:
            self._in_dram_at[tensor] = end
        else:
            place.written_at = end


def _are_there(operand: BandedOperand, places: Mapping[str, _WrittenPlace]) -> bool:
    """Return True if the spaces include all tiles, and for operands that are read, their data."""
    for band in operand.bands:
        place = places.get(band.name)
        if place is None or (place.written_at is None and operand.operand is not Operand.OUTPUT):
            return False
    return True
