"""Fused groups of operators between two cuts, and their repeated weight reads (docs/schedule.md, section 8).

A schedule is a sequence of groups. A group is one whole operator, or several operators that run tile by tile; only the
last one's output leaves the group. After each group, the operators that have run are a prefix of the network:
a set that contains all predecessors of its members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import prod
from typing import Final, TypeAlias

import numpy as np

from onchip.bounds.layer.needed import Reach
from onchip.bounds.network.tile_loads import (
    LAST_TILE,
    NUMBER_OF_SETS,
    AxisReads,
    ComputeLoad,
    Counts,
    EdgeLoad,
    Floats,
    Product,
    SizeClasses,
    TiledMap,
    Until,
    first_needed,
    numbers_until,
    ranges_of_sizes,
)

Prefix: TypeAlias = int
"""Set of operators as a bit mask."""
MOST_PREFIXES: Final = 1 << 12
"""Limit on the prefixes of a network. Each has an array of costs."""
MOST_GROUPS: Final = 1 << 14
"""Limit on the groups of a network. Each is examined for every prefix that it ends."""
_MOST_CLASSES: Final = 1024
"""Limit on the classes of tile sizes, which are an axis of the cost arrays."""
_LENGTHS_PER_DOUBLING: Final = 4
"""Classes of tile lengths between a length and its double; a class counts the least that any of its sizes needs."""
MOST_LOADS: Final = 12
"""Limit on the operators of a group whose need for room counts."""
_FACTOR: Final = 1_000_003
"""Hash factor that separates sizes with different numbers of Computes. On a collision, a class has both."""


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
    whole_inputs
        Maps of the input that each slice of output channels reads whole; None if the operator has no slices.
    outside_bits
        Bits of the network's inputs among these maps, by name.
    in_place
        Outputs that may lie in the bytes of an input: only the input needs room while the operator runs.

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
    whole_inputs: frozenset[str] | None = None
    outside_bits: Mapping[str, int] = field(default_factory=dict)
    in_place: frozenset[str] = frozenset()

    @property
    def running_bits(self) -> Mapping[str, int]:
        """Map each feature map with bytes of its own while the operator runs to its bits."""
        return {name: bits for name, bits in self.map_bits.items() if name not in self.in_place}


@dataclass(slots=True)
class TiledGroup:
    """Operators that run in several tiles of the output of the last one.

    Arrays are by class of tile sizes. `weight_bits` is a lower bound on the weight bits that Computes after the first
    read again, ascending. `computes` maps operator indices to the maximum number of Computes that these bits pay for.
    """

    operators: Prefix
    lasts: TilesOfLast
    classes: SizeClasses
    weight_bits: Counts
    computes: Mapping[int, Counts]
    tiles: Counts
    _known: dict[object, Floats] = field(default_factory=dict)

    def loads(self, most: int) -> Mapping[int, ComputeLoad]:
        """Return the needs of at most `most` operators, those with the most bits of maps inside the group."""
        return self.lasts.loads(self, most)

    def bits(self, key: object, products: Callable[[], Sequence[Product]], pixel_bits: int) -> Floats:
        """Return the least bits of pixels by class and set of tiles, computed once for each key."""
        if key not in self._known:
            self._known[key] = pixel_bits * self.classes.least(products())
        return self._known[key]


@dataclass(slots=True)
class CutNetwork:
    """The operators of a network in a topological order."""

    operators: Sequence[CutOperator]
    kept_weight_bits: int = 0
    """Capacity in bits for weights that stay from tile to tile."""
    pixel_bits: Mapping[str, int] = field(default_factory=dict)
    """Map from feature map to the bits of each of its pixels."""
    producer: Mapping[str, int] = field(init=False)
    readers: Mapping[str, tuple[int, ...]] = field(init=False)
    _before: Sequence[Prefix] = field(init=False)
    _behind: Sequence[Prefix] = field(init=False)
    _all_behind: list[Prefix] = field(init=False)

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
        self._all_behind = list(self._behind)
        for at in reversed(range(len(self.operators))):
            for other in members(self._behind[at]):
                self._all_behind[at] |= self._all_behind[other]

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

    def groups_in_tiles(self, at: int, most_bits: Callable[[Prefix], int]) -> Iterator[TiledGroup]:
        """Yield the tiled groups that end with operator `at` and read at most `most_bits` of weights again.

        Groups that grow by another operator are examined as long as `most_bits` of the whole network allows.
        """
        last = self.operators[at]
        if not last.is_lone and last.ends_tiles:
            for pixels in dict.fromkeys((last.pixels, last.heads or last.pixels)):
                if pixels != (1, 1):
                    yield from self._groups_over(at, pixels, most_bits)

    def groups_in_slices(self, at: int) -> Iterator[Prefix]:
        """Yield the groups that end with operator `at` and may run in slices of output channels.

        A map inside such a group is cut into slices, so that no reader may need all channels of it.
        """
        waiting = [1 << at] if self._has_slices(at) else []
        seen = set(waiting)
        while waiting:
            group = waiting.pop()
            yield group
            for more in self._may_join(group):
                outputs = self.operators[more].outputs
                readers = {self.operators[reader].whole_inputs for name in outputs for reader in self.readers[name]}
                is_cut = all(each is None or each.isdisjoint(outputs) for each in readers)
                if is_cut and self._has_slices(more) and (grown := group | 1 << more) not in seen:
                    seen.add(grown)
                    waiting.append(grown)

    def _has_slices(self, at: int) -> bool:
        return self.operators[at].whole_inputs is not None and not self.operators[at].is_lone

    def _groups_over(
        self, at: int, pixels: tuple[int, int], most_bits: Callable[[Prefix], int]
    ) -> Iterator[TiledGroup]:
        """Yield the groups whose last operator `at` is cut along these rows and columns."""
        last, lasts = self.operators[at], TilesOfLast(self, at, pixels)
        tiles, most_of_all = lasts.tiles, most_bits((1 << len(self.operators)) - 1)
        waiting, seen = [(1 << at, last.weight_bits * (tiles.count - 1), tiles.count)], {1 << at}
        while waiting:
            group, again, like = waiting.pop()
            read = np.maximum(again - self.kept_weight_bits * (tiles.count - 1), 0)
            if not np.any((tiles.count > 1) & (read <= most_of_all)):
                continue
            classes = tiles.classes(read, like, most_bits(group))
            if classes is not None:
                order, begins = classes.order, classes.begins
                yield TiledGroup(
                    group,
                    lasts,
                    classes,
                    np.minimum.reduceat(read[order], begins),
                    {one: np.maximum.reduceat(lasts.computes[one][order], begins) for one in members(group)},
                    np.maximum.reduceat(tiles.count[order], begins),
                )
            for more in self._may_join(group):
                if (grown := group | 1 << more) not in seen:
                    seen.add(grown)
                    lasts.look_at(more)
                    again_in_it = self.operators[more].weight_bits * (lasts.computes[more] - 1)
                    waiting.append(
                        (grown, again + again_in_it, like + lasts.computes[more] * pow(_FACTOR, more + 1, 2**61 - 1))
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

    def comes_before(self, at: int, other: int) -> bool:
        """Return True if operator `other` is operator `at`, or needs its output, directly or not."""
        return bool((self._all_behind[at] | 1 << at) >> other & 1)

    def between(self, first: int, last: int) -> Prefix:
        """Return the operators that need the output of operator `first`, and whose output operator `last` needs."""
        found = 0
        for at in members(self._all_behind[first]):
            if self._all_behind[at] >> last & 1:
                found |= 1 << at
        return found


@dataclass(slots=True)
class TilesOfLast:
    """The tile sizes of the output of operator `last`, and what the operators before it compute and read in tiles.

    `computes` is a lower bound on the Computes of an operator, by tile size. `first` has by axis the first position of
    the last map that needs each position of an operator's output, or is None if it is unknown.
    """

    network: CutNetwork
    last: int
    pixels: tuple[int, int]
    tiles: TileCounts = field(init=False)
    computes: dict[int, Counts] = field(default_factory=dict, init=False)
    coverage: dict[int, tuple[Counts, ...]] = field(default_factory=dict, init=False)
    first: dict[int, list[Counts] | None] = field(default_factory=dict, init=False)
    _until: dict[int, Until] = field(default_factory=dict, init=False)
    _map: TiledMap | None = field(init=False)
    _reads: dict[tuple[int, str], Sequence[AxisReads] | None] = field(default_factory=dict, init=False)
    _products: dict[object, list[Product]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        pixels = self.pixels
        self.tiles, self._map = TileCounts.of(pixels), TiledMap.of(pixels)
        self.computes[self.last] = self.tiles.count
        self.coverage[self.last] = tuple(np.arange(size + 1) for size in pixels)
        self.first[self.last] = [np.arange(size) for size in pixels]

    def look_at(self, at: int) -> None:
        """Find out what an operator computes. All its readers must be known."""
        if at not in self.computes:
            self.coverage[at] = self._covered(at)
            self.first[at] = self._first_needed(at)
            self.computes[at] = self.tiles.computes(self.coverage[at])

    def _covered(self, at: int) -> tuple[Counts, ...]:
        """Return the rows (columns) that an operator has written when the last map has its first n, for each n.

        Returns an empty tuple if they are unknown.
        """
        found: list[Counts] = []
        for axis in (0, 1):
            seen = list[Counts]()
            for name, reader in self._reads_of(at):
                reaches, behind = self.network.operators[reader].reaches.get(name), self.coverage[reader]
                if reaches is None or not behind:
                    return ()
                seen.append(reaches[axis].seen(behind[axis]))
            found.append(np.maximum.reduce(seen))
        return tuple(found)

    def _first_needed(self, at: int) -> list[Counts] | None:
        found: list[Counts] = []
        for axis, size in enumerate(self.network.operators[at].pixels):
            views: list[tuple[Reach, Counts]] = []
            for name, reader in self._reads_of(at):
                reaches, first = self.network.operators[reader].reaches.get(name), self.first[reader]
                if reaches is None or first is None:
                    return None
                views.append((reaches[axis], first[axis]))
            own = first_needed(views, size)
            if own is None:
                return None
            found.append(own)
        return found

    def _reads_of(self, at: int) -> Iterator[tuple[str, int]]:
        return ((name, reader) for name in self.network.operators[at].outputs for reader in self.network.readers[name])

    def loads(self, group: TiledGroup, most: int) -> Mapping[int, ComputeLoad]:
        """Return what those operators of a group need on the chip that have the most bits of maps inside the group."""
        inside = list(members(group.operators))
        inner = {name for one in inside if one != self.last for name in self._operator(one).outputs}
        waiting = self._waiting_for(group, inner)

        def bits_inside(at: int) -> int:
            return sum(bits for name, bits in self._operator(at).map_bits.items() if name in inner)

        chosen = sorted(inside, key=bits_inside, reverse=True)[:most]
        return {
            at: self._load_in_tiles(group, at, inner, waiting.get(at, ()))
            if self._is_known(at)
            else self._load_of_all(group, at, inner)
            for at in chosen
        }

    def _waiting_for(self, group: TiledGroup, inner: Set[str]) -> Mapping[int, Sequence[tuple[str, int]]]:
        """Map operators to the inner maps, with a reader, that wait while the operator runs."""
        network, found = self.network, dict[int, list[tuple[str, int]]]()
        for name in inner & network.pixel_bits.keys():
            for reader in network.readers[name]:
                if name in self._operator(reader).map_bits and self._is_known(reader):
                    between = network.between(network.producer[name], reader) & group.operators
                    for at in members(between):
                        if name not in self._operator(at).map_bits:
                            found.setdefault(at, []).append((name, reader))
        return found

    def _is_known(self, at: int) -> bool:
        """Return True if each tile that needs new pixels has one Compute, whose windows are known."""
        one = self._operator(at)
        is_seen = all(name in self.network.pixel_bits for name in one.map_bits)
        is_read = all(self._reads_by(at, name) is not None for name in one.map_bits if name not in one.outputs)
        return self._map is not None and self.first[at] is not None and one.computes == 1 and is_seen and is_read

    def _load_of_all(self, group: TiledGroup, at: int, inner: Set[str]) -> ComputeLoad:
        """Return the bits of an operator in all Computes together, or in its single one if it is whole."""
        one = self._operator(at)
        shape = len(group.tiles), NUMBER_OF_SETS
        number = LAST_TILE if one.is_whole else 0

        def in_set(bits: float | Counts) -> Floats:
            found = np.zeros(shape)
            found[:, number] = bits
            return found

        every = np.ones(shape[0])
        own = {name: in_set(bits) for name, bits in one.running_bits.items() if name in inner}
        edges = {
            name: EdgeLoad(in_set(bits), *((bits * every, bits * every) if one.is_whole else ()))
            for name, bits in one.running_bits.items()
            if name not in inner
        }
        most = in_set(1 if one.is_whole else group.tiles * one.computes)
        return ComputeLoad(most, own, own, {}, edges, one.is_whole, not one.is_whole)

    def _load_in_tiles(
        self, group: TiledGroup, at: int, inner: Set[str], waiting: Sequence[tuple[str, int]]
    ) -> ComputeLoad:
        one, tiled = self._operator(at), self._map
        assert tiled is not None
        own, once = (
            {name: self._own(group, at, name, is_once=is_once) for name in one.running_bits if name in inner}
            for is_once in (False, True)
        )
        waits: dict[str, Floats] = {}
        for name, reader in waiting:
            bits = self._own(group, reader, name, at)
            waits[name] = np.maximum(waits[name], bits) if name in waits else bits
        names = {name for other in members(group.operators) for name in self._operator(other).map_bits}
        edges = {name: self._edge(group, at, name) for name in names - inner if name in self.network.pixel_bits}
        count = group.bits("computes", lambda: [(-rows, columns) for rows, columns in tiled.count], -1)
        return ComputeLoad(count, own, once, waits, {name: edge for name, edge in edges.items() if edge is not None})

    def _own(
        self, group: TiledGroup, at: int, name: str, running: int | None = None, *, is_once: bool = False
    ) -> Floats:
        """Return the bits of a map that an operator reads or writes itself in tiles in which `running` runs.

        With `is_once`, those that it reads in an earlier tile do not count.
        """
        tiled, reads, until = self._map, self._reads_by(at, name), self._until_of(at)
        assert tiled is not None
        each = self.network.pixel_bits[name]
        if reads is None:
            return group.bits(("made", at), lambda: self._made(("made", at), lambda: tiled.computed(until)), each)
        key: object = ("once", at, name) if is_once and any(one.kept.any() for one in reads) else (at, name, running)
        if key == ("once", at, name):
            return group.bits(key, lambda: self._made(key, lambda: tiled.read_first(until, reads)), each)
        other = None if running is None else self._until_of(running)
        return group.bits(key, lambda: self._made(key, lambda: tiled.windows(until, reads, other)), each)

    def _edge(self, group: TiledGroup, at: int, name: str) -> EdgeLoad | None:
        """Return the bits of an input or the output of the group that are on the chip while an operator runs."""
        if self.network.producer[name] == self.last:
            last = self._operator(self.last)
            is_all_read = last.map_bits.get(name) == self.network.pixel_bits[name] * prod(last.pixels)
            return self._output(group, at, name) if is_all_read else None
        found: list[Floats] = []
        for reader in self.network.readers[name]:
            reads = self._reads_by(reader, name) if group.operators >> reader & 1 else None
            if reads is not None:
                found.append(self._awaited(group, reader, name, is_before=self.network.comes_before(at, reader)))
        if not found:
            return None
        bits, reads = np.maximum.reduce(found), self._reads_by(at, name)
        tiled = self._map
        if reads is None or tiled is None or name not in self._operator(at).map_bits:
            return EdgeLoad(bits)
        key, until = ("least", at, name), self._until_of(at)
        least = group.bits(
            key, lambda: self._made(key, lambda: tiled.least_window(until, reads)), self.network.pixel_bits[name]
        )
        return EdgeLoad(bits, self._own(group, at, name)[:, LAST_TILE], least[:, LAST_TILE])

    def _output(self, group: TiledGroup, at: int, name: str) -> EdgeLoad:
        tiled, until, each = self._map, self._until_of(self.last), self.network.pixel_bits[name]
        assert tiled is not None
        written = group.bits("written", lambda: self._made("written", lambda: tiled.written(until)), each)
        if at != self.last or name in self._operator(at).in_place:
            return EdgeLoad(written)
        own = self._own(group, at, name)
        least = group.bits("least", lambda: self._made("least", lambda: tiled.least_computed(until)), each)
        return EdgeLoad(written + own, own[:, LAST_TILE], least[:, LAST_TILE])

    def _awaited(self, group: TiledGroup, at: int, name: str, *, is_before: bool) -> Floats:
        tiled, reads, key = self._map, self._reads_by(at, name), ("awaited", at, name, is_before)
        assert tiled is not None
        assert reads is not None
        return group.bits(
            key,
            lambda: self._made(key, lambda: tiled.awaited(reads, is_before=is_before)),
            self.network.pixel_bits[name],
        )

    def _made(self, key: object, make: Callable[[], list[Product]]) -> list[Product]:
        if key not in self._products:
            self._products[key] = make()
        return self._products[key]

    def _until_of(self, at: int) -> Until:
        first = self.first[at]
        assert first is not None
        if at not in self._until:
            self._until[at] = [numbers_until(*each) for each in zip(first, self.pixels, strict=True)]
        return self._until[at]

    def _reads_by(self, at: int, name: str) -> Sequence[AxisReads] | None:
        """Return the reads of an operator, or None if it does not read the map, or its windows are unknown."""
        key = at, name
        if key not in self._reads:
            reaches, first, tiled = self._operator(at).reaches.get(name), self.first.get(at), self._map
            if reaches is None or first is None or tiled is None:
                self._reads[key] = None
            else:
                self._reads[key] = tiled.reads(reaches, first)
        return self._reads[key]

    def _operator(self, at: int) -> CutOperator:
        return self.network.operators[at]


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
        sizes = tuple(ranges_of_sizes(size) for size in pixels)
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

    def classes(self, bits: Counts, like: Counts, most_bits: int) -> SizeClasses | None:
        """Return the classes of sizes with several tiles and at most `most_bits` bits.

        Sizes of a class are equal in `like` and `bits`, and nearly as long and as wide. If there are too many classes,
        neighbouring ones merge. Returns None if there are no sizes.
        """
        found = np.flatnonzero((self.count > 1) & (bits <= most_bits))
        if not len(found):
            return None
        rows, columns = (
            (np.log2([each[0] for each in ranges]) * _LENGTHS_PER_DOUBLING).astype(np.int64) for ranges in self.sizes
        )
        row, column = np.divmod(found, len(columns))
        keys = columns[column], rows[row], like[found], bits[found]
        order = np.lexsort(keys)
        found, is_new = found[order], np.ones(len(found), bool)
        is_new[1:] = np.any([np.diff(one[order]) != 0 for one in keys], axis=0)
        begins = np.flatnonzero(is_new)
        return SizeClasses(found, begins[:: -(-len(begins) // _MOST_CLASSES)], len(self.sizes[1]))


def _increases(covered: Counts, size: int) -> int:
    """Return the number of tiles of a size along an axis that need positions which no earlier tile needs.

    The first tile is smaller if the tiles do not fill the map.
    """
    length = len(covered) - 1
    behind = np.maximum(length - np.arange(-(-length // size), -1, -1) * size, 0)
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
