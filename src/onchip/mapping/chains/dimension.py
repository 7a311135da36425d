"""One dimension of a lattice of places: its cells, and what is said of them for some units beside each other.

A coordinate is how many different indices of the dimension the whole array has met inside a place, where it has met
most. Cells are ranges of coordinates, so that what falls along them is taken at their end, and what rises at their
beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.mapping.chains.cells import Range
from onchip.mapping.chains.starts import Units
from onchip.mapping.prove.idle_turns import idle_places
from onchip.mapping.prove.parts_alike import PartsAlike

Cells: TypeAlias = NDArray[np.int64]
MOST_ITERATIONS: Final = 64
"""Of a loop whose last whole turn is looked for; of longer ones what is left over is at most a tile."""


@dataclass(frozen=True)
class Dimension:
    """One loop's cells: `first` and `last` are the coordinates at their ends.

    `turns` are the iterations in time that lead to a cell, at most: of all that ends short units may be idle.
    `places` are the parts that loops in time outside a cell come to at most, those of all units together. `known_turns`
    are those inside a place if all its parts but the last have as many, else 0; `fewest_turns` are executed in all, at
    least. `units` stand beside each other at most.

    What is said of it is kept: of ways in halves all dimensions but one are as before.
    """

    bound: int
    first: Cells
    last: Cells
    turns: Cells
    stays: NDArray[np.float64]
    places: Cells
    shared_out: bool
    known_turns: Cells
    fewest_turns: int
    units: int
    _said: dict[tuple[str, int, int], NDArray[np.float64]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def said(self, name: str, of: Said, served: int, apart: int) -> NDArray[np.float64]:
        """Return what is said of it by that name, counted once; not to be written to."""
        at = (name, served, apart)
        if at not in self._said:
            found = of(self, served, apart)
            found.flags.writeable = False
            self._said[at] = found
        return self._said[at]

    def parts(self, served: int, apart: int) -> NDArray[np.float64]:
        """How many parts the dimension has at least; an instance serves so many units, and has so many apart."""
        longest = self.most_length(served, apart)
        if self.shared_out:
            return self.bound / longest
        return np.maximum(np.ceil(self.bound / longest), np.ceil(self.fewest_turns / self.turns))

    @property
    def last_turns(self) -> NDArray[np.float64]:
        """Return how many turns the last part takes at least."""
        known = np.maximum(self.known_turns, 1)
        return np.where(self.known_turns > 0, (self.fewest_turns - 1) % known + 1, 1).astype(np.float64)

    @property
    def turns_of_parts(self) -> NDArray[np.float64]:
        """Return how many turns any part of a place but the last takes at least."""
        fewest = -(-self.first // self.units)
        return np.where(self.known_turns > 0, self.known_turns, fewest).astype(np.float64)

    @property
    def short_turns(self) -> NDArray[np.float64]:
        """Return by cell how many turns a place's last part takes if these are fewer than those of the others.

        None if all take as many; infinite where that is not known, and where all lies inside.
        """
        is_known = (self.known_turns > 0) & (self.first < self.bound)
        return np.where(is_known, self.fewest_turns % np.maximum(self.known_turns, 1), np.inf)

    def most_parts(self, apart: int) -> NDArray[np.float64]:
        """Return how many parts it has at most, with so many units apart."""
        return np.minimum(self.places * apart, self.bound).astype(np.float64)

    def _all_parts(self, served: int, apart: int) -> PartsAlike:
        """Return all parts, whatever their lengths."""
        together = np.full(len(self.first), float(self.bound))
        longest = self.most_length(served, apart)
        return PartsAlike.of_side(self.most_parts(apart), longest, together, self.whole_length(apart))

    def parts_alike(self, served: int, apart: int) -> list[PartsAlike]:
        """Return all parts, alike ones together: those of as many turns as a place has and the last, where known.

        What units that are idle in some turn lack may be missing in the ones or in the others.
        """
        any_part, is_known = self._all_parts(served, apart), self.known_turns > 0
        turns, units = np.maximum(self.known_turns, 1).astype(np.float64), served * apart
        all_turns = self.fewest_turns
        missing = np.where(is_known, float(all_turns * units - self.bound), 0.0)
        whole_parts, rest = all_turns // turns, np.where(is_known, all_turns % turns, 0.0)
        no_longer = whole_parts * apart * np.maximum(turns * served - self.bound, 0)
        lacks = np.where(is_known, np.maximum(missing - no_longer, 0.0), np.inf)
        full = PartsAlike.of_side(
            np.where(is_known, whole_parts * apart, any_part.parts),
            np.where(is_known, np.minimum(turns * served, self.bound), any_part.longest),
            np.where(rest > 0, np.maximum(whole_parts * turns * units - missing, 0.0), any_part.together),
            np.where(is_known & (missing == 0), turns * served, any_part.whole),
            lacks,
        )
        last = PartsAlike.of_side(
            np.where(rest > 0, float(apart), 0.0),
            rest * served,
            np.maximum(rest * units - missing, 0.0),
            np.where(missing == 0, np.maximum(rest * served, 1.0), 1.0),
            lacks,
        )
        return [full, last] if rest.any() else [full]

    def whole_parts(self, served: int, apart: int) -> NDArray[np.float64]:
        """How many parts have all indices that units can do in a place's turns, at least; zero where not known.

        An index that is missing is missing in one part.
        """
        turns, units = np.maximum(self.known_turns, 1).astype(np.float64), served * apart
        all_turns = self.fewest_turns
        found = all_turns // turns * apart - (all_turns * units - self.bound)
        return np.where(self.known_turns > 0, np.maximum(found, 0.0), 0.0)

    def whole_length(self, apart: int) -> NDArray[np.float64]:
        """Return its length where a place holds all of it with no units apart, else 1."""
        return np.where(self.places * apart == 1, float(self.bound), 1.0)

    def least_length(self, apart: int) -> NDArray[np.float64]:
        """Return how many indices the longest part has at least, with so many units apart.

        The first unit has one in each turn that is executed.
        """
        return np.maximum(-(-self.first // apart), self.known_turns).astype(np.float64)

    def most_length(self, served: int, apart: int) -> NDArray[np.float64]:
        """Return how many indices any part has at most."""
        return (self.last if apart == 1 else np.minimum(self.last, self.turns * served)).astype(np.float64)


Said: TypeAlias = Callable[[Dimension, int, int], NDArray[np.float64]]
"""Of a dimension by cell: an instance serves so many units, and has so many apart."""


def dimension_of(bound: int, units: Units, cells: Sequence[Range], short: int) -> Dimension:
    """Return a loop's dimension with these cells; of at most `short` iterations it is shared out."""
    return _dimension_of(bound, units, tuple(cells), short)


