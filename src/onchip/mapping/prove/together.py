"""The least tile-size chain of one spatial unrolling, by all criteria together and with shared memory capacity.

The minima of single criteria are usually different chains. Here a chain's value is a lower bound on its mappings. All
operands have one loop order, and tiles share a memory's capacity. Iterations inside a position divide those inside the
next, and the time is the maximum over all criteria.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Final

import numpy as np

from onchip.answer.options.mapping_objective import MappingObjective
from onchip.arch.memory import Operand
from onchip.ir.layer import LOOPS
from onchip.mapping.chains.chain import OperandChain
from onchip.mapping.chains.criteria import ChainEnergy, ChainTime, Place, Running, Waits
from onchip.mapping.chains.dimension import Range, may_stand_inside, single_cells
from onchip.mapping.chains.lattice import Along, Boundaries, Lattice, Ranges
from onchip.mapping.prove.unrolled_ways import CHANNELS, LEADING, OTHERS, UnrolledWays
from onchip.native import least_chain_below
from onchip.search.budget.limits import Run

ROUNDS_IN_ANY_CASE: Final = 3
"""Number of searches, each over the cells that the one before left, before further ones need complete searches."""
MOST_IN_VAIN: Final = 2
"""Number of consecutive splits of the least chain's cells without a gain, after which all cells are split."""
FINER: Final = 2
"""Growth factor of the number of cells from one lattice to the next."""
MOST_STEPS: Final = 1_000_000
STEPS_IN_A_SECOND: Final = 2_000_000
"""Lower estimate of search speed, which keeps a limited run within its time."""
LESS_THAN_A_CYCLE: Final = 0.5

COUNTED: Final = {**LEADING, Operand.INPUT: CHANNELS}
"""Dimensions whose parts are the same share of an operand's elements; rows of input tiles overlap."""

Tables = list[Along | None]
ListedWaits = list[list[tuple[Along, Along]]]
Row = tuple[float, Tables, Tables, Tables, bool, ListedWaits, int | None]
"""Row of a criterion: fixed cost, boundary costs, extra cost if no tile stays, further extra cost, True if linear,
waits, and the port whose transfers it counts.
"""


@dataclass(frozen=True)
class Found:
    """A lower bound in the objective's unit, and the cells of each dimension in which better mappings may lie.

    `chain` maps each position of the least chain to coordinate ranges by dimension; empty if unknown. `is_ended`: the
    search completed. `had_time`: the run's time did not cut it short. `left` holds the cells' ranges by dimension.
    """

    least: float
    cells: list[list[int]]
    chain: Mapping[Place, list[Range]] = field(default_factory=dict)
    is_ended: bool = False
    had_time: bool = True
    left: Ranges = ()


