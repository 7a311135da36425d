"""Fused groups of operators between two cuts, and their repeated weight reads (docs/schedule.md, section 8).

A schedule is a sequence of groups. A group is one whole operator, or several operators that run tile by tile, of which
only the last one's output leaves the group. After each group, the operators that have run are a prefix of the network:
a set that contains all predecessors of its members.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.bounds.layer.needed import Reach

Prefix: TypeAlias = int
"""Set of operators as a bit mask."""
Counts: TypeAlias = NDArray[np.int64]

MOST_PREFIXES: Final = 1 << 12
"""Limit on the prefixes of a network. Each has an array of costs."""
MOST_GROUPS: Final = 1 << 14
"""Limit on the groups of a network. Each is examined for every prefix that it ends."""
_MOST_CLASSES: Final = 128
"""Limit on the classes of tile sizes, which are an axis of the cost arrays."""
_FACTOR: Final = 1_000_003
"""Hash factor that separates sizes with different numbers of Computes. On a collision, a class has both."""
_MOST_SIZES: Final = 64
"""Limit on the distinct tile sizes along an axis. Beyond it, ranges of sizes are merged."""


Reaches: TypeAlias = tuple[Reach, Reach]
"""The reach along rows and along columns."""


@dataclass(frozen=True, slots=True)
class CutOperator:
    """The properties of an operator that matter for cuts.

    Attributes
    ----------
    map_bits
        Map from feature map to the bits that all Computes together read or write, without maps that do not count.
    outputs
        Maps that the operator writes, including those that do not count.
    reaches
        Map from input to its reach. The view of an absent input is unknown.
    pixels
        Rows and columns of the output.
    heads
        Rows and heads of the output, if it may be cut as matrices, too.
    weight_bits
        Bits of weights that each Compute reads and that no memory keeps between Computes.
    is_whole
        True if each Compute reads and writes everything.
    is_lone
        True if no tiled group contains the operator.
    ends_tiles
        True if the operator may be the last one of a tiled group.
    leaves
        True if an output leaves the network.
    computes
        Maximum number of Computes in one tile.

    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    map_bits: Mapping[str, int]
    reaches: Mapping[str, Reaches] = field(default_factory=dict)
    pixels: tuple[int, int] = (1, 1)
    heads: tuple[int, int] | None = None
    weight_bits: int = 0
    is_whole: bool = False
    is_lone: bool = False
    ends_tiles: bool = True
    leaves: bool = False
    computes: int = 1


@dataclass(frozen=True, slots=True)
class TiledGroup:
    """Operators that run in several tiles. `last` is the index of the operator whose output is tiled.

    Arrays are by class of tile sizes. `weight_bits` is a lower bound on the weight bits that Computes after the first
    read again, ascending. `computes` maps operator indices to the maximum number of Computes that these bits pay for.
    `tiles` is the maximum number of tiles.
    """

    operators: Prefix
    last: int
    tiles: Counts
    weight_bits: Counts
    computes: Mapping[int, Counts]

    def worth(self, price: float, weight_price: float) -> TiledGroup | None:
        """Return the group with only the classes whose weights cost less than `price`, or None without such classes."""
        count = int(np.searchsorted(weight_price * self.weight_bits, price))
        if not count:
            return None
        computes = {at: each[:count] for at, each in self.computes.items()}
        return TiledGroup(self.operators, self.last, self.tiles[:count], self.weight_bits[:count], computes)


