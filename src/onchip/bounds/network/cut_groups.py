"""Groups of operators between two cuts, and how often their tiles read weights (docs/schedule.md, section 8).

A schedule is a sequence of groups: one operator whole, or several that run tile by tile and that only the last one's
output leaves. So behind each group the operators that have run are a prefix of the network: with an operator all that
it waits for is in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.bounds.layer.needed import Reach

Prefix: TypeAlias = int
"""Operators, each a bit."""
Counts: TypeAlias = NDArray[np.int64]

MOST_PREFIXES: Final = 1 << 12
"""Prefixes of one network, at most: there are as many arrays of costs."""
MOST_GROUPS: Final = 1 << 14
"""Groups of one network, at most: each is looked at for every prefix that it ends."""
_MOST_CLASSES: Final = 128
"""Classes of sizes of tiles that are told apart, at most: arrays of costs have them as an axis."""
_FACTOR: Final = 1_000_003
"""Tells sizes with other numbers of Computes apart; where it does not, a class has both."""
_MOST_SIZES: Final = 64
"""Sizes of tiles along an axis that are told apart, at most; of more some are taken together."""


Reaches: TypeAlias = tuple[Reach, Reach]
"""Along rows and columns."""


@dataclass(frozen=True, slots=True)
class CutOperator:
    """An operator as cuts see it.

    Attributes
    ----------
    map_bits
        Bits that all its Computes together read or write of each map, by name. Maps that do not count are not there.
    outputs
        Maps that it writes, those that do not count among them.
    reaches
        Map each input to what is seen of it; an input that is not there may be seen in any way.
    pixels
        Rows and columns of the output.
    weight_bits
        Bits of weights that each Compute reads, and that no memory keeps between Computes.
    is_whole
        True if each Compute reads and writes everything.
    is_lone
        True if it is in no group in tiles.
    ends_tiles
        True if it may be the last operator of a group in tiles.
    leaves
        True if an output leaves the network.
    computes
        Computes in one tile at most.

    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    map_bits: Mapping[str, int]
    reaches: Mapping[str, Reaches] = field(default_factory=dict)
    pixels: tuple[int, int] = (1, 1)
    weight_bits: int = 0
    is_whole: bool = False
    is_lone: bool = False
    ends_tiles: bool = True
    leaves: bool = False
    computes: int = 1


@dataclass(frozen=True, slots=True)
class TiledGroup:
    """Operators that run in several tiles; `last` is the one whose output is tiled, by number.

    Sizes of tiles are in classes. `weight_bits` of each are what Computes after the first read again of weights at
    least, in ascending order; `computes` are those of each operator, by number, for which these bits pay, at most. In
    none there are more `tiles`.
    """

    operators: Prefix
    last: int
    tiles: Counts
    weight_bits: Counts
    computes: Mapping[int, Counts]

    def worth(self, price: float, weight_price: float) -> TiledGroup | None:
        """Return the classes whose weights cost less than a price; None if there are none."""
        count = int(np.searchsorted(weight_price * self.weight_bits, price))
        if not count:
            return None
        computes = {at: each[:count] for at, each in self.computes.items()}
        return TiledGroup(self.operators, self.last, self.tiles[:count], self.weight_bits[:count], computes)


