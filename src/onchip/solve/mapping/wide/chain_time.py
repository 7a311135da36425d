"""How long ports are busy with all boundaries, in some ways to use the array, whatever the order of loops.

What comes first and goes last at a port comes before the loops and after them. While they run they take as long as the
array's turns, or any port's transfers, or a mean of both; or as the turns and what single transfers wait.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import prod
from typing import Final, TypeAlias

import numpy as np

from onchip.answer.layer_mapping import Move
from onchip.arch.memory import DRAM, MemoryLevel, Operand
from onchip.cost.layer.ports import port_for, ports_of
from onchip.cost.schedule.nest_work import work_of_all
from onchip.ir.layer import LOOPS
from onchip.solve.mapping.wide.chain import LEADING, OperandChain, UnrolledWays
from onchip.solve.mapping.wide.lattice import Along, Lattice
from onchip.solve.mapping.wide.least import Boundaries, least_of
from onchip.solve.mapping.wide.turns import busy_at_units, first_and_last

PortOf: TypeAlias = tuple[str, int]
WEIGHTS: Final = (0.25, 0.5, 0.75)
"""Of what DRAM's port does while the loops run, in the mean with turns."""


@dataclass(frozen=True)
class PortCycles:
    """Cycles of a port by cell: of what crosses a boundary while the loops `run`, and what comes `first` or goes last.

    `waiting` are those by which single transfers exceed the time in which their tiles may be replaced.
    """

    run: Along
    first: Along
    waiting: Along

    def __add__(self, other: PortCycles) -> PortCycles:
        return PortCycles(self.run + other.run, self.first + other.first, self.waiting + other.waiting)


@dataclass(frozen=True)
class ChainTime:
    """The cycles of every mapping of a way are at least `least_cycles`."""

    way: UnrolledWays
    lattice: Lattice

    @cached_property
    def least_cycles(self) -> float:
        """Return it: of the port that is busy longest, or of the turns of the array."""
        turning = max(self._turns, *self._at_units.values(), 0.0) + first_and_last(self.way.problem)
        return max([turning, *(least for least, _, _ in self.criteria)])

    @cached_property
    def criteria(self) -> Sequence[tuple[float, float, Boundaries]]:
        """Return cycles that no mapping is below, the highest first; with what is fixed and what boundaries cost."""
        found = []
        for fixed, *tables in self._criteria():
            summed: dict[tuple[Operand, int], Along] = {}
            for table in tables:
                for at, own in table.items():
                    summed[at] = summed[at] + own if at in summed else own
            found.append((fixed + least_of(self.lattice, summed), fixed, summed))
        return sorted(found, key=lambda one: -one[0])

    def _criteria(self) -> Iterator[tuple[float, Boundaries, Boundaries]]:
        ports = self._by_port()
        off_chip = [ports[port] for port in ports if port[0] == DRAM]
        for port, own in ports.items():
            units = self._at_units.get(port, 0.0)
            for outside in (own, *(one for one in off_chip if one is not own)):
                first = {at: one.first for at, one in outside.items()}
                yield units, first, {at: one.run for at, one in own.items()}
                yield self._turns, first, {at: one.waiting for at, one in own.items()}
            for weight in WEIGHTS if port[0] == DRAM else ():
                first = {at: one.first for at, one in own.items()}
                run = {at: weight * one.run for at, one in own.items()}
                yield (1 - weight) * self._turns + weight * units, first, run

    @cached_property
    def _turns(self) -> float:
        return float(self.way.least_turns)

    @cached_property
    def _at_units(self) -> dict[PortOf, float]:
        busy = busy_at_units(self.way.problem, self.way.least[None], self.way.most[None])
        return {port: float(one[0]) for port, one in busy.items()}

    def _by_port(self) -> dict[PortOf, dict[tuple[Operand, int], PortCycles]]:
        ports: dict[PortOf, dict[tuple[Operand, int], PortCycles]] = defaultdict(dict)
        for operand in (Operand(one) for one in self.way.problem.layer.operands):
            chain = OperandChain(self.way, self.lattice, operand)
            for number in range(len(self.way.memories(operand)) - 1):
                no_room = np.where(chain.fits(number), 0.0, np.inf)
                for port, transfers in self._transfers(chain, number):
                    before = ports[port].get((operand, number), PortCycles(no_room, no_room, no_room))
                    ports[port][operand, number] = before + transfers
        return ports

    def _transfers(self, chain: OperandChain, number: int) -> Iterator[tuple[PortOf, PortCycles]]:
        """Ports at the boundary above a memory, and how long they are busy."""
        problem = self.way.problem
        lower, upper = self.way.memories(chain.operand)[number : number + 2]
        if chain.operand is Operand.INPUT and not work_of_all(problem.layer).inputs:
            return
        bits, arriving = chain.bits(number, self.way.served(upper)), chain.bits_above(self.way.served(upper))
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
                longest = np.ceil(chain.largest(served) * wide / width)
                apart = prod(served.most_apart[at] for at in LEADING[chain.operand])
                together = chain.elements(served) * wide / width / apart
                waits = np.maximum(longest - self._window(chain, self.way.levels[lower]), 0.0)
                yield (memory, port), _cycles_of(chain, longest, together, waits, returns=returns)

    def _window(self, chain: OperandChain, level: MemoryLevel) -> Along:
        """Cycles in which a tile may be replaced, at most: one, if none of its loops leads to others of its elements.

        Of loops that are shared out it is not known which of them stand there.
        """
        dimensions, leading = self.lattice.dimensions, LEADING[chain.operand]
        turns = [self.lattice.along(at, one.turns.astype(np.float64)) for at, one in enumerate(dimensions)]
        period = reduce(np.multiply, turns)
        if level.double_buffered or any(dimensions[at].shared_out and dimensions[at].bound > 1 for at in leading):
            return period
        return np.where(reduce(np.multiply, [turns[at] for at in leading]) == 1, 1.0, period)


def _cycles_of(chain: OperandChain, longest: Along, together: Along, waits: Along, *, returns: bool) -> PortCycles:
    """Of tiles of which the largest takes so long, and all of them together, each once."""
    once = np.maximum(chain.tiles * longest, together)
    if returns:
        again = chain.comes_again - 1
        return PortCycles(once * again, np.zeros((1,) * len(LOOPS)), chain.tiles * again * waits)
    run = np.maximum(once * chain.comes_again - longest, 0.0)
    return PortCycles(run, longest, (chain.tiles * chain.comes_again - 1) * waits)
