"""Addresses for an order with its transfers: loads ahead fill all capacity if that packs, else less and less of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Final

from onchip.answer.packing import Buffer, PackingProblem
from onchip.bounds.latency.ways_to_run import WaysToRun
from onchip.memory.allocate.pack import pack
from onchip.memory.effort import STEP
from onchip.native import LatencyBands, LatencyPlacing, LatencyRoom, LatencyTensor, LatencyTiming, StopToken
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import run_watched


@dataclass(frozen=True, slots=True)
class PlacingParams:
    """Constants of addresses for an order with its transfers."""

    rooms: tuple[float, ...] = (1.0, 0.99, 0.98, 0.97, 0.95, 0.92, 0.88, 0.84, 0.8, 0.7, 0.6, 0.5, 0.25, 0.0)
    """Parts of each scratchpad that stays, and loads ahead, may fill: less packs sooner, and ends later."""
    least_placed: float = 0.6
    """Part of each scratchpad, below which no stays are placed while an order is timed."""
    efforts: tuple[tuple[int, float], ...] = ((3_000, 1.005), (30_000, 1.03), (200_000, 1.1))
    """Nodes for each packing, and the ratio of latencies to the room tried next."""
    repair_rounds: int = 600
    """Rounds of repair for each packing: about a second for a thousand stays."""
    ahead: tuple[float, ...] = (1.0, 0.97)
    """Parts of the room of stays that loads ahead may fill, if stays are placed afterwards."""
    stays_afterwards: int = 500_000
    """Stays placed in all rounds of one room: a second."""

    @property
    def rooms_placed(self) -> tuple[float, ...]:
        """Parts of each scratchpad for stays that are placed while an order is timed."""
        return tuple(room for room in self.rooms if room >= self.least_placed)


PARAMS: Final = PlacingParams()
PLACINGS: Final = (LatencyPlacing.LOWEST, LatencyPlacing.HIGHEST)


@dataclass(frozen=True, slots=True)
class PlacedOrder:
    """An order of pieces with its transfers, and the offset in bytes of each of its stays.

    `room` limits stays and loads ahead; `tensors` give the scratchpad of each stay.
    """

    order: tuple[int, ...]
    room: LatencyRoom
    timing: LatencyTiming
    offsets_bytes: tuple[int, ...]
    tensors: tuple[LatencyTensor, ...]

    @classmethod
    def of_best(cls, search: LatencyBands, room: LatencyRoom, timing: LatencyTiming) -> PlacedOrder:
        """Return the best order of a search with the addresses of its timing in that room."""
        return cls(tuple(search.order), room, timing, tuple(timing.offsets_bytes), tuple(search.tensors))


@dataclass(frozen=True, slots=True)
class PackingEffort:
    """Nodes of the exact search for one packing, and rounds of repair before it."""

    nodes: int
    repair_rounds: int = 0


def placed_quickly(ways: WaysToRun, search: LatencyBands, run: Run, below: float) -> PlacedOrder | None:
    """Return the best order with addresses, as it ends in what packs at once; None if nothing does before `below`."""
    nodes, step = PARAMS.efforts[0]
    return _first_that_packs(ways, search, run, PackingEffort(nodes), step, below)


def placed(ways: WaysToRun, search: LatencyBands, run: Run, below: float) -> PlacedOrder | None:
    """Return the best order with addresses, ending as soon as what packs soon; None if nothing does before `below`."""
    for nodes, step in PARAMS.efforts[1:]:
        found = _first_that_packs(ways, search, run, PackingEffort(nodes), step, below)
        if found is not None:
            return found
    return None


def placed_by_repairs(ways: WaysToRun, search: LatencyBands, run: Run, below: float) -> PlacedOrder | None:
    """Return the best order in the room in which it ends soonest and repairs find a packing; None if none is found.

    Rooms are bisected: if one packs, later ends are of no interest, otherwise earlier ones are not.
    """
    rooms = [room for latency, room in _rooms(search) if latency < below]
    best, first, stop = None, 0, len(rooms)
    while first < stop and run.stop is None:
        middle = (first + stop) // 2
        found = packed_as_timed(ways, search, run, PackingEffort(0, PARAMS.repair_rounds), rooms[middle])
        best = found or best
        first, stop = (middle + 1, stop) if found is None else (first, middle)
    return best


def placed_somehow(ways: WaysToRun, search: LatencyBands, run: Run) -> PlacedOrder | None:
    """Return the best order with addresses, however late it ends; the rooms filled least are tried first."""
    effort = PackingEffort(PARAMS.efforts[0][0])
    for _, room in reversed(_rooms(search)):
        found = None if run.stop is not None else packed_as_timed(ways, search, run, effort, room)
        if found is not None:
            return found
    return None


def placed_step_by_step(ways: WaysToRun, search: LatencyBands) -> PlacedOrder | None:
    """Return the best order in which nothing stays from step to step; None if bands need more than the whole.

    The operands of each step lie upon each other, the one that leaves most up to the next address on top.
    """
    room = LatencyRoom(0.0, 0.0)
    timing, tensors, sizes_bytes = search.evaluate(room), search.tensors, search.sizes_bytes
    if not timing.fits:
        return None
    stays = timing.stays
    offsets_bytes, free = [0] * len(stays), dict[tuple[int, int], int]()

    def spared_bytes(at: int) -> int:
        tensor = stays[at].tensor
        return ways.aligned(sizes_bytes[tensor], tensors[tensor].memory) - sizes_bytes[tensor]

    for at in sorted(range(len(stays)), key=spared_bytes):
        stay, memory = stays[at], tensors[stays[at].tensor].memory
        offsets_bytes[at] = free.get((memory, stay.start), 0)
        stop = offsets_bytes[at] + sizes_bytes[stay.tensor]
        if stop > ways.problem.memories[memory].capacity_bytes:
            return None
        free[memory, stay.start] = ways.aligned(stop, memory)
    return PlacedOrder(tuple(search.order), room, timing, tuple(offsets_bytes), tuple(tensors))


def placed_better(ways: WaysToRun, search: LatencyBands, run: Run, below: float) -> PlacedOrder | None:
    """Return the best order with addresses that ends before `below` without them, sought for longer."""
    return _first_that_packs(ways, search, run, PackingEffort(STEP.check_nodes), 1.0, below)


def placed_while_timed(search: LatencyBands, run: Run) -> PlacedOrder | None:
    """Return the best order in which each load takes the address that is free soonest; None if some load has none."""
    for share, has_place_for_all in product(PARAMS.rooms_placed, (False, True)):
        if run.stop is not None:
            return None
        found = _soonest(
            search,
            (
                LatencyRoom(share, 1.0, placing, is_longest_first, has_place_for_all)
                for placing, is_longest_first in product(PLACINGS, (False, True))
            ),
        )
        if found is not None:
            return found
    return None


def placed_afterwards(search: LatencyBands, run: Run, share: float) -> PlacedOrder | None:
    """Return the best order timed in bytes, then placed in many rounds; None if no round finds a place for all."""
    best: PlacedOrder | None = None
    rounds = max(PARAMS.stays_afterwards // len(search.order), 1)
    for ahead, is_longest_first in product(PARAMS.ahead, (True, False)):
        if run.stop is not None:
            break
        token = StopToken()
        room = LatencyRoom(share, share * ahead, LatencyPlacing.AFTERWARDS, is_longest_first, rounds=rounds)
        timing = run_watched(partial(search.evaluate, room, stop=token), token.ask, run)
        if timing.fits and (best is None or timing.latency < best.timing.latency):
            best = PlacedOrder.of_best(search, room, timing)
    return best


def _soonest(search: LatencyBands, rooms: Iterable[LatencyRoom], first: Sequence[int] = ()) -> PlacedOrder | None:
    """Return the best order in the room in which it ends soonest; None if it fits in no room."""
    found = [(room, timing) for room in rooms if (timing := search.evaluate(room, first)).fits]
    if not found:
        return None
    room, timing = min(found, key=lambda one: one[1].latency)
    return PlacedOrder.of_best(search, room, timing)


def packed_then_placed(ways: WaysToRun, search: LatencyBands, run: Run) -> PlacedOrder | None:
    """Return the best order with packed stays; loads then come as early as possible, also at other addresses."""
    effort = PackingEffort(PARAMS.efforts[1][0])
    for share in PARAMS.rooms_placed:
        packed = packed_as_timed(ways, search, run, effort, LatencyRoom(share, 0.0)) if run.stop is None else None
        if packed is None:
            continue
        rooms = [LatencyRoom(share, 1.0, one, has_place_for_all=True) for one in PLACINGS]
        found = _soonest(search, rooms, packed.offsets_bytes)
        if found is not None:
            return found
    return None


def _first_that_packs(
    ways: WaysToRun, search: LatencyBands, run: Run, effort: PackingEffort, step: float, below: float
) -> PlacedOrder | None:
    """Go through rooms as the order ends in them, sooner first; each room that does not pack rules out its like."""
    least = 0.0
    for latency, room in _rooms(search):
        if run.stop is not None or latency >= below:
            return None
        if latency < least:
            continue
        found = packed_as_timed(ways, search, run, effort, room)
        if found is not None:
            return found
        least = latency * step
    return None


def packed_as_timed(
    ways: WaysToRun, search: LatencyBands, run: Run, effort: PackingEffort, room: LatencyRoom
) -> PlacedOrder | None:
    """Return the best order in that room with its stays packed; None if that effort finds no packing."""
    timing, tensors, sizes_bytes = search.evaluate(room), search.tensors, search.sizes_bytes
    if not timing.fits:
        return None
    stays = timing.stays
    offsets_bytes = [0] * len(stays)
    for number, memory in enumerate(ways.problem.memories):
        there = [at for at, stay in enumerate(stays) if tensors[stay.tensor].memory == number]
        buffers = tuple(Buffer(stays[at].start, stays[at].stop, sizes_bytes[stays[at].tensor]) for at in there)
        problem_there = PackingProblem(buffers, memory.capacity_bytes, memory.alignment_bytes)
        packing = pack(problem_there, run, effort.nodes, effort.repair_rounds).answer
        if packing is None:
            return None
        for at, offset_bytes in zip(there, packing.offsets_bytes, strict=True):
            offsets_bytes[at] = offset_bytes
    return PlacedOrder(tuple(search.order), room, timing, tuple(offsets_bytes), tuple(tensors))


def _rooms(search: LatencyBands) -> list[tuple[int, LatencyRoom]]:
    """Return the end of the best order in each room in which it fits, sooner first; of equals the smallest room."""
    found: dict[int, LatencyRoom] = {}
    for stays, ahead in product(PARAMS.rooms, PARAMS.rooms):
        room = LatencyRoom(stays, min(stays, ahead))
        timing = search.evaluate(room)
        if timing.fits:
            found[timing.latency] = room
    return sorted(found.items(), key=lambda one: one[0])
