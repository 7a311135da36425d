"""`--method colouring`: interference-graph colouring into pseudo-registers, for any number of scratchpads.

After memory coloring (Li, Gao, Xue, PACT 2005): each scratchpad is cut into pseudo-registers of every size that a
tensor has; registers of different sizes overlap. Optimistic colouring as Briggs, Cooper and Torczon do it (TOPLAS
1994): ranges without a colour are streamed, that is, split into one short range for each use, and all ranges are
coloured again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Final

from onchip.memory.baselines.pinned import Pins, pinning_whole_lives
from onchip.model.lifetimes.indexed import IndexedProblem, bits
from onchip.search.budget.limits import Run


@dataclass(frozen=True, slots=True)
class LiveRange:
    """A node: a tensor over a half-open range of steps, with its units in each scratchpad that may take it.

    `saved` is the cost of streaming it; None for one use, which needs its place.
    """

    tensor: int
    start: int
    stop: int
    units: tuple[tuple[int, int], ...]
    saved: int | None


@dataclass(frozen=True, slots=True)
class Register:
    """A colour: the units [start, stop) of a scratchpad."""

    memory: int
    start: int
    stop: int

    def overlaps(self, other: Register) -> bool:
        """True if they share a unit."""
        return self.memory == other.memory and self.start < other.stop and other.start < self.stop


def _pin_what_is_coloured(pins: Pins, run: Run) -> Iterable[Pins]:
    streamed: set[int] = set()
    while run.stop is None:
        colouring = Colouring(pins.indexed, tuple(live_ranges(pins, streamed)), run)
        if run.stop is None and not colouring.spilled:
            for tensor, memory in colouring.pinned():
                pins.pin(tensor, memory)
            yield pins
            return
        streamed |= colouring.spilled


def live_ranges(pins: Pins, streamed: set[int]) -> Iterator[LiveRange]:
    """Yield a range for each tensor that may be pinned, for the others one for each use."""
    indexed = pins.indexed
    for tensor, uses in enumerate(pins.uses):
        homes = tuple(pins.homes(tensor))
        saved = max((pins.saved(tensor, memory) for memory in homes), default=0)
        if len(uses) > 1 and saved > 0 and tensor not in streamed:
            yield LiveRange(tensor, uses[0], uses[-1] + 1, _units(indexed, tensor, homes), saved)
            continue
        for step in uses:
            is_written = indexed.producer[tensor] == pins.order[step]
            taken_in = (indexed.written_in if is_written else indexed.read_in)[tensor]
            yield LiveRange(tensor, step, step + 1, _units(indexed, tensor, bits(taken_in)), None)


def _units(indexed: IndexedProblem, tensor: int, memories: Iterable[int]) -> tuple[tuple[int, int], ...]:
    return tuple((memory, indexed.views[memory].room.units[tensor]) for memory in memories)


class Registers:
    """The colours that a range may have: multiples of its size, in every scratchpad that may take it."""

    def __init__(self, indexed: IndexedProblem, live: LiveRange) -> None:
        self._units = live.units
        rooms = {memory: indexed.views[memory].room for memory, _ in live.units}
        # The last, partial unit of the capacity counts for a tensor that may end within it.
        whole = {m: room.capacity_units + (room.may_end_short >> live.tensor & 1) for m, room in rooms.items()}
        self._counts = {memory: whole[memory] // units for memory, units in live.units}

    @property
    def count(self) -> int:
        """Return the number of pseudo-registers in all scratchpads."""
        return sum(self._counts.values())

    def first_free(self, taken: Iterable[Register]) -> Register | None:
        """Return the lowest register of the first scratchpad that overlaps none of those taken."""
        occupied = sorted(taken, key=lambda register: register.start)
        for memory, units in self._units:
            index = 0
            for other in occupied:
                if other.overlaps(Register(memory, index * units, (index + 1) * units)):
                    index = -(-other.stop // units)
            if index < self._counts[memory]:
                return Register(memory, index * units, (index + 1) * units)
        return None


def most_blocked(live: LiveRange, other: LiveRange) -> int:
    """Return how many registers of `live` one register of `other` overlaps at most (Smith, Ramsey, Holloway 2004)."""
    theirs = dict(other.units)
    return max((_blocked(units, theirs[memory]) for memory, units in live.units if memory in theirs), default=0)


def _blocked(units: int, other_units: int) -> int:
    """Return the maximum number of registers of `units` that one register of `other_units` overlaps.

    The other register begins at a multiple of its size: at worst their greatest common divisor before the next one.
    """
    return (units - gcd(units, other_units) + other_units - 1) // units + 1


class Colouring:
    """A round of simplify and select; `colours` by range, `spilled` the tensors without a colour.

    A run that has to stop leaves some without a colour.
    """

    def __init__(self, indexed: IndexedProblem, ranges: Sequence[LiveRange], run: Run) -> None:
        self._run = run
        self._ranges = ranges
        self._registers = [Registers(indexed, live) for live in ranges]
        self._neighbours = _interference(ranges, run)
        self.colours: dict[int, Register] = {}
        self._select(self._simplify())
        self.spilled = {
            live.tensor for node, live in enumerate(ranges) if live.saved is not None and node not in self.colours
        }

    def pinned(self) -> list[tuple[int, int]]:
        """Return each tensor coloured for its whole life, with its scratchpad; highest cost per neighbour first."""
        whole = [node for node in self.colours if self._ranges[node].saved is not None]
        whole.sort(key=lambda node: (-self._rank(node, len(self._neighbours[node])), self._ranges[node].tensor))
        return [(self._ranges[node].tensor, self.colours[node].memory) for node in whole]

    def _rank(self, node: int, degree: int) -> float:
        """Return Chaitin's cost by degree; infinite for a range that may not be spilled."""
        saved = self._ranges[node].saved
        return float("inf") if saved is None else saved / max(1, degree)

    def _simplify(self) -> list[int]:
        """Remove nodes one by one: one that finds a colour in any case, otherwise the lowest by rank."""
        blocked = [self._blocked(node) for node in range(len(self._ranges)) if self._run.stop is None]
        degree = [len(neighbours) for neighbours in self._neighbours]
        left = set(range(len(self._ranges)))
        stack: list[int] = []
        while left and self._run.stop is None:
            node = next((n for n in left if blocked[n] < self._registers[n].count), None)
            if node is None:
                node = min(left, key=lambda n: (self._rank(n, degree[n]), -degree[n], n))
            left.remove(node)
            stack.append(node)
            for other in self._neighbours[node] & left:
                degree[other] -= 1
                blocked[other] -= most_blocked(self._ranges[other], self._ranges[node])
        return stack

    def _blocked(self, node: int) -> int:
        return sum(most_blocked(self._ranges[node], self._ranges[other]) for other in self._neighbours[node])

    def _select(self, stack: list[int]) -> None:
        """Colour the last removed node first, with its first register that no neighbour's overlaps."""
        for node in reversed(stack):
            if self._run.stop is not None:
                return
            taken = [self.colours[other] for other in self._neighbours[node] if other in self.colours]
            register = self._registers[node].first_free(taken)
            if register is not None:
                self.colours[node] = register


def _interference(ranges: Sequence[LiveRange], run: Run) -> list[set[int]]:
    """Return for each range the ranges alive in one of its steps, in a scratchpad that may take both."""
    alive: dict[int, list[int]] = {}
    for node, live in enumerate(ranges):
        for step in range(live.start, live.stop):
            alive.setdefault(step, []).append(node)
    neighbours: list[set[int]] = [set() for _ in ranges]
    for nodes in alive.values():
        for node in nodes:
            if run.stop is not None:
                return neighbours
            mine = {memory for memory, _ in ranges[node].units}
            neighbours[node] |= {n for n in nodes if n != node and mine & {memory for memory, _ in ranges[n].units}}
    return neighbours


solve_by_colouring: Final = pinning_whole_lives("colouring", _pin_what_is_coloured)
"""Pin each tensor that has a register in its scratchpad."""
