"""The criteria of a chain of tiles: lower bounds on its energy, by accesses, and on the cycles of its ports.

The bound uses two facts. First, the size of every tile is a multiple of its extent in the dimensions that it covers
whole. Second, the maximum number of different tiles may be known. Let the largest tile take a given number of accesses.
A smaller tile saves one access only if it lacks the elements of the last access. It saves one more for each further
access width. So the tiles save at most what their missing elements allow, and the total is a whole number. If
all parts of a dimension are known (full ones and the last), tiles with each kind of part form separate sets. If the
parts of a set lack only a few indices, the accesses of each combination of parts are computed exactly.

Sums that arrive at a memory either return later or are finished. Instances that add to the same sums in parallel start
their own partial sums, which saves returns below them (docs/mapping.md, section 9).

First loads and last stores lie before and after the loops. The loops take at least as long as the array's iterations,
any port's transfers, or the iterations plus the stalls of single transfers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import product
from math import ceil, prod
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.answer.layer_mapping import Move
from onchip.arch.memory import DRAM, Access, MemoryLevel, Operand
from onchip.bounds.layer.floors import busy_at_units, first_and_last
from onchip.bounds.layer.nest_work import work_of_all
from onchip.ir.layer import LOOPS
from onchip.mapping.chains.chain import OperandChain, asked_once, asked_once_of_any
from onchip.mapping.chains.dimension import LackingSide, PartsAlike
from onchip.mapping.chains.lattice import Along, Boundaries, Lattice, Served, least_of
from onchip.mapping.prove.unrolled_ways import ADDING, LEADING, UnrolledWays
from onchip.model.layer.cost import access_of
from onchip.model.layer.limits import array_of, port_for, ports_of

MOST_AT_ONCE: Final = 256
"""Largest number of multiples in one transfer; above it, a partly used access is negligible."""
MOST_LACKING: Final = 16
"""Maximum number of indices missing along a dimension; above it, combinations are not computed."""
ROUNDING: Final = 1e-12
"""Relative tolerance that covers the rounding of sums and products."""
FEW: Final = 4
"""Number of saved accesses that are examined one by one."""


def shortest_of(access: Access) -> int:
    """Return the width of the shortest access, in bits."""
    return access.shortest_access_bits or access.access_bits


@asked_once
def element_accesses(
    chain: OperandChain, served: Served, bits: int, shortest: int, counts_tiles: bool, below: Served | None = None
) -> Along:
    """Return by cell the number of shortest accesses per element, for an instance of the given units.

    The number applies to each element that `OperandChain.moved` counts for the same instances `below`. With
    `counts_tiles`, whole sets of tiles are counted. No set is whole if tiles may stay where loops end short. Sets are
    not counted for several unrollings at once: they rarely improve on `least_share`, and half of all nodes are never
    expanded.
    """
    whole = chain.whole_size(served)
    found = least_share(chain.at_once(served), whole, bits, shortest)
    if not (counts_tiles and chain.way.is_one):
        return found
    least = _of_all_tiles(chain, served, bits, shortest, below) / np.maximum(chain.elements(served, below), 1.0)
    return np.where(chain.may_stay, found, np.maximum(found, least))


@asked_once_of_any
def _of_all_tiles(chain: OperandChain, served: Served, bits: int, shortest: int, below: Served | None) -> Along:
    """Return the accesses of all tiles if each moves once, summed over sets of equal tiles."""
    sets, elements = chain.tiles_alike(served), chain.elements(served, below)
    none_is_empty = chain.has_as_many(sum((one.parts for one in sets), np.zeros(1)), served)
    total: Along = np.zeros((1,) * len(LOOPS))
    for one in sets:
        least = least_accesses(one.longest, one.parts, one.together, one.whole, none_is_empty, bits, shortest)
        least = np.maximum(least, least_of_grid(one, bits, shortest))
        total = total + whole_accesses(np.maximum(least, one.together * bits / shortest))
    return np.maximum(total, whole_accesses(elements * bits / shortest))


def least_of_grid(alike: PartsAlike, bits: int, shortest: int) -> Along:
    """Return the accesses of tiles that lack a few indices along some dimensions, by combination; zero if unknown.

    The missing indices of a dimension are distributed over its parts so that they save the most accesses.
    """
    elements, times, is_known = alike.longest, alike.parts, np.ones(1, np.bool_)
    for side in alike.sides:
        elements, times = elements / np.maximum(side.longest, 1.0), times / np.maximum(side.parts, 1.0)
        is_known = is_known & (side.lacks <= MOST_LACKING)
    if not is_known.any():
        return np.zeros(1)
    return np.where(is_known, times * _least_of_sides(alike.sides, elements, bits, shortest), 0.0)


def _least_of_sides(sides: Sequence[LackingSide], elements: Along, bits: int, shortest: int) -> Along:
    """Return the accesses of all parts of these dimensions, with `elements` for each combination of indices."""
    if not sides:
        return np.ceil(np.round(elements) * bits / shortest)
    side = sides[0]
    few = np.where(side.lacks <= MOST_LACKING, side.lacks, 0.0)
    lengths = (np.maximum(side.longest - lacking, 0.0) for lacking in range(int(few.max()) + 1))
    each = [_least_of_sides(sides[1:], elements * length, bits, shortest) for length in lengths]
    found, spared = side.parts * each[0], [0.0 * each[0]]
    for lacking in range(1, len(each)):
        spared.append(np.maximum.reduce([spared[lacking - one] + each[0] - each[one] for one in range(1, lacking + 1)]))
        found = np.where(few == lacking, side.parts * each[0] - spared[lacking], found)
    return found


def whole_accesses(found: Along) -> Along:
    """Round up to a whole number of accesses."""
    return np.ceil(found * (1 - ROUNDING))


def least_accesses(
    most: Along, tiles: Along, elements: Along, whole: Along, none_is_empty: NDArray[np.bool_], bits: int, shortest: int
) -> Along:
    """Return a lower bound on the accesses of at most `tiles` tiles, with `elements` in all and `most` per tile.

    Sizes are multiples of `whole`. The result is negative if there may be too many tiles for a bound. If none is empty,
    each tile takes at least one access.
    """
    of_the_largest = np.ceil(most * bits / shortest)
    unused, most_spared = of_the_largest * shortest - most * bits, np.where(none_is_empty, of_the_largest - 1, np.inf)
    spares_one: Along = np.where(most_spared > FEW, (shortest - unused / (FEW + 1)) / bits, np.inf)
    for spared in range(1, FEW + 1):
        fewer = np.ceil((spared * shortest - unused) / (bits * whole)) * whole
        spares_one = np.minimum(spares_one, np.where(spared <= most_spared, fewer / spared, np.inf))
    found: Along = tiles * of_the_largest - (tiles * most - elements) / spares_one
    return found


def least_share(most: Along, whole: Along, bits: int, shortest: int) -> Along:
    """Return the minimum accesses per element of a tile of at most `most` elements, a multiple of `whole`."""
    times = most / whole
    found = np.full(np.broadcast_shapes(most.shape, whole.shape), bits / shortest)
    for one in np.unique(whole) if whole.size > 1 else whole.flat:
        shares = _shares(int(one), bits, shortest)[np.minimum(times, MOST_AT_ONCE).astype(np.int64) - 1]
        found = np.where((whole == one) & (times <= MOST_AT_ONCE), shares, found)
    return found


@lru_cache(maxsize=1 << 10)
def _shares(whole: int, bits: int, shortest: int) -> Along:
    """Return the minimum accesses per element by the maximum multiple of `whole` in one transfer, from one on."""
    counts = np.arange(1, MOST_AT_ONCE + 1) * whole
    found: Along = np.minimum.accumulate(-(-counts * bits // shortest) / counts)
    return found


@dataclass(frozen=True)
class ChainEnergy:
    """The energy bound of a set of unrollings: every mapping takes at least `least_pj`."""

    way: UnrolledWays
    lattice: Lattice
    counts_tiles: bool = True

    @property
    def in_parts(self) -> ChainEnergy:
        """Return the same bound with accesses counted per tile, which is linear in the number of tiles that move."""
        return replace(self, counts_tiles=False)

    @cached_property
    def least_pj(self) -> float:
        """Return the lower bound in pJ, infinite if nothing fits."""
        return self.fixed_pj + least_of(self.lattice, self.boundaries)

    @cached_property
    def fixed_pj(self) -> float:
        """Return the energy in pJ of the multiply-accumulates and of the accesses that feed the MACs."""
        at_units = sum(float(own[0].max()) for own in self._of_operands.values())
        array = array_of(self.way.problem.accelerator)
        return self.way.problem.layer.macs * (array.mac_energy_pj or 0.0) + at_units

    @cached_property
    def boundaries(self) -> Boundaries:
        """Return the energy in pJ of the boundaries above memories, infinite in cells that do not fit."""
        chains = {operand: OperandChain(self.way, self.lattice, operand) for operand in self._of_operands}
        return {
            (operand, at): np.where(chains[operand].fits(at), one, np.inf)
            for operand, (_, *own) in self._of_operands.items()
            for at, one in enumerate(own)
        }

    @cached_property
    def _of_operands(self) -> dict[Operand, list[Along]]:
        return {one: self._boundaries(one) for one in map(Operand, self.way.problem.layer.operands)}

    def _boundaries(self, operand: Operand) -> list[Along]:
        """Return the energy at the MACs, then above each memory, from the MACs up."""
        memories = self.way.memories(operand)
        if operand is Operand.OUTPUT:
            return SumsEnergy(self.way, self.lattice, self.counts_tiles).boundaries()
        bits = self.way.problem.layer.bits(operand)
        found = []
        for lower, upper in zip([None, *memories[:-1]], memories, strict=True):
            chain = OperandChain(self.way, self.way.at_units if lower is None else self.lattice, operand)
            total: Along = np.zeros((1,) * len(LOOPS))
            for memory, is_read in ((upper, True), (lower, False)):
                if memory is not None:
                    inside = self.way.served(memory)
                    access = access_of(self.way.problem.accelerator, memory)
                    shortest, each_pj = shortest_of(access), access_pj(access, is_read=is_read)
                    below = None if lower is None else self.way.served(lower)
                    of_one = element_accesses(chain, inside, bits, shortest, self.counts_tiles, below)
                    total = total + chain.moved(inside, below) * of_one * each_pj
            found.append(total)
        return found


@dataclass(frozen=True)
class SumsEnergy:
    """The energy of all boundaries of outputs, from the MACs upwards."""

    way: UnrolledWays
    lattice: Lattice
    counts_tiles: bool = True

    def boundaries(self) -> list[Along]:
        """Return the energy in pJ at the MACs, then above each memory."""
        found = self._all(counts_returns=True)
        return found if all(np.isfinite(one).all() for one in found) else self._all(counts_returns=False)

    @cached_property
    def _memories(self) -> Sequence[str]:
        return self.way.memories(Operand.OUTPUT)

    def _beside(self, number: int) -> int:
        """Return the number of instances per instance of the next memory that add to the same sums."""
        lower, upper = (self.way.served(memory).most_apart for memory in self._memories[number : number + 2])
        return max(1, prod(lower[at] for at in ADDING) // prod(upper[at] for at in ADDING))

    def _all(self, *, counts_returns: bool) -> list[Along]:
        """Return all boundaries; without `counts_returns`, omit returns below memories that merge partial sums."""
        parted = [at for at in range(len(self._memories) - 1) if self._beside(at) > 1]
        return [
            self._boundary(number, comes_back=counts_returns or not any(at >= number for at in parted),
                           spares=counts_returns and number - 1 in parted)
            for number in range(len(self._memories))
        ]  # fmt: skip

    def _boundary(self, number: int, *, comes_back: bool, spares: bool) -> Along:
        """Return the energy above memory `number - 1`; 0 is at the MACs. If it `spares`, fewer sums return below it."""
        upper = self._memories[number]
        above = self.way.served(upper)
        chain = OperandChain(self.way, self.lattice if number else self.way.at_units, Operand.OUTPUT)
        bits = chain.bits_above(above)
        arrived, outputs = chain.moved(above), chain.elements(above)
        coming = self._pj(chain, upper, bits, is_read=False)
        back = self._pj(chain, upper, bits, is_read=True) * float(comes_back)
        if number == 0:
            return arrived * coming + (arrived - outputs) * back
        lower = self._memories[number - 1]
        inside = self.way.served(lower)
        own_bits = chain.bits(number - 1, above)
        back = back + self._pj(chain, lower, own_bits, is_read=False) * float(comes_back)
        leaving = self._pj(chain, lower, own_bits, is_read=True)
        left = chain.moved(inside)
        if not spares:
            return arrived * (coming + back) + left * leaving - outputs * back
        spared, beside = sum(self._most_back_pj(at) for at in range(number)), self._beside(number - 1)
        if_few = (coming + back + spared) * arrived + (leaving - spared) * left
        if_all = coming + back + beside * leaving - (beside - 1) * spared
        if_many = np.where(if_all >= 0, if_all * arrived, -np.inf)
        return np.where(leaving >= spared, if_few, if_many) - outputs * back

    def _most_back_pj(self, number: int) -> float:
        """Return the maximum energy in pJ of a sum that returns over a boundary alone."""
        bits, memories = self.way.problem.layer.partial_bits, self._memories
        moves = [(memories[number], True), *([(memories[number - 1], False)] if number else [])]
        accesses = [(access_of(self.way.problem.accelerator, memory), is_read) for memory, is_read in moves]
        return sum(ceil(bits / shortest_of(own)) * access_pj(own, is_read=is_read) for own, is_read in accesses)

    def _pj(self, chain: OperandChain, memory: str, bits: Along, *, is_read: bool) -> Along:
        access, served = access_of(self.way.problem.accelerator, memory), self.way.served(memory)
        shortest, found = shortest_of(access), np.zeros((1,) * len(LOOPS))
        for one in np.unique(bits) if bits.size > 1 else bits.flat:
            of_one = element_accesses(chain, served, int(one), shortest, self.counts_tiles)
            found = np.where(bits == one, of_one * access_pj(access, is_read=is_read), found)
        return found


def access_pj(access: Access, *, is_read: bool) -> float:
    """Return the energy in pJ of one access of the shortest length."""
    energy_pj = access.read_energy_pj if is_read else access.write_energy_pj
    return shortest_of(access) / access.access_bits * energy_pj


Waits: TypeAlias = tuple[tuple[Along, Along], ...]
"""Transfers that stall one by one: minimum count and duration in cycles of each."""

PortOf: TypeAlias = tuple[str, int]
Place: TypeAlias = tuple[Operand, int]


@dataclass(frozen=True)
class Running:
    """A lower bound on the cycles of the loops with their stalls: `fixed` plus the costs of boundaries.

    If the transfers of a `port` are counted, `totals` include first loads and last stores. `waits` gives count and
    duration of transfers that stall one by one in memories with room for one tile.
    """

    fixed: float
    costs: Boundaries
    port: PortOf | None = None
    totals: Boundaries = field(default_factory=dict)
    waits: Mapping[Place, Waits] = field(default_factory=dict)


@dataclass(frozen=True)
class Waiting:
    """Cycles before and after the loops, by boundary; `port` is the only port at which they are counted."""

    costs: Boundaries
    port: PortOf | None = None


@dataclass(frozen=True)
class ChainTime:
    """The cycle bound of a set of unrollings: every mapping takes at least `least_cycles`."""

    way: UnrolledWays
    lattice: Lattice

    @cached_property
    def least_cycles(self) -> float:
        """Return the bound: the maximum over the busiest port and the array's iterations; infinite if nothing fits.

        Each criterion counts the first transfers at its own port, or the first known ones.
        """
        alone = (run for run in self._running if run.costs or not run.waits)
        costs = ((run.fixed, self.joined(run, self._own(run) or self._before[0])) for run in alone)
        return max(self.turning, *(fixed + least_of(self.lattice, own, self.no_room) for fixed, own in costs))

    @cached_property
    def turning(self) -> float:
        """Return the cycles of the array's iterations and of the first and last elements, without other transfers."""
        return max(self._turns, *self._at_units.values(), 0.0) + first_and_last(self.way.problem)

    @cached_property
    def places_by_port(self) -> dict[PortOf, set[Place]]:
        """Return the boundaries with transfers at each port, for ports that do not feed the MACs."""
        return {port: set(own) for port, own in self._by_port.items() if port not in self._at_units}

    @cached_property
    def criteria(self) -> Sequence[tuple[Running, Waiting]]:
        """Return all criteria: in-loop cycles together with cycles before and after the loops."""
        return list(product(self._running, self._before))

    @cached_property
    def _running(self) -> Sequence[Running]:
        found = [Running(max(self._turns, *self._at_units.values(), 0.0), {})]
        for port, own in self._by_port.items():
            units = self._at_units.get(port, 0.0)
            runs, totals = {at: one.run for at, one in own.items()}, {at: one.total for at, one in own.items()}
            found.append(Running(units, runs, port, totals))
            waits = {at: one.waiting for at, one in own.items() if one.waiting.any()}
            alone = {at: one.waits for at, one in own.items() if one.waits}
            if waits or alone:
                found.append(Running(self._turns, waits, waits=alone))
        return found

    @cached_property
    def _before(self) -> Sequence[Waiting]:
        """Return counts of first transfers: one operand's memory after memory, or all at one port; plus last stores."""
        found = []
        for port, own in self._by_port.items():
            first = {at: one.first for at, one in own.items() if at[0] is not Operand.OUTPUT}
            if len({operand for operand, _ in first}) > 1:
                found.append(Waiting({**first, **self._last}, port))
        found.sort(key=lambda one: one.port is not None and one.port[0] != DRAM)
        found.extend(
            Waiting({at: one for at, one in self._hops.items() if at[0] in (operand, Operand.OUTPUT)})
            for operand in dict.fromkeys(operand for operand, _ in self._hops if operand is not Operand.OUTPUT)
        )
        return found or [Waiting(self._last)]

    @cached_property
    def _hops(self) -> dict[Place, Along]:
        """Return by boundary the duration of the first or last transfer at the slower port."""
        found: dict[Place, Along] = {}
        for own in self._by_port.values():
            for at, one in own.items():
                found[at] = np.maximum(found[at], one.first) if at in found else one.first
        return found

    @property
    def _last(self) -> dict[Place, Along]:
        return {at: one for at, one in self._hops.items() if at[0] is Operand.OUTPUT}

    def joined(self, run: Running, before: Waiting) -> Boundaries:
        """Return both together: all transfers, if first transfers are counted at least as long as at the run's port."""
        found = _sum(run.costs, before.costs)
        for at, total in run.totals.items():
            if at in before.costs and self._is_no_shorter(at, before.port, run.port):
                found[at] = np.maximum(found[at], total)
        return found

    def _is_no_shorter(self, at: Place, first: PortOf | None, port: PortOf | None) -> bool:
        """Return True if a boundary's first transfer counts at least as long as at the given port.

        From memory to memory it takes as long as at the slower port, and so do the last stores. A tile of inputs or
        weights in an upper memory is no smaller than the tiles below it.
        """
        operand, number = at
        if first in (None, port) or operand is Operand.OUTPUT or port is None or first is None:
            return True
        lower, upper = self.way.memories(operand)[number : number + 2]
        accelerator = self.way.problem.accelerator
        widths = [ports_of(accelerator, memory)[one].bits_per_cycle for memory, one in (first, port)]
        return (first[0], port[0]) == (upper, lower) and widths[0] <= widths[1]

    def _own(self, run: Running) -> Waiting | None:
        """Return the first transfers at the port whose transfers are counted."""
        if run.port is None:
            return None
        first = {at: one.first for at, one in self._by_port[run.port].items() if at[0] is not Operand.OUTPUT}
        return Waiting({**first, **self._last}, run.port)

    @cached_property
    def no_room(self) -> Boundaries:
        """Return infinity for cells in which a tile does not fit."""
        operands = map(Operand, self.way.problem.layer.operands)
        chains = [OperandChain(self.way, self.lattice, operand) for operand in operands]
        return {
            (chain.operand, number): np.where(chain.fits(number), 0.0, np.inf)
            for chain in chains
            for number in range(len(self.way.memories(chain.operand)) - 1)
        }

    @cached_property
    def _turns(self) -> float:
        return float(self.way.least_turns)

    @cached_property
    def _at_units(self) -> dict[PortOf, float]:
        busy = busy_at_units(self.way.problem, self.way.least[None], self.way.most[None], self.way.fewest_turns)
        return {port: float(one[0]) for port, one in busy.items()}

    @cached_property
    def _by_port(self) -> dict[PortOf, dict[Place, PortCycles]]:
        ports: dict[PortOf, dict[Place, PortCycles]] = defaultdict(dict)
        for operand in (Operand(one) for one in self.way.problem.layer.operands):
            chain = OperandChain(self.way, self.lattice, operand)
            for number in range(len(self.way.memories(operand)) - 1):
                for port, transfers in self._transfers(chain, number):
                    before = ports[port].get((operand, number))
                    ports[port][operand, number] = transfers if before is None else before + transfers
        return ports

    def _transfers(self, chain: OperandChain, number: int) -> Iterator[tuple[PortOf, PortCycles]]:
        """Yield the ports at the boundary above a memory, with their busy cycles."""
        problem = self.way.problem
        lower, upper = self.way.memories(chain.operand)[number : number + 2]
        if chain.operand is Operand.INPUT and not work_of_all(problem.layer).inputs:
            return
        bits, arriving = chain.bits(number, self.way.served(upper)), chain.bits_above(self.way.served(upper))
        most_bits = max(
            problem.layer.bits(chain.operand), problem.layer.partial_bits * (chain.operand is Operand.OUTPUT)
        )
        below = self.way.served(lower)
        block = chain.largest(below, is_block=True)  # lower bound on the elements that come from above at once
        if chain.operand is Operand.OUTPUT:
            moves = [
                (upper, Move.WRITE_FROM_BELOW, arriving, False),
                (lower, Move.READ_FOR_ABOVE, bits, False),
                (upper, Move.READ_FOR_BELOW, arriving, True),
                (lower, Move.WRITE_FROM_ABOVE, bits, True),
            ]
        else:
            moves = [(upper, Move.READ_FOR_BELOW, arriving, False), (lower, Move.WRITE_FROM_ABOVE, bits, False)]
        for memory, move, wide, returns in moves:
            own = ports_of(problem.accelerator, memory)
            if own:
                port = port_for(memory, own, move)
                served, width = self.way.served(memory), own[port].bits_per_cycle
                largest = block if memory == lower else np.maximum(block, chain.largest(served))
                longest = np.ceil(largest * wide / width)
                apart = prod(served.most_apart[at] for at in LEADING[chain.operand])
                together = chain.elements(served, below) * wide / width / apart
                window = self._window(chain, self.way.levels[lower])
                most = np.ceil(chain.at_once(served) * most_bits / width)
                cycles = cycles_of(chain, longest, most, together, window, returns=returns)
                yield (memory, port), cycles.in_full_windows() if self.way.levels[lower].double_buffered else cycles

    def _window(self, chain: OperandChain, level: MemoryLevel) -> Along:
        """Return the maximum cycles for replacing a tile: one, unless a loop leads to others of its elements."""
        inside = self.lattice.most_turns(range(len(self.lattice.dimensions)))
        if level.double_buffered:
            return inside
        return np.where(self.lattice.most_turns(LEADING[chain.operand]) == 1, 1.0, inside)


