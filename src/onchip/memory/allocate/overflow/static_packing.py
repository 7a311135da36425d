"""One place in one of several memories for each buffer: the least arena, or the fewest bytes outside.

What a memory keeps is `overflow.py`; what has to lie in one lies in its least arena, `pack.py`. With one memory to
fill, and nothing pinned to it, that is all there is to decide, and what `overflow.py` proves is proven. With several,
they are filled one after another; the bound is that of one memory as large as all, for whatever lies in several lies
in that one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from math import gcd
from typing import Final

from onchip.answer.packing import Buffer, Packing, PackingProblem
from onchip.answer.result import Result, Status, Stop
from onchip.answer.static_packing import StaticPacking, StaticPackingProblem, StaticPlace
from onchip.memory.allocate.exact.pack import least_capacity
from onchip.memory.allocate.overflow.overflow import least_overflow
from onchip.search.budget.limits import Run
from onchip.search.strategy.stage import without_figures

METHOD: Final = "static packing"
MOST_MEMORIES_IN_EVERY_ORDER: Final = 3
SHARE_OF_THE_REST: Final = 0.25
"""Of the time that is left, for the least arena where bytes outside are the objective."""


def least_static_arena(problem: StaticPackingProblem, run: Run) -> Result[StaticPacking]:
    """Lay what is pinned where it has to lie, all else into the first memory, each in the least arena.

    The objective value is the sum of the arenas, what is reserved included. INFEASIBLE where a memory is proven not to
    have room for what has to lie there, UNKNOWN where that stays open; the bound is then that memory's alone.
    """
    places: dict[int, StaticPlace] = {}
    arenas = bound = 0
    for memory, one in enumerate(problem.memories):
        indices = [index for index, pin in enumerate(problem.pinned) if (pin or 0) == memory]
        floor = one.first_free_byte
        if not indices:
            arenas, bound = arenas + one.reserved_bytes, bound + one.reserved_bytes
            continue
        packed = least_capacity(_alone(problem, indices, memory, floor), without_figures(run))
        if packed.answer is None or packed.objective_value is None:
            return Result(packed.status, None, None, packed.lower_bound + floor, run.seconds, METHOD, packed.stopped_by)
        places |= _at(memory, floor, indices, packed.answer)
        arenas, bound = arenas + packed.objective_value + floor, bound + packed.lower_bound + floor
    packing = StaticPacking(tuple(places[index] for index in range(len(problem.buffers))))
    status = Status.OPTIMAL if arenas == bound else Status.FEASIBLE
    stop = Stop.COMPLETED if status is Status.OPTIMAL else run.stop or Stop.TIME_LIMIT
    return Result(status, packing, arenas, bound, run.seconds, METHOD, stop)


def least_outside(problem: StaticPackingProblem, run: Run) -> Result[StaticPacking]:
    """Leave the fewest bytes to memories without a capacity: the sum of the sizes there is the objective value.

    INFEASIBLE where what is pinned to a memory does not fit there, or nothing takes the rest.
    """
    return StaticFilling(problem, run).solve()


class StaticFilling:
    """Fills the memories that have a capacity, in the given order and in others, and keeps the best."""

    def __init__(self, problem: StaticPackingProblem, run: Run) -> None:
        self._problem = problem
        self._run = run
        self._filling_run = run.within(run.seconds_left * (1 - SHARE_OF_THE_REST)) if run.deadline.is_set else run
        self._pinned = [
            [index for index, pin in enumerate(problem.pinned) if pin == memory]
            for memory in range(len(problem.memories))
        ]
        self._free = [index for index, pin in enumerate(problem.pinned) if pin is None]
        self._pinned_outside = sum(
            self._bytes_of(indices)
            for memory, indices in enumerate(self._pinned)
            if problem.memories[memory].capacity_bytes is None
        )

    def solve(self) -> Result[StaticPacking]:
        """Return the best filling, with what is outside laid into its least arena, and the bound."""
        pinned_places, first_free, status = self._with_pins_placed()
        if status is not Status.FEASIBLE:
            return self._without_answer(status, 0)
        best: dict[int, StaticPlace] | None = None
        bound = self._bound() if self._needs_the_common_bound else 0
        for order in self._orders():
            places, own_bound = self._fill(order, first_free)
            if not self._needs_the_common_bound:
                bound = own_bound
            if best is None or self._outside_bytes(places) < self._outside_bytes(best):
                best = places
            if self._outside_bytes(best) <= bound or self._filling_run.stop is not None:
                break
        return self._result(pinned_places | (best or {}), bound)

    # What is pinned

    def _with_pins_placed(self) -> tuple[dict[int, StaticPlace], list[int], Status]:
        """Lay what is pinned to a filled memory at its bottom; say whether all of that has a place."""
        places: dict[int, StaticPlace] = {}
        first_free = [memory.first_free_byte for memory in self._problem.memories]
        for memory in self._problem.filled:
            indices = self._pinned[memory]
            if not indices:
                continue
            floor, alignment = first_free[memory], self._problem.memories[memory].alignment_bytes
            packed = least_capacity(_alone(self._problem, indices, memory, floor), without_figures(self._run))
            if packed.answer is None or packed.objective_value is None:
                return places, first_free, packed.status
            places |= _at(memory, floor, indices, packed.answer)
            first_free[memory] = floor + -(-packed.objective_value // alignment) * alignment
        return places, first_free, Status.FEASIBLE

    # What is kept

    @property
    def _needs_the_common_bound(self) -> bool:
        """Whether filling one memory decides only a part."""
        filled = self._problem.filled
        return len(filled) > 1 or any(self._pinned[memory] for memory in filled)

    def _orders(self) -> Iterator[Sequence[int]]:
        """The memories as they stand first, then in every other order where they are few."""
        filled = self._problem.filled
        yield from permutations(filled) if len(filled) <= MOST_MEMORIES_IN_EVERY_ORDER else (filled,)

    def _fill(self, order: Sequence[int], first_free: Sequence[int]) -> tuple[dict[int, StaticPlace], int]:
        """Let one memory after another keep what it can; return the places, and the bound of the last of them."""
        places: dict[int, StaticPlace] = {}
        left, bound = list(self._free), 0
        for memory in order:
            if not left:
                return places, 0
            part = _alone(self._problem, left, memory, first_free[memory])
            if part.capacity_bytes <= 0:
                bound = self._bytes_of(left)
                continue
            overflow = least_overflow(part, self._filling_run)
            offsets = overflow.answer.offsets_bytes if overflow.answer else (None,) * len(left)
            if None not in offsets:
                offsets = self._in_least_arena(part) or offsets
            for index, offset in zip(left, offsets, strict=True):
                if offset is not None:
                    places[index] = StaticPlace(memory, first_free[memory] + offset)
            left = [index for index in left if index not in places]
            bound = overflow.lower_bound
        return places, bound

    def _in_least_arena(self, part: PackingProblem) -> tuple[int, ...] | None:
        """Where a memory keeps everything, it does so in as little as possible."""
        packed = least_capacity(part, without_figures(self._filling_run)).answer
        return None if packed is None else packed.offsets_bytes

    def _bound(self) -> int:
        """The fewest bytes outside of one memory as large as all of them, aligned as all of them allow."""
        memories = [self._problem.memories[memory] for memory in self._problem.filled]
        alignment = gcd(*(memory.alignment_bytes for memory in memories))
        room = sum(max((memory.capacity_bytes or 0) - memory.first_free_byte, 0) for memory in memories)
        room += (alignment - 1) * len(memories)
        buffers = tuple(self._problem.buffers[index] for index in self._free)
        if not buffers or room == 0:
            return self._bytes_of(self._free)
        return least_overflow(PackingProblem(buffers, room, alignment), self._filling_run).lower_bound

    # What is outside

    def _result(self, places: dict[int, StaticPlace], bound: int) -> Result[StaticPacking]:
        """Lay what no memory keeps into the memory for the rest, and what is pinned outside into its own."""
        rest = [index for index in self._free if index not in places]
        if rest and self._problem.rest is None:
            status = Status.INFEASIBLE if bound > 0 else Status.UNKNOWN
            return self._without_answer(status, bound)
        outside = self._bytes_of(rest) + self._pinned_outside
        for memory, one in enumerate(self._problem.memories):
            indices = self._pinned[memory] + (rest if memory == self._problem.rest else [])
            if one.capacity_bytes is not None or not indices:
                continue
            floor = one.first_free_byte
            packed = least_capacity(_alone(self._problem, indices, memory, floor), without_figures(self._run))
            places |= _at(memory, floor, indices, packed.answer or Packing(()))
        lower = min(bound + self._pinned_outside, outside)
        status = Status.OPTIMAL if outside <= lower else Status.FEASIBLE
        stop = Stop.COMPLETED if status is Status.OPTIMAL else self._filling_run.stop or Stop.COMPLETED
        packing = StaticPacking(tuple(places[index] for index in range(len(self._problem.buffers))))
        return Result(status, packing, outside, lower, self._run.seconds, METHOD, stop)

    def _without_answer(self, status: Status, bound: int) -> Result[StaticPacking]:
        stop = self._filling_run.stop or Stop.COMPLETED
        return Result(status, None, None, bound, self._run.seconds, METHOD, stop)

    def _outside_bytes(self, places: dict[int, StaticPlace]) -> int:
        return self._bytes_of(index for index in self._free if index not in places)

    def _bytes_of(self, indices: Sequence[int] | Iterator[int]) -> int:
        return sum(self._problem.buffers[index].size_bytes for index in indices)


def _alone(problem: StaticPackingProblem, indices: Sequence[int], memory: int, floor: int) -> PackingProblem:
    """These buffers in one memory, above a floor; where nothing limits it, there is room for all beside each other."""
    one = problem.memories[memory]
    buffers: tuple[Buffer, ...] = tuple(problem.buffers[index] for index in indices)
    alignment = one.alignment_bytes
    roomy = sum(-(-buffer.size_bytes // alignment) * alignment for buffer in buffers)
    capacity = roomy if one.capacity_bytes is None else one.capacity_bytes - floor
    return PackingProblem(buffers, capacity, alignment)


def _at(memory: int, floor: int, indices: Sequence[int], packing: Packing) -> dict[int, StaticPlace]:
    """The places of buffers packed above a floor."""
    return {index: StaticPlace(memory, floor + at) for index, at in zip(indices, packing.offsets_bytes, strict=True)}