@dataclass(slots=True)
class CutNetwork:
    """Operators in an order in which they can run."""

    operators: Sequence[CutOperator]
    kept_weight_bits: int = 0
    """Room for weights that stay from tile to tile."""
    producer: Mapping[str, int] = field(init=False)
    readers: Mapping[str, tuple[int, ...]] = field(init=False)
    _before: Sequence[Prefix] = field(init=False)
    _behind: Sequence[Prefix] = field(init=False)

    def __post_init__(self) -> None:
        self.producer = {name: at for at, one in enumerate(self.operators) for name in one.outputs}
        readers: dict[str, list[int]] = {name: [] for name in self.producer}
        for at, one in enumerate(self.operators):
            for name in dict.fromkeys(one.inputs):
                if name in readers:
                    readers[name].append(at)
        self.readers = {name: tuple(each) for name, each in readers.items()}
        self._before = [
            _mask(self.producer[name] for name in one.inputs if name in self.producer) for one in self.operators
        ]
        self._behind = [_mask(at for name in one.outputs for at in self.readers[name]) for one in self.operators]

    def prefixes(self) -> list[Prefix] | None:
        """Return all prefixes, smaller ones first; None if they are too many."""
        found, last = {0: None}, [0]
        while last:
            grown: dict[Prefix, None] = {}
            for prefix in last:
                for at, before in enumerate(self._before):
                    if not prefix >> at & 1 and before & ~prefix == 0:
                        grown[prefix | 1 << at] = None
            found |= grown
            last = list(grown)
            if len(found) > MOST_PREFIXES:
                return None
        return list(found)

    def is_last(self, at: int, prefix: Prefix) -> bool:
        """Return whether no operator of a prefix reads what an operator writes."""
        return self._behind[at] & prefix == 0

    def groups_in_tiles(self, at: int, most_bits: int) -> Iterator[TiledGroup]:
        """Yield the groups in tiles that an operator ends and whose tiles read no more bits of weights again."""
        last = self.operators[at]
        if last.is_lone or not last.ends_tiles or last.pixels == (1, 1):
            return
        tiles = TileCounts.of(last.pixels)
        coverage: dict[int, tuple[Counts, ...]] = {at: tuple(np.arange(size + 1) for size in last.pixels)}
        computes = {at: tiles.count}
        waiting, seen = [(1 << at, last.weight_bits * (tiles.count - 1), tiles.count)], {1 << at}
        while waiting:
            group, again, like = waiting.pop()
            read = np.maximum(again - self.kept_weight_bits * (tiles.count - 1), 0)
            classes = tiles.classes(read, like, most_bits)
            if classes is None:
                continue
            order, begins = classes
            yield TiledGroup(
                group,
                at,
                np.maximum.reduceat(tiles.count[order], begins),
                np.minimum.reduceat(read[order], begins),
                {one: np.maximum.reduceat(computes[one][order], begins) for one in members(group)},
            )
            for more in self._may_join(group):
                if (grown := group | 1 << more) not in seen:
                    seen.add(grown)
                    if more not in coverage:
                        coverage[more] = self._covered(more, coverage)
                        computes[more] = tiles.computes(coverage[more])
                    again_in_it = self.operators[more].weight_bits * (computes[more] - 1)
                    waiting.append(
                        (grown, again + again_in_it, like + computes[more] * pow(_FACTOR, more + 1, 2**61 - 1))
                    )

    def _may_join(self, group: Prefix) -> list[int]:
        """Return the operators all of whose readers are in a group."""
        before = 0
        for at in members(group):
            before |= self._before[at]
        return [
            at
            for at in members(before & ~group)
            if not self.operators[at].is_lone and not self.operators[at].leaves and self._behind[at] & ~group == 0
        ]

    def _covered(self, at: int, coverage: Mapping[int, tuple[Counts, ...]]) -> tuple[Counts, ...]:
        """Return by rows (columns) of the last map how many an operator has written until these are; empty: unknown."""
        own = self.operators[at]
        found: list[Counts] = []
        for axis in (0, 1):
            seen = list[Counts]()
            for name in own.outputs:
                for reader in self.readers[name]:
                    reaches, behind = self.operators[reader].reaches.get(name), coverage[reader]
                    if reaches is None or not behind:
                        return ()
                    seen.append(reaches[axis].seen(behind[axis]))
            found.append(np.maximum.reduce(seen))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class TileCounts:
    """Sizes of tiles of a map: pairs of ranges of rows and columns; `count` are the tiles, at most.

    A single tile is left out: then operators run whole, one after the other.
    """

    sizes: tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]
    pixels: tuple[int, int]
    count: Counts

    @classmethod
    def of(cls, pixels: tuple[int, int]) -> TileCounts:
        """Return all sizes of tiles of a map."""
        sizes = tuple(_ranges(size) for size in pixels)
        rows, columns = (
            np.array([-(-size // each[0]) for each in ranges], np.int64)
            for size, ranges in zip(pixels, sizes, strict=True)
        )
        return cls((sizes[0], sizes[1]), pixels, np.multiply.outer(rows, columns).ravel())

    def computes(self, covered: Sequence[Counts]) -> Counts:
        """Return the Computes of an operator at least: those tiles that need what none before has needed."""
        if not covered:
            return np.ones_like(self.count)
        rows, columns = (
            np.array([min(_increases(each, size) for size in some) for some in ranges], np.int64)
            for each, ranges in zip(covered, self.sizes, strict=True)
        )
        return np.multiply.outer(rows, columns).ravel()

    def classes(self, bits: Counts, like: Counts, most_bits: int) -> tuple[Counts, Counts] | None:
        """Return sizes of several tiles that read no more bits than that, by number, and where classes begin.

        A class has sizes that are alike, or, of too many, read about as many bits. None if there are no sizes.
        """
        found = np.flatnonzero((self.count > 1) & (bits <= most_bits))
        if not len(found):
            return None
        found = found[np.lexsort((like[found], bits[found]))]
        is_new = np.ones(len(found), bool)
        is_new[1:] = (np.diff(like[found]) != 0) | (np.diff(bits[found]) != 0)
        begins = np.flatnonzero(is_new)
        return found, begins[:: -(-len(begins) // _MOST_CLASSES)]


def _ranges(size: int) -> list[Sequence[int]]:
    """All sizes of tiles along an axis, some of the larger ones taken together."""
    found, first = list[Sequence[int]](), 1
    while first <= size:
        step = max(1, first * 4 // _MOST_SIZES) if size > _MOST_SIZES else 1
        found.append(range(first, min(first + step, size + 1)))
        first += step
    return found


def _increases(covered: Counts, size: int) -> int:
    """How many tiles of a size along an axis need something that none before has needed."""
    behind = np.minimum(np.arange(0, len(covered) - 1 + size, size), len(covered) - 1)
    return max(int(np.count_nonzero(np.diff(covered[behind]) > 0)), 1)


def members(prefix: Prefix) -> Iterator[int]:
    """Yield the numbers of the operators of a prefix or a group."""
    while prefix:
        low = prefix & -prefix
        yield low.bit_length() - 1
        prefix ^= low


def _mask(numbers: Iterator[int]) -> Prefix:
    found = 0
    for at in numbers:
        found |= 1 << at
    return found
