"""Lower bound on the cycles that ports are busy with all boundaries, over all loop orders of a set of unrollings.

First loads and last stores lie before and after the loops. The loops take at least as long as the array's iterations,
any port's transfers, or the iterations plus the stalls of single transfers. Any weighted mean of these is a lower bound
too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Final, TypeAlias

import numpy as np

from onchip.answer.layer_mapping import Move
from onchip.arch.memory import DRAM, MemoryLevel, Operand
from onchip.bounds.layer.floors import busy_at_units, first_and_last
from onchip.bounds.layer.nest_work import work_of_all
from onchip.mapping.chains.chain import OperandChain
from onchip.mapping.chains.lattice import Along, Boundaries, Criterion, Lattice, highest_mean
from onchip.mapping.prove.unrolled_ways import LEADING, UnrolledWays
from onchip.model.layer.accesses import port_for, ports_of

Waits: TypeAlias = tuple[tuple[Along, Along], ...]
"""Transfers that stall one by one: minimum count and duration in cycles of each."""

PortOf: TypeAlias = tuple[str, int]
Place: TypeAlias = tuple[Operand, int]
HIGHEST: Final = 2
"""Number of in-loop criteria, highest weight first, that are combined with every count of first transfers."""


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
    """The cycle bound of a set of unrollings: every mapping takes at least `least_cycles`.

    The search for a higher bound stops at `enough`.
    """

    way: UnrolledWays
    lattice: Lattice
    enough: float = np.inf

    @cached_property
    def least_cycles(self) -> float:
        """Return the bound: the maximum over the busiest port and the array's iterations; infinite if nothing fits."""
        if self.turning >= self.enough:
            return self.turning
        found, _ = self._mean_alone
        if found < self.enough:
            found = max(found, highest_mean(self.lattice, self.no_room, self._joined_most, self.enough)[0])
        return max(found, self.turning)

    def least_with(self, energy: Criterion, slope: float, enough: float, vain: float) -> float:
        """Return a lower bound on cycles plus `slope` times the pJ of `energy`, or `enough` if that is reached.

        The bound stays valid if the search stops early because some chain is not above `vain`.
        """
        criteria = [energy, *self._alone, *self._joined_most]
        return highest_mean(self.lattice, self.no_room, criteria, enough, slope, vain)[0]

    @cached_property
    def turning(self) -> float:
        """Return the cycles of the array's iterations and of the first and last elements, without other transfers."""
        return max(self._turns, *self._at_units.values(), 0.0) + first_and_last(self.way.problem)

    @cached_property
    def named(self) -> Sequence[tuple[Hashable, Running, Waiting]]:
        """Return all criteria: in-loop cycles together with cycles before and after the loops.

        Each has a name that is the same on most lattices.
        """
        return [
            ((run.port, *run.costs, *run.waits, before.port, *before.costs), run, before)
            for run in self._running
            for before in self._before
        ]

    @cached_property
    def places_by_port(self) -> dict[PortOf, set[Place]]:
        """Return the boundaries with transfers at each port, for ports that do not feed the MACs."""
        return {port: set(own) for port, own in self._by_port.items() if port not in self._at_units}

    @cached_property
    def _runs_alone(self) -> Sequence[Running]:
        """Return the in-loop criteria with boundary costs."""
        return [run for run in self._running if run.costs or not run.waits]

    @cached_property
    def _alone(self) -> Sequence[Criterion]:
        """Return each criterion with the first transfers at its own port, or the first known ones."""
        return [(run.fixed, self.joined(run, self._own(run) or self._before[0])) for run in self._runs_alone]

    @cached_property
    def _mean_alone(self) -> tuple[float, list[float]]:
        return highest_mean(self.lattice, self.no_room, self._alone, self.enough)

    @cached_property
    def _joined_most(self) -> Sequence[Criterion]:
        """Return the criteria with the greatest weights in the mean, alone and with all counts of first transfers."""
        _, weights = self._mean_alone
        order = sorted((at for at, weight in enumerate(weights) if weight > 0), key=lambda at: -weights[at])
        heaviest = [self._runs_alone[at] for at in order[:HIGHEST]]
        joined = [(run.fixed, self.joined(run, before)) for run in heaviest for before in self._before]
        return [*(self._alone[at] for at in order), *joined]

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
        whole = OperandChain(self.way, self.lattice.with_whole_shares, chain.operand)
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
                most = np.ceil(whole.at_once(served) * most_bits / width)
                cycles = cycles_of(chain, longest, most, together, window, returns=returns)
                yield (memory, port), cycles.in_full_windows() if self.way.levels[lower].double_buffered else cycles

    def _window(self, chain: OperandChain, level: MemoryLevel) -> Along:
        """Return the maximum cycles for replacing a tile: one, unless a loop leads to others of its elements.

        For shared-out loops their position is unknown, so they get the longest window.
        """
        dimensions, leading = self.lattice.dimensions, LEADING[chain.operand]
        if level.double_buffered or any(dimensions[at].shared_out and dimensions[at].bound > 1 for at in leading):
            return self.lattice.most_turns(range(len(dimensions)))
        return np.where(self.lattice.most_turns(leading) == 1, 1.0, self.lattice.most_turns(range(len(dimensions))))


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