@dataclass(slots=True)
class CutNetwork:
    """The operators of a network in a topological order."""

    operators: Sequence[CutOperator]
    kept_weight_bits: int = 0
    """Capacity in bits for weights that stay from tile to tile."""
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
        """Return all prefixes by ascending size, or None if there are more than MOST_PREFIXES."""
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
        """Return True if no operator of the prefix reads an output of operator `at`."""
        return self._behind[at] & prefix == 0

    def groups_in_tiles(self, at: int, most_bits: int) -> Iterator[TiledGroup]:
        """Yield the tiled groups that end with operator `at` and read at most `most_bits` of weights again."""
        last = self.operators[at]
        if not last.is_lone and last.ends_tiles:
            for pixels in dict.fromkeys((last.pixels, last.heads or last.pixels)):
                if pixels != (1, 1):
                    yield from self._groups_over(at, pixels, most_bits)

    def _groups_over(self, at: int, pixels: tuple[int, int], most_bits: int) -> Iterator[TiledGroup]:
        """Yield the groups whose last operator `at` is cut along these rows and columns."""
        last, tiles = self.operators[at], TileCounts.of(pixels)
        coverage: dict[int, tuple[Counts, ...]] = {at: tuple(np.arange(size + 1) for size in pixels)}
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
        """Return the operators that may join a group because all their readers are in it."""
        before = 0
        for at in members(group):
            before |= self._before[at]
        return [
            at
            for at in members(before & ~group)
            if not self.operators[at].is_lone and not self.operators[at].leaves and self._behind[at] & ~group == 0
        ]

    def _covered(self, at: int, coverage: Mapping[int, tuple[Counts, ...]]) -> tuple[Counts, ...]:
        """Return the rows (columns) that an operator has written when the last map has its first n, for each n.

        Returns an empty tuple if they are unknown.
        """
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
    """Tile sizes of a map as pairs of ranges of rows and columns. `count` is the maximum number of tiles of each.

    A single tile is excluded, because operators then run whole, one after the other.
    """

    sizes: tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]
    pixels: tuple[int, int]
    count: Counts

    @classmethod
    def of(cls, pixels: tuple[int, int]) -> TileCounts:
        """Return all tile sizes of a map with these rows and columns."""
        sizes = tuple(_ranges(size) for size in pixels)
        rows, columns = (
            np.array([-(-size // each[0]) for each in ranges], np.int64)
            for size, ranges in zip(pixels, sizes, strict=True)
        )
        return cls((sizes[0], sizes[1]), pixels, np.multiply.outer(rows, columns).ravel())

    def computes(self, covered: Sequence[Counts]) -> Counts:
        """Return a lower bound on an operator's Computes: the number of tiles that need new pixels."""
        if not covered:
            return np.ones_like(self.count)
        rows, columns = (
            np.array([min(_increases(each, size) for size in some) for some in ranges], np.int64)
            for each, ranges in zip(covered, self.sizes, strict=True)
        )
        return np.multiply.outer(rows, columns).ravel()

    def classes(self, bits: Counts, like: Counts, most_bits: int) -> tuple[Counts, Counts] | None:
        """Return the indices of sizes with several tiles and at most `most_bits` bits, and the starts of classes.

        Sizes of a class are equal in `like` and `bits`. If there are too many classes, neighbouring ones merge. Returns
        None if there are no sizes.
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
    """Return all tile sizes along an axis as ranges. Larger sizes share ranges."""
    found, first = list[Sequence[int]](), 1
    while first <= size:
        step = max(1, first * 4 // _MOST_SIZES) if size > _MOST_SIZES else 1
        found.append(range(first, min(first + step, size + 1)))
        first += step
    return found


def _increases(covered: Counts, size: int) -> int:
    """Return the number of tiles of a size along an axis that need positions which no earlier tile needs."""
    behind = np.minimum(np.arange(0, len(covered) - 1 + size, size), len(covered) - 1)
    return max(int(np.count_nonzero(np.diff(covered[behind]) > 0)), 1)


def members(prefix: Prefix) -> Iterator[int]:
    """Yield the indices of the operators in a prefix or a group."""
    while prefix:
        low = prefix & -prefix
        yield low.bit_length() - 1
        prefix ^= low


def _mask(numbers: Iterator[int]) -> Prefix:
    found = 0
    for at in numbers:
        found |= 1 << at
    return found
