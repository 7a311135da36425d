"""The least chain of places in one way to use the array, by all criteria at once and with the room of tiles together.

What is least by each criterion alone is most often not the same chain. Here a chain is worth what its mapping would be
at least: all operands stand in one order, tiles share the room of a memory, loops inside a place divide into those
inside the next one, and time is the greatest of all its criteria. Of lattices without dimensions that are shared out:
there each index has a chain of its own, and no chain is that of the mapping.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from onchip.arch.memory import Operand
from onchip.native import least_chain_below
from onchip.solve.mapping.objective import MappingObjective
from onchip.solve.mapping.wide.chain import OperandChain, UnrolledWays
from onchip.solve.mapping.wide.chain_energy import ChainEnergy
from onchip.solve.mapping.wide.chain_time import ChainTime, Place
from onchip.solve.mapping.wide.lattice import Dimension, Lattice
from onchip.solve.mapping.wide.least import Boundaries, least_of

GUIDES: Final = 6
"""Criteria of cycles of which the rest is looked up at each step; of the others what has been added counts."""
MOST_STEPS: Final = 50_000
LESS_THAN_A_CYCLE: Final = 0.5

Costs = NDArray[np.float64]


@dataclass(frozen=True)
class ChainsTogether:
    """Chains of one way on a lattice in which nothing is shared out."""

    energy: ChainEnergy
    time: ChainTime

    @property
    def way(self) -> UnrolledWays:
        """Return the way to use the array."""
        return self.energy.way

    @property
    def lattice(self) -> Lattice:
        """Return the places that chains are searched over."""
        return self.energy.lattice

    def least(self, objective: MappingObjective, limit: float, most_steps: int = MOST_STEPS) -> float:
        """Return what no mapping is below, in the objective's unit; the limit itself where none is below that."""
        places = self._places
        if not places:
            return 0.0
        unit = objective.of(1.0, 1.0)
        below = limit / unit - (LESS_THAN_A_CYCLE if objective is MappingObjective.LATENCY else 0.0)
        criteria: list[tuple[float, list[Costs | None], bool]] = []
        if objective is not MappingObjective.LATENCY:
            criteria.append((self.energy.fixed_pj, self._tables(self.energy.boundaries, skips_zero=False), True))
        if objective is not MappingObjective.ENERGY:
            criteria += self._of_time()
        memories = sorted({self._memory(place) for place in places})
        operands = list(dict.fromkeys(operand for operand, _ in places))
        cells = zip(self.lattice.dimensions, self.way.units, strict=True)
        found, _, _, _ = least_chain_below(
            self.lattice.shape,
            [_may_stand_inside(own, units.most) for own, units in cells],
            [float(self.way.problem.room_bits(memory)) for memory in memories],
            [(operands.index(place[0]), memories.index(self._memory(place)), self._bits(place)) for place in places],
            criteria,
            objective is MappingObjective.EDP,
            below,
            most_steps,
        )
        return limit if found >= below else found * unit

    @property
    def _places(self) -> list[Place]:
        operands = [Operand(one) for one in self.way.problem.layer.operands]
        return [(one, at) for one in operands for at in range(len(self.way.memories(one)) - 1)]

    def _memory(self, place: Place) -> str:
        operand, number = place
        return self.way.memories(operand)[number]

    def _bits(self, place: Place) -> Costs:
        operand, number = place
        return self._flat(OperandChain(self.way, self.lattice, operand).room_bits(number))

    def _flat(self, table: NDArray[np.float64]) -> Costs:
        return np.broadcast_to(table, self.lattice.shape).astype(np.float64).ravel()

    def _tables(self, costs: Boundaries, *, skips_zero: bool = True) -> list[Costs | None]:
        return [
            self._flat(costs[place]) if place in costs and not (skips_zero and not costs[place].any()) else None
            for place in self._places
        ]

    def _of_time(self) -> list[tuple[float, list[Costs | None], bool]]:
        """The highest guide: they say most of what is left."""
        found = [(fixed, costs) for fixed, costs in self.time.all_criteria()]
        found.sort(key=lambda one: -(one[0] + least_of(self.lattice, one[1], self.time.no_room)))
        return [(fixed, self._tables(costs), at < GUIDES) for at, (fixed, costs) in enumerate(found)]


def _may_stand_inside(cells: Dimension, units: int) -> list[int]:
    return list(_divisible(units, tuple(cells.first.tolist()), tuple(cells.turns.tolist())))


@lru_cache(maxsize=1 << 10)
def _divisible(units: int, first: tuple[int, ...], turns: tuple[int, ...]) -> bytes:
    """By inner and outer cell, whether loops in time of the one may be inside those of the other.

    The loops that lead to a coordinate take from as many turns as all units need, up to the cell's `turns`; those of an
    outer place are a multiple of an inner one's, but where a dimension ends, as the outermost loop may end short.
    """
    found = bytearray()
    for at, start in enumerate(first):
        fewest = -(-start // units)
        for outer in range(len(first)):
            least = -(-first[outer] // units)
            inside = range(fewest, min(turns[at], turns[outer]) + 1)
            is_last = outer == len(first) - 1
            found.append(outer >= at and (is_last or any(turns[outer] // own * own >= least for own in inside)))
    return bytes(found)
