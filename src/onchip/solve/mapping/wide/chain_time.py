"""How long ports are busy with all boundaries, in one way to use the array, whatever the order of loops.

A port waits for the rest while the loops run, before them and after them, so cycles are no fewer than what its
transfers take together, the first and the last included; each takes as long as the largest tile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from onchip.answer.layer_mapping import Move
from onchip.arch.memory import Operand
from onchip.cost.layer.ports import port_for, ports_of
from onchip.cost.schedule.nest_work import work_of_all
from onchip.ir.layer import LOOPS
from onchip.native import least_chain
from onchip.solve.mapping.wide.chain import LEADING, OperandChain, Way
from onchip.solve.mapping.wide.lattice import Along, Lattice
from onchip.solve.mapping.wide.turns import busy_at_units, first_and_last, turns_of

PortOf: TypeAlias = tuple[str, int]


@dataclass(frozen=True)
class ChainTime:
    """The cycles of every mapping of a way are at least `least_cycles`."""

    way: Way
    lattice: Lattice

    @cached_property
    def least_cycles(self) -> float:
        """Return it: of the port that is busy longest, or of the turns of the array."""
        problem, most = self.way.problem, self.way.most[None]
        at_units = busy_at_units(problem, self.way.least[None], most)
        turning = max(float(one[0]) for one in (turns_of(problem.layer, most), *at_units.values()))
        found = turning + first_and_last(problem)
        for port, tables in self._by_port().items():
            fixed = float(at_units[port][0]) if port in at_units else 0.0
            found = max(found, fixed + least_chain(self.lattice.shape, tables))
        return found

    def _by_port(self) -> dict[PortOf, list[list[Along]]]:
        """By port, of each operand the boundaries at which it is used."""
        ports: dict[PortOf, list[list[Along]]] = defaultdict(list)
        for operand in (Operand(one) for one in self.way.problem.layer.operands):
            own: dict[PortOf, list[Along]] = defaultdict(list)
            for number in range(len(self.way.memories(operand)) - 1):
                used: dict[PortOf, Along] = defaultdict(lambda: np.zeros((1,) * len(LOOPS)))
                chain = OperandChain(self.way, self.lattice, operand)
                for port, busy in self._transfers(chain, number):
                    used[port] = used[port] + busy
                has_room = chain.fits(number)
                for port, busy in used.items():
                    own[port].append(self._flat(np.where(has_room, busy, np.inf)))
            for port, tables in own.items():
                ports[port].append(tables)
        return ports

    def _flat(self, values: Along) -> Along:
        return np.ascontiguousarray(np.broadcast_to(values, self.lattice.shape)).reshape(-1)

    def _transfers(self, chain: OperandChain, number: int) -> Iterator[tuple[PortOf, Along]]:
        """Ports at the boundary above a memory, and how long they are busy."""
        problem = self.way.problem
        lower, upper = self.way.memories(chain.operand)[number : number + 2]
        inside, above = self.way.served(lower), self.way.served(upper)
        bits = chain.bits(number, above)
        times = chain.moves()
        again = times - chain.lattice.parts(LEADING[chain.operand], self.way.whole)
        if chain.operand is Operand.OUTPUT:
            layer = problem.layer
            arriving = np.where(chain.is_incomplete(above), float(layer.partial_bits), float(layer.output_bits))
            moves = [
                (upper, Move.WRITE_FROM_BELOW, above, arriving, times),
                (lower, Move.READ_FOR_ABOVE, inside, bits, times),
                (upper, Move.READ_FOR_BELOW, above, arriving, again),
                (lower, Move.WRITE_FROM_ABOVE, inside, bits, again),
            ]
        elif chain.operand is Operand.INPUT and not work_of_all(problem.layer).inputs:
            moves = []
        else:
            moves = [
                (upper, Move.READ_FOR_BELOW, above, bits, times),
                (lower, Move.WRITE_FROM_ABOVE, inside, bits, times),
            ]
        for memory, move, served, wide, often in moves:
            own = ports_of(problem.accelerator, memory)
            if own:
                port = port_for(memory, own, move)
                busy = np.ceil(chain.largest(served) * wide / own[port].bits_per_cycle)
                yield (memory, port), busy * often
