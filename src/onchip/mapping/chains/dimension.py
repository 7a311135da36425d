"""A dimension of a lattice of tile sizes: its cells, and bounds by cell for the units that a memory serves.

A coordinate is the number of different indices that the whole array covers inside a position of the nest, at its
maximum. Cells are ranges of coordinates. Bounds that decrease with the coordinate are taken at a cell's end, bounds
that increase at its beginning.
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
"""For longer loops, the remainder after the last whole iteration counts as up to a whole tile."""


@dataclass(frozen=True)
class Dimension:
    """The cells of one loop: `first` and `last` are the coordinates at their ends.

    `turns` is the maximum number of temporal iterations that lead to a cell, counted with idle units where loops end
    short. `places` is the maximum number of parts that temporal loops outside a cell produce, for all units together.
    `known_turns` is the number of temporal iterations inside a position if all parts but the last have as many, else 0.
    `fewest_turns` is a lower bound on all iterations executed, `units` the maximum spatial unrolling. Results are
    cached: when a set of unrollings is split, all dimensions but one stay the same.
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
        """Return the bound with this name, cached; the array is read-only."""
        at = (name, served, apart)
        if at not in self._said:
            found = of(self, served, apart)
            found.flags.writeable = False
            self._said[at] = found
        return self._said[at]

    def parts(self, served: int, apart: int) -> NDArray[np.float64]:
        """Return a lower bound on the number of parts; an instance serves `served` units, and has `apart` others."""
        longest = self.most_length(served, apart)
        if self.shared_out:
            return self.bound / longest
        return np.maximum(np.ceil(self.bound / longest), np.ceil(self.fewest_turns / self.turns))

    @property
    def last_turns(self) -> NDArray[np.float64]:
        """Return a lower bound on the iterations of the last part."""
        known = np.maximum(self.known_turns, 1)
        return np.where(self.known_turns > 0, (self.fewest_turns - 1) % known + 1, 1).astype(np.float64)

    @property
    def turns_of_parts(self) -> NDArray[np.float64]:
        """Return a lower bound on the iterations of any part but the last."""
        fewest = -(-self.first // self.units)
        return np.where(self.known_turns > 0, self.known_turns, fewest).astype(np.float64)

    @property
    def short_turns(self) -> NDArray[np.float64]:
        """Return by cell the iterations of a position's last part if it has fewer than the other parts.

        Zero if all parts have equally many; infinite if unknown, or if all iterations are inside.
        """
        is_known = (self.known_turns > 0) & (self.first < self.bound)
        return np.where(is_known, self.fewest_turns % np.maximum(self.known_turns, 1), np.inf)

    def most_parts(self, apart: int) -> NDArray[np.float64]:
        """Return the maximum number of parts, with `apart` instances."""
        return np.minimum(self.places * apart, self.bound).astype(np.float64)

    def _all_parts(self, served: int, apart: int) -> PartsAlike:
        """Return one set with all parts, whatever their lengths."""
        together = np.full(len(self.first), float(self.bound))
        longest = self.most_length(served, apart)
        return PartsAlike.of_side(self.most_parts(apart), longest, together, self.whole_length(apart))

    def parts_alike(self, served: int, apart: int) -> list[PartsAlike]:
        """Return sets of equal parts, if known: the parts with all iterations of a position, and the last part.

        Indices missing because units are idle may be missing in either set.
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
        """Return a lower bound on the parts that have every index their iterations allow; zero if unknown.

        A missing index is missing in one part only.
        """
        turns, units = np.maximum(self.known_turns, 1).astype(np.float64), served * apart
        all_turns = self.fewest_turns
        found = all_turns // turns * apart - (all_turns * units - self.bound)
        return np.where(self.known_turns > 0, np.maximum(found, 0.0), 0.0)

    def whole_length(self, apart: int) -> NDArray[np.float64]:
        """Return the whole length if a position holds all of it in one instance, else 1."""
        return np.where(self.places * apart == 1, float(self.bound), 1.0)

    def least_length(self, apart: int) -> NDArray[np.float64]:
        """Return a lower bound on the indices of the longest part, with `apart` instances.

        The first unit has one index in each executed iteration.
        """
        return np.maximum(-(-self.first // apart), self.known_turns).astype(np.float64)

    def most_length(self, served: int, apart: int) -> NDArray[np.float64]:
        """Return the maximum number of indices of any part."""
        return (self.last if apart == 1 else np.minimum(self.last, self.turns * served)).astype(np.float64)


Said: TypeAlias = Callable[[Dimension, int, int], NDArray[np.float64]]
"""A bound on a dimension by cell, given the units that an instance serves and the number of other instances."""


def dimension_of(bound: int, units: Units, cells: Sequence[Range], short: int) -> Dimension:
    """Return a loop's dimension with these cells; it is shared out if it has at most `short` iterations."""
    return _dimension_of(bound, units, tuple(cells), short)


@lru_cache(maxsize=1 << 12)
def _dimension_of(bound: int, units: Units, cells: tuple[Range, ...], short: int) -> Dimension:
    """Build the dimension; cached, since splitting a set of unrollings changes only one loop."""
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
    stays[first == bound] = 0.0  # no temporal loop of it runs outside
    if units.any_is_idle:
        stays[:] = 0.0  # its outermost loop is spatial: no temporal loop ends short
    return Dimension(bound, first, last, turns, stays, places, False, known, units.fewest_turns(bound), units.most)


def _most_places(bound: int, units: Units, first: Cells, inside: Cells) -> Cells:
    """Return by cell the maximum number of parts, given the minimum number of iterations in each.

    Of the executed iterations each part but the last has equally many. All loops together reach less than twice the
    bound, since the outermost loop's last iteration is needed.
    """
    found = -(-(bound if units.turns is None else units.turns[1]) // inside)
    if units.most > 1:
        found = np.minimum(found, (2 * bound - 1) // (units.least * inside))
    return np.where(first == bound, 1, np.minimum(found, bound))


def _known_turns(bound: int, units: Units, first: Cells, last: Cells) -> Cells:
    """Return by cell the iterations of a position, 0 if unknown; requires a known number of executed iterations.

    If no unit is idle, the first index rises from iteration to iteration, so the executed iterations come first. All
    parts then have the position's iterations, except the last. A position with all indices has all iterations. If units
    are idle at some position, all its parts have equally many iterations.
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
    """Return the maximum number of executed iterations if no unit is idle at any position."""
    return 1 if bound <= units.most else int(_most_turns(bound, units)[bound])


@lru_cache(maxsize=1 << 12)
def _most_turns(bound: int, units: Units) -> Cells:
    """Return by coordinate the greatest product of temporal loops inside the position.

    All units are at work except in the last iteration of the dimension's outermost loop, which is needed. If that loop
    is spatial with f iterations, f - 1 of its f parts cover all that the inner loops can reach. If it is temporal, all
    indices are covered.
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
    """Return by iterations the greatest share of indices in one tile past a loop's last whole iteration.

    The loop is right above and has at least two iterations. Each covers as many indices as the loops inside it,
    including spatial loops there. At least one iteration is whole.
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
    """Return by indices inside the greatest share of a loop's remainder past its last whole iteration.

    A remainder counts only if it has no more indices than the loops inside cover.
    """
    found = np.zeros(bound + 1)
    for iterations in range(2, MOST_ITERATIONS):
        weights = np.arange(1, (bound - 1) // iterations + 1)
        rest = (bound - 1) % (weights * iterations) + 1
        found[weights] = np.maximum(found[weights], np.where(rest <= weights, rest / bound, 0.0))
    small = np.arange(1, (bound - 1) // MOST_ITERATIONS + 1)
    found[small] = small / bound
    return found