@lru_cache(maxsize=1 << 12)
def _dimension_of(bound: int, units: Units, cells: tuple[Range, ...], short: int) -> Dimension:
    """Of ways in halves all loops but one are as before."""
    first, last = np.array([one for one, _ in cells]), np.array([one for _, one in cells])
    if units.are_full:
        last[:-1] = last[:-1] // units.most * units.most
    turns = _most_turns(bound, units)[last]
    if units.are_full:
        turns[:-1] = last[:-1] // units.most
        if bound <= units.most:
            turns[-1] = 1
    if units.turns is not None:
        turns[-1] = min(turns[-1], units.turns[1])
    known = _known_turns(bound, units, first, last)
    if units.any_is_idle:
        turns = np.where(known > 0, known, turns)
    places = _most_places(bound, units, first, np.where(known > 0, known, -(-first // units.most)))
    if bound <= short and units.most == 1:
        none = np.zeros(len(first))
        return Dimension(bound, first, last, turns, none, places, True, np.zeros_like(first), bound, units.most)
    at_end, fewest = _at_end(bound, units), np.minimum(-(-first // units.most), turns)
    stays = np.array([at_end[low : high + 1].max() for low, high in zip(fewest, turns, strict=True)])
    stays[first == bound] = 0.0  # no loop of it moves on outside
    if units.any_is_idle:
        stays[:] = 0.0  # its outermost loop is over units: none in time ends short
    return Dimension(bound, first, last, turns, stays, places, False, known, units.fewest_turns(bound), units.most)


def _most_places(bound: int, units: Units, first: Cells, inside: Cells) -> Cells:
    """By cell with so many turns at least: of those that are executed each part but the last has as many.

    All loops come to less than twice the bound, as the outermost is needed to its last iteration.
    """
    found = -(-(bound if units.turns is None else units.turns[1]) // inside)
    if units.most > 1:
        found = np.minimum(found, (2 * bound - 1) // (units.least * inside))
    return np.where(first == bound, 1, np.minimum(found, bound))


def _known_turns(bound: int, units: Units, first: Cells, last: Cells) -> Cells:
    """By cell: a place's turns, where units are all at work in places and it is known how many turns are executed.

    As a turn's first index rises from turn to turn, those that are executed are the first ones: parts have as many
    turns as the place, but for the last. A place with all indices has all turns. If units are idle in some place, all
    parts of a place have as many.
    """
    executed = units.known_turns(bound)
    if executed == 0:
        return np.zeros_like(first)
    if units.any_is_idle:
        inside = {(low, high): turns for turns, low, high in idle_places(bound, units)}
        return np.array([inside.get(one, 0) for one in zip(first.tolist(), last.tolist(), strict=True)])
    fewest, most = -(-first // units.most), -(-last // units.most)
    return np.where(first == bound, executed, np.where(fewest == most, fewest, 0))


def most_turns(bound: int, units: Units) -> int:
    """Return how many turns are executed at most, of units that are all at work in every place."""
    return 1 if bound <= units.most else int(_most_turns(bound, units)[bound])


@lru_cache(maxsize=1 << 12)
def _most_turns(bound: int, units: Units) -> Cells:
    """By coordinate, the greatest product of loops in time inside the place.

    All units are at work but for the last iteration of the dimension's outermost loop, which is needed. If that runs
    over units, f of them, at least f - 1 of f parts of what the loops inside could reach are reached; if it runs in
    time, all indices are.
    """
    coordinates = np.arange(bound + 1)
    if units.most == 1 or units.least == 1:
        return np.maximum(coordinates, 1)
    outermost = 2
    if units.sizes is not None:
        outermost = min(part for size in units.sizes for part in range(2, size + 1) if size % part == 0)
    of_units = (coordinates - 1) * outermost // ((outermost - 1) * units.least)
    turns = np.maximum(-(-coordinates // units.least), of_units)
    turns[bound] = max(turns[bound], min(bound, 2 * -(-bound // units.least)))
    return np.maximum(turns, 1)


@lru_cache(maxsize=1 << 8)
def _at_end(bound: int, units: Units) -> NDArray[np.float64]:
    """By turns, the greatest part of indices past the last whole turn of a loop right above, in one tile.

    The loop has two iterations or more of as many indices as the loops inside it lead through, units included that
    stand inside; there is at least one whole turn.
    """
    by_weight = _left_over(bound)
    beside = {1}
    if units.sizes is None:
        beside = set(range(1, units.most + 1))
    for size in units.sizes or ():
        beside |= {one * part for one in beside for part in range(1, size + 1) if size % part == 0}
    found = by_weight.copy()
    for one in beside:
        led = np.arange(1, bound // one + 1)
        found[led] = np.maximum(found[led], by_weight[led * one])
    return found


@lru_cache(maxsize=1 << 8)
def _left_over(bound: int) -> NDArray[np.float64]:
    """By indices that the loops inside lead through, the part past whole turns of some loop, if no more than these."""
    found = np.zeros(bound + 1)
    for iterations in range(2, MOST_ITERATIONS):
        weights = np.arange(1, (bound - 1) // iterations + 1)
        rest = (bound - 1) % (weights * iterations) + 1
        found[weights] = np.maximum(found[weights], np.where(rest <= weights, rest / bound, 0.0))
    small = np.arange(1, (bound - 1) // MOST_ITERATIONS + 1)
    found[small] = small / bound
    return found