def _sum(*tables: Boundaries) -> dict[Place, Along]:
    found: dict[Place, Along] = {}
    for table in tables:
        for at, own in table.items():
            found[at] = found[at] + own if at in found else own
    return found


@dataclass(frozen=True)
class PortCycles:
    """Cycles of a port by cell: in-loop transfers (`run`), and first loads or last stores (`first`).

    `total` covers both. `waiting` is the excess of single transfers over the time in which their tiles may be replaced.
    `waits` lists these transfers if that time may be shorter than the cell alone suggests.
    """

    run: Along
    first: Along
    total: Along
    waiting: Along
    waits: Waits = ()

    def __add__(self, other: PortCycles) -> PortCycles:
        return PortCycles(
            self.run + other.run,
            self.first + other.first,
            self.total + other.total,
            self.waiting + other.waiting,
            (*self.waits, *other.waits),
        )

    def in_full_windows(self) -> PortCycles:
        """Return the same for a double-buffered memory, where the next tile may arrive at any time."""
        return replace(self, waits=())


def cycles_of(
    chain: OperandChain, longest: Along, most: Along, together: Along, window: Along, *, returns: bool
) -> PortCycles:
    """Return the cycles of tiles whose largest takes `longest` to `most` cycles; `together` is all tiles once."""
    once = np.maximum(chain.tiles * longest, together)
    waiting = np.maximum(longest - window, 0.0)
    if returns:
        again = chain.comes_again - 1
        times = chain.tiles * again
        return PortCycles(once * again, 0.0 * once, once * again, times * waiting, _waits(times, longest))
    total, times = once * chain.comes_again, chain.tiles * chain.comes_again - 1
    run = np.maximum(np.maximum(total - most, times * longest), 0.0)
    return PortCycles(run, longest, np.maximum(total, longest), times * waiting, _waits(times, longest))


def _waits(times: Along, longest: Along) -> Waits:
    """Return no waits for transfers of one cycle: the replacement window is at least as long."""
    return ((times, longest),) if longest.max() > 1 and times.max() > 0 else ()