@dataclass(frozen=True)
class ChainsTogether:
    """The chains of one unrolling on a lattice."""

    energy: ChainEnergy
    time: ChainTime
    _known: dict[tuple[int, int], tuple[Along | None, Along, Along]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def way(self) -> UnrolledWays:
        """Return the spatial unrolling of these chains."""
        return self.energy.way

    @property
    def lattice(self) -> Lattice:
        """Return the lattice over which chains are searched."""
        return self.energy.lattice

    def least(self, objective: MappingObjective, limit: float, most_steps: int = MOST_STEPS) -> Found:
        """Return a lower bound on all mappings, capped at the limit, which means that none is below it."""
        places = self._places
        if not places:
            return Found(0.0, [])
        unit = objective.of(1.0, 1.0)
        below = limit / unit - (LESS_THAN_A_CYCLE if objective is MappingObjective.LATENCY else 0.0)
        memories = sorted({self._memory(place) for place in places})
        operands = list(dict.fromkeys(operand for operand, _ in places))
        dimensions = self.lattice.dimensions
        found, is_ended, _, points, cells = least_chain_below(
            self.lattice.shape,
            [may_stand_inside(own) for own in dimensions],
            [[at in LEADING[operand] for at in range(len(LOOPS))] for operand in operands],
            [one.stays.tolist() for one in dimensions],
            [one.short_turns.tolist() for one in dimensions],
            [one.units / one.bound for one in dimensions],
            [[at in COUNTED[operand] for at in range(len(LOOPS))] for operand in operands],
            [one.turns.astype(np.float64).tolist() for one in dimensions],
            [single_cells(own, units) for own, units in zip(dimensions, self.way.units, strict=True)],
            [float(self.way.problem.room_bits(memory)) for memory in memories],
            [[place in own for place in places] for own in self.time.places_by_port.values()],
            [one.turns_of_parts.tolist() for one in dimensions],
            [one.last_turns.tolist() for one in dimensions],
            [(one.known_turns > 0).astype(int).tolist() for one in dimensions],
            [(operands.index(place[0]), memories.index(self._memory(place)), *self._tiles(place)) for place in places],
            self._criteria(objective),
            objective is MappingObjective.EDP,
            below,
            most_steps,
        )
        chain = dict(zip(places, map(self._cell, points), strict=True)) if points else {}
        return Found(limit if found >= below else found * unit, cells, chain, is_ended)

    def _criteria(self, objective: MappingObjective) -> list[Row]:
        energy = [self._of_energy()] if objective is not MappingObjective.LATENCY else []
        return energy + (self._of_time() if objective is not MappingObjective.ENERGY else [])

    def _cell(self, point: int) -> list[Range]:
        each = zip(self.lattice.dimensions, np.unravel_index(point, self.lattice.shape), strict=True)
        return [(int(own.first[at]), int(own.last[at])) for own, at in each]

    @cached_property
    def _places(self) -> list[Place]:
        operands = [Operand(one) for one in self.way.problem.layer.operands]
        return [(one, at) for one in operands for at in range(len(self.way.memories(one)) - 1)]

    def _memory(self, place: Place) -> str:
        operand, number = place
        return self.way.memories(operand)[number]

    def _tiles(self, place: Place) -> tuple[Along, list[Along], bool]:
        """Return the capacity that tiles take, their number of arrivals, and True for a double-buffered memory."""
        return self._bits(place), self._comes(place), self.way.levels[self._memory(place)].double_buffered

    def _bits(self, place: Place) -> Along:
        """Return the tile's bits by cell, infinite where it does not fit."""
        operand, number = place
        chain = OperandChain(self.way, self.lattice, operand)
        return np.where(chain.fits(number), chain.room_bits(number), np.inf)

    def _comes(self, place: Place) -> list[Along]:
        """Return lower bounds on the arrivals of tiles, for each of the boundary's two memories."""
        operand, number = place
        sides = dict.fromkeys(self.way.served(one) for one in self.way.memories(operand)[number : number + 2])
        return [self.lattice.parts(OTHERS[operand], one) for one in sides]

    @cached_property
    def _all_move(self) -> ChainsTogether:
        """Return the same chains with no tile staying where loops end short."""
        lattice = self.lattice.where_all_move
        return ChainsTogether(ChainEnergy(self.way, lattice), ChainTime(self.way, lattice))

    def _of_energy(self) -> Row:
        own, moving = self.energy.boundaries, self._all_move.energy.boundaries
        in_part = self._all_move.energy.in_parts.boundaries
        none: ListedWaits = [[] for _ in self._places]
        more, rest = self._more(own, in_part), self._more(own, moving)
        for at, (first, both) in enumerate(zip(more, rest, strict=True)):
            if first is not None and both is not None:
                rest[at] = np.maximum(both - first, 0.0)
        return self.energy.fixed_pj, self._tables(own, skips_zero=False), more, rest, True, none, None

    def _of_time(self) -> list[Row]:
        time, all_move = self.time, self._all_move.time
        both = zip(time.criteria, all_move.criteria, strict=True)
        return [self._row(one[0], time.joined(*one), all_move.joined(*moving)) for one, moving in both]

    def _row(self, run: Running, costs: Boundaries, moving: Boundaries) -> Row:
        ports, none = list(self.time.places_by_port), list[Along | None]([None] * len(self._places))
        port = ports.index(run.port) if run.port in ports else None
        return run.fixed, self._tables(costs), self._more(costs, moving), none, False, self._waits(run.waits), port

    def _tables(self, costs: Boundaries, *, skips_zero: bool = True) -> Tables:
        return [
            costs[place] if place in costs and not (skips_zero and not costs[place].any()) else None
            for place in self._places
        ]

    def _waits(self, waits: Mapping[Place, Waits]) -> ListedWaits:
        return [list(waits.get(at, ())) for at in self._places]

    def _more(self, costs: Boundaries, moving: Boundaries) -> Tables:
        """Return the extra cost of moving tiles by boundary, None if there is none."""
        return [self._more_of(costs[place], moving[place]) if place in costs else None for place in self._places]

    def _more_of(self, costs: Along, moving: Along) -> Along | None:
        """Return the extra cost, cached by identity: many criteria share tables, which the cache keeps alive."""
        known = self._known.get((id(costs), id(moving)))
        if known is None:
            more = None
            if moving is not costs:
                fits = np.isfinite(costs) & np.isfinite(moving)
                more = np.maximum(np.where(fits, moving, 0.0) - np.where(fits, costs, 0.0), 0.0)
            known = more if more is not None and more.any() else None, costs, moving
            self._known[id(costs), id(moving)] = known
        return known[0]


def least_together(
    way: UnrolledWays,
    objective: MappingObjective,
    limit: float,
    cells: tuple[int, int],
    most_steps: int,
    run: Run,
    rounds: int,
    left: Ranges = (),
) -> Found:
    """Return a lower bound on the mappings of one unrolling from ever finer lattices, capped at the limit.

    The first lattice has at most the first number of `cells`, later ones at most the second. If `left` is given, only
    these coordinates are searched. With more than a few `rounds`, only cells of the least chain are split while that
    raises the bound. If the run must stop, returns the bound so far, at least zero.
    """
    (first_cells, most_cells), in_vain = cells, 0
    lattice, best = Lattice.of(way.bounds, way.units, first_cells, left), Found(0.0, [], left=left)
    for number in range(rounds):
        if run.stop is not None or not (number < ROUNDS_IN_ANY_CASE or best.is_ended):
            break
        before = best.least
        steps_in_time = int(min(most_steps, max(run.seconds_left, 0.0) * STEPS_IN_A_SECOND + 1))
        chains = ChainsTogether(ChainEnergy(way, lattice), ChainTime(way, lattice))
        found = chains.least(objective, limit, steps_in_time)
        chain, had_time = found.chain or best.chain, found.is_ended or steps_in_time == most_steps
        best = replace(found, least=max(best.least, found.least), chain=chain, had_time=had_time, left=best.left)
        if best.least >= limit or not found.cells:
            break
        best = replace(best, left=lattice.left(found.cells))
        in_vain = in_vain + 1 if best.least == before else 0
        if rounds > ROUNDS_IN_ANY_CASE and found.chain and in_vain < MOST_IN_VAIN:
            finer = lattice.split_at(way.units, found.cells, found.chain.values())
        else:
            most = max(first_cells, min(most_cells, FINER * prod(lattice.shape)))
            finer, in_vain = lattice.within(way.units, found.cells, most), 0
        if finer.is_part_of(lattice) or prod(finer.shape) > most_cells:
            break
        lattice = finer
    return best
