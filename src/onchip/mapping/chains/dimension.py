"""The chains of tile sizes along one dimension, from the MACs to DRAM.

The outermost loop of such a dimension is spatial, with f iterations. So all its T temporal iterations are executed, and
the iterations inside any position divide T. The last spatial iteration is needed: the other f - 1 parts of the units do
not reach all indices in T iterations. A position of t iterations reaches at most the index `units * T - 1 - (T - t)`,
since outer temporal loops have steps of at least t. If the position misses an index, that index is beyond the bound. Of
its T / t parts the first misses the fewest.

A coordinate is the number of different indices that the whole array covers inside a position of the nest, at its
maximum. Cells are ranges of coordinates. Bounds that decrease with the coordinate are taken at a cell's end, bounds
that increase at its beginning.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from math import ceil
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

MOST_BREAKPOINTS: Final = 512
"""Maximum number of breakpoints of each kind: the smallest, and those with the fewest parts."""


@dataclass(frozen=True)
class Units:
    """The minimum and maximum spatial unrolling of a loop; `sizes` are the factors by array dimension, if known.

    For a single unrolling, more may be known. `are_full`: no unit is idle at any position. `any_is_idle`: some unit is
    idle at some position, which takes more iterations. `turns` is the range of executed temporal iterations.
    """

    least: int
    most: int
    sizes: tuple[int, ...] | None
    are_full: bool = False
    turns: tuple[int, int] | None = None
    any_is_idle: bool = False

    def fewest_turns(self, bound: int) -> int:
        """Return a lower bound on the executed temporal iterations."""
        needed = -(-bound // self.most) if self.turns is None else self.turns[0]
        return max(needed, self.fewest_idle_turns(bound)) if self.any_is_idle else needed

    def known_turns(self, bound: int) -> int:
        """Return the number of executed temporal iterations, or zero if unknown."""
        if self.turns is None:
            return bound if self.most == 1 else 0
        return self.turns[0] if self.turns[0] == self.turns[1] else 0

    def may_take(self, turns: int) -> bool:
        """Return True if that number of iterations is possible."""
        return self.turns is None or self.turns[0] <= turns <= self.turns[1]

    def fewest_idle_turns(self, bound: int) -> int:
        """Return the fewest iterations with which a position can miss indices, that is, leave units idle.

        Otherwise its coordinate is units times the iterations inside, or the bound. If t of T iterations are inside a
        position, its last index is at most UT - 1 - (T - t), since outer temporal loops have steps of at least t. An
        index is missing only if UT - bound, the surplus, exceeds T - t; and t is T or at most half of T.
        """
        return 2 * bound // (2 * self.most - 1) + 1


def starts_of(bound: int, units: Units) -> tuple[int, ...]:
    """Return the coordinates at which the number of parts falls or the iterations rise, and one past the end."""
    return _starts_of_turns(bound, units.most) if units.are_full else _breakpoints(bound, units)


@lru_cache(maxsize=1 << 12)
def _starts_of_turns(bound: int, units: int) -> tuple[int, ...]:
    """Return whole-iteration coordinates at which the number of parts falls, then the bound and one past the end."""
    found = set(range(1, min(ceil(bound / units), MOST_BREAKPOINTS) + 1))
    for inside in range(1, units + 1):
        if units % inside == 0:
            found |= {ceil(ceil(bound / parts) / inside) for parts in range(1, min(bound, MOST_BREAKPOINTS) + 1)}
    return (*sorted(units * one for one in found if units * one < bound), bound, bound + 1)


@lru_cache(maxsize=1 << 12)
def _breakpoints(bound: int, units: Units) -> tuple[int, ...]:
    """Return the coordinates at which the number of parts falls or the iterations rise, and one past the end.

    The first is the minimum number of units at work at once.
    """
    at_work = units.least // 2 + 1 if units.least > 1 else 1
    most = min(bound, MOST_BREAKPOINTS)
    found = {bound, *range(at_work, at_work + most), *range(units.most + 1, units.most * most, units.most)}
    for inside in range(1, units.most + 1):
        if units.most % inside == 0:
            found |= {-(-bound // parts) * units.most // inside for parts in range(1, most + 1)}
    return (*sorted(one for one in found if at_work <= one <= bound), bound + 1)


def thinned(starts: tuple[int, ...], own: Units, coarseness: float) -> tuple[int, ...]:
    """Return starts that each rise by the coarseness; keeps both ends and the start of the second iteration."""
    inner, units = starts[1:-2], own.most
    second_turn = 2 * units if own.are_full else units + 1
    stays = bisect_left(inner, second_turn)
    if inner[stays : stays + 1] != (second_turn,):
        stays = len(inner)
    kept, place = [starts[0]], 0
    while True:
        farther = bisect_left(inner, max(kept[-1], units) * (1 + coarseness), place)
        place = stays if place <= stays < farther else farther
        if place >= len(inner):
            return (*kept, *(one for one in starts[-2:] if one > kept[-1]))
        kept.append(inner[place])
        place += 1


@lru_cache(maxsize=1 << 10)
def idle_turns(bound: int, units: Units) -> tuple[int, ...]:
    """Return the possible temporal iterations of a loop that leaves units idle at some position (one unrolling)."""
    outermost = min((_least_part(size) for size in units.sizes or (units.most,) if size > 1), default=2)
    most = (bound - 1) * outermost // (units.most * (outermost - 1))
    return tuple(
        turns
        for turns in range(max(-(-bound // units.most), 2), most + 1)
        if _most_missing(bound, units, turns, turns // _least_part(turns)) > 0
    )


def has_idle_places(bound: int, units: Units) -> bool:
    """Return True if the loop leaves units idle and its number of iterations is known."""
    return units.any_is_idle and units.known_turns(bound) > 0


@lru_cache(maxsize=1 << 12)
def idle_places(bound: int, units: Units) -> tuple[tuple[int, int, int], ...]:
    """Return (iterations inside, fewest indices, most indices) of each position; the loop's iterations are known."""
    executed = units.known_turns(bound)
    inside = [turns for turns in range(1, executed // 2 + 1) if executed % turns == 0]
    found = [(one, one * units.most - _most_missing(bound, units, executed, one), one * units.most) for one in inside]
    return (*found, (executed, bound, bound))


def _most_missing(bound: int, units: Units, executed: int, inside: int) -> int:
    """Return the maximum number of indices that a position misses, in the part that misses the fewest."""
    beyond = units.most * executed - (executed - inside) - bound
    return max(min(beyond, (units.most * executed - bound) * inside // executed), 0)


def _least_part(number: int) -> int:
    return next(part for part in range(2, number + 1) if number % part == 0)


Range: TypeAlias = tuple[int, int]  # the first coordinate of a cell and the last


def cells_of(starts: Sequence[int]) -> list[Range]:
    """Return the cells between consecutive starts; the last start is past the end."""
    return [(one, two - 1) for one, two in pairwise(starts)]


def all_cells(bound: int, units: Units, coarseness: float = 0.0) -> list[Range]:
    """Return the cells of a loop.

    Each cell begins at least `1 + coarseness` times higher than the one before. If units are idle, each number of
    iterations has one cell.
    """
    if has_idle_places(bound, units):
        return [(first, last) for _, first, last in idle_places(bound, units)]
    starts = starts_of(bound, units)
    return cells_of(thinned(starts, units, coarseness) if coarseness else starts)


def with_any_of(cells: Sequence[Range], left: Sequence[Range]) -> list[Range]:
    """Return the cells that intersect a range of `left`, and the last cell."""
    return [
        (first, last)
        for at, (first, last) in enumerate(cells)
        if at + 1 == len(cells) or any(low <= last and first <= high for low, high in left)
    ]


def parted(bound: int, units: Units, ranges: Sequence[Range], coarseness: float) -> list[Range]:
    """Split ranges into cells that each begin at least `1 + coarseness` times higher than the one before."""
    if has_idle_places(bound, units):
        return with_any_of(all_cells(bound, units), ranges)
    finest, found = starts_of(bound, units), list[Range]()
    for first, last in ranges:
        starts = [first]
        for one in finest:
            if first < one <= last and one >= max(starts[-1], units.most) * (1 + coarseness):
                starts.append(one)
        found += cells_of([*starts, last + 1])
    return found


def split_further(
    bound: int, ranges: Sequence[Range], units: Units, only: Container[Range] | None = None
) -> list[Range]:
    """Split off each range's first coordinate and halve the rest, in whole iterations if all units are at work.

    With `only`, other ranges remain unsplit.
    """
    if has_idle_places(bound, units):
        return list(ranges)
    found, step = list[Range](), units.most if units.are_full else 1
    for first, last in ranges:
        if only is not None and (first, last) not in only:
            found.append((first, last))
            continue
        middle = first + (last - first + step) // (2 * step) * step
        starts = sorted({one for one in (first, first + step, middle) if one <= last})
        found += cells_of([*starts, last + 1])
    return found


@dataclass(frozen=True)
class LackingSide:
    """A set's parts along one dimension, by cell: their number and the longest length.

    `lacks` is the number of indices that all parts together lack to be as long as the longest; infinite if unknown.
    """

    parts: NDArray[np.float64]
    longest: NDArray[np.float64]
    lacks: NDArray[np.float64]


@dataclass(frozen=True)
class PartsAlike:
    """A set of parts of a dimension, by cell: maximum number, maximum length, and total length.

    Each length is a multiple of `whole`. For several dimensions, `sides` are those along which parts may lack indices;
    along the others they lack none.
    """

    parts: NDArray[np.float64]
    longest: NDArray[np.float64]
    together: NDArray[np.float64]
    whole: NDArray[np.float64]
    sides: tuple[LackingSide, ...] = ()

    @classmethod
    def of_side(
        cls,
        parts: NDArray[np.float64],
        longest: NDArray[np.float64],
        together: NDArray[np.float64],
        whole: NDArray[np.float64],
        lacks: NDArray[np.float64] | float = np.inf,
    ) -> PartsAlike:
        """Return the set for one dimension."""
        each = np.broadcast_to(lacks, np.broadcast_shapes(parts.shape, longest.shape))
        return cls(parts, longest, together, whole, (LackingSide(parts, longest, each),) if each.any() else ())

    def beside(self, other: PartsAlike) -> PartsAlike:
        """Return the tiles that combine one of these parts with one of the other's, along different dimensions."""
        return PartsAlike(
            self.parts * other.parts,
            self.longest * other.longest,
            self.together * other.together,
            self.whole * other.whole,
            self.sides + other.sides,
        )

    def reshaped(self, shape: tuple[int, ...]) -> PartsAlike:
        """Return the set with its cells in another shape of the same size."""
        each = (self.parts, self.longest, self.together, self.whole)
        parts, longest, together, whole = (one.reshape(shape) for one in each)
        sides = (
            LackingSide(*(one.reshape(shape) for one in (own.parts, own.longest, own.lacks))) for own in self.sides
        )
        return PartsAlike(parts, longest, together, whole, tuple(sides))


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


@lru_cache(maxsize=1 << 12)
def dimension_of(bound: int, units: Units, cells: tuple[Range, ...]) -> Dimension:
    """Return a loop's dimension with these cells; cached, since splitting a set of unrollings changes only one loop."""
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
    at_end, fewest = _at_end(bound, units), np.minimum(-(-first // units.most), turns)
    stays = np.array([at_end[low : high + 1].max() for low, high in zip(fewest, turns, strict=True)])
    stays[first == bound] = 0.0  # no temporal loop of it runs outside
    if units.any_is_idle:
        stays[:] = 0.0  # its outermost loop is spatial: no temporal loop ends short
    return Dimension(bound, first, last, turns, stays, places, known, units.fewest_turns(bound), units.most)


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


def may_stand_inside(cells: Dimension) -> list[int]:
    """Return for inner and outer cell, outer fastest, whether a position of one can be inside one of the other."""
    return list(_divisible(tuple(cells.turns_of_parts.astype(int).tolist()), tuple(cells.turns.tolist())))


def single_cells(cells: Dimension, units: Units) -> list[int]:
    """Return by cell True if no loop fits between two of its positions: that needs at least twice the iterations.

    If the outermost loop ends short, it needs at least one more iteration. A cell with one fully executed number of
    iterations has only one position.
    """
    is_one = cells.first == cells.last
    if has_idle_places(cells.bound, units):
        is_one = is_one | (cells.known_turns > 0)
    is_one = is_one | ((cells.turns < 2 * -(-cells.first // cells.units)) & (cells.last < cells.bound))
    return list(is_one.astype(int).tolist())


@lru_cache(maxsize=1 << 10)
def _divisible(fewest: tuple[int, ...], turns: tuple[int, ...]) -> bytes:
    """Return by inner and outer cell True if the inner cell's temporal loops can be inside the outer's.

    The loops of a cell take between `fewest` and `turns` iterations. An outer position's iterations are a multiple of
    an inner one's, except at the end of a dimension, where the outermost loop may end short.
    """
    found = bytearray()
    for at, least_inside in enumerate(fewest):
        for outer, least in enumerate(fewest):
            inside = range(least_inside, min(turns[at], turns[outer]) + 1)
            is_last = outer == len(fewest) - 1
            found.append(outer >= at and (is_last or any(turns[outer] // own * own >= least for own in inside)))
    return bytes(found)
