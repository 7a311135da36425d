"""Tiles of operands at the boundaries of memories, for a spatial unrolling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from math import ceil, floor, gcd, prod
from typing import Final, TypeAlias

from onchip.answer.layer_mapping import LayerMapping, Loop, MappingError
from onchip.arch.memory import MemoryLevel
from onchip.ir.layer import INPUT, LOOPS, OUTPUT, RELEVANT, Axis, Layer
from onchip.model.accounting.accounting import INTERPRETER, Accounting

DIGITS: Final = 6


def sizes_in_parts(layer: Layer, mapping: LayerMapping) -> tuple[float, ...]:
    """Return the average iterations of each loop of the nest; the mapping's bounds may exceed the layer's.

    33 channels on 32 units are 2 iterations of 16.5. If several dimensions of the array unroll a loop, the first of the
    longest gets the fraction; a loop without unrolling keeps its executed length. Raises MappingError if an iteration
    would use less than one unit.
    """
    sizes: list[float] = [loop.size for loop in mapping.nest]
    for name, bound in mapping.bounds.items():
        units = units_of(mapping, name)
        if layer.bounds[name] < bound and units:
            along = max(units, key=lambda one: units[one])
            if units[along] * layer.bounds[name] < bound:
                detail = f"{layer.bounds[name]} iterations of {name} leave units idle in {bound}"
                raise MappingError(detail, place=f"array: {along}", expected="fewer turns")
            at = next(i for i, loop in enumerate(mapping.nest) if (loop.dimension, loop.along) == (name, along))
            others = units[along] // mapping.nest[at].size
            sizes[at] = units[along] * layer.bounds[name] / bound / others
    return tuple(sizes)


def nearest(elements: float) -> int:
    """Return the nearest whole number; first rounds off differences due to the order of multiplication."""
    return round(round(elements, DIGITS))


def units_of(mapping: LayerMapping, dimension: str) -> dict[str, int]:
    """Return a loop's units by dimension of the array, in nest order, without dimensions of one unit."""
    along = [loop.along for loop in mapping.nest if loop.dimension == dimension and loop.along is not None]
    units = {
        str(name): prod(loop.size for loop in mapping.nest if (loop.dimension, loop.along) == (dimension, name))
        for name in along
    }
    return {name: size for name, size in units.items() if size > 1}


def check_parts(layer: Layer, mapping: LayerMapping) -> None:
    """Raise MappingError as `sizes_in_parts` does, at no cost if no unit is fractional."""
    if any(mapping.bounds[name] != layer.bounds[name] for name in LOOPS):
        sizes_in_parts(layer, mapping)


Sizes: TypeAlias = tuple[tuple[int, int], ...]  # pairs of a size in elements and its count
Digit: TypeAlias = tuple[int, int]  # size of a loop, and its step along an axis

EPSILON: Final = 1e-9
"""Tolerance of products of fractional units around a whole number."""
MACS = "macs"
"""Name of the multiply-accumulate units in place of a memory; they store nothing."""


_APART: Final = {
    operand: frozenset(loops) - (frozenset("PQRS") if operand == INPUT else frozenset())
    for operand, loops in RELEVANT.items()
}
"""Relevant loops of each operand, without those along the axes of the input."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of an operand's tiles: a memory, its home, or the MACs, with one element for one cycle."""

    memory: str
    cut: int
    serves: tuple[str, ...] | None
    level: MemoryLevel | None = None

    def has_beside_it(self, loop: Loop) -> bool:
        """Return True if the loop runs over several instances of the holder."""
        return loop.along is not None and self.serves is not None and loop.along not in self.serves

    def spans(self, at: int, loop: Loop) -> bool:
        """Return True if the holder's tile contains the loop with number `at` of the nest."""
        return at < self.cut if loop.along is None else not self.has_beside_it(loop)


@dataclass(frozen=True)
class Boundary:
    """Two neighbours of an operand's chain: tiles of `lower` come from, or go to, `upper`.

    `layer` has its bounds as executed or, with fractional units, as requested; then `sizes_in_parts` are the sizes of
    the loops. `inner_cut` is the cut of the holder below `lower`. `has_room_for_two` is True if `lower` can hold two
    tiles, None to follow its memory. Values used for capacity, accesses and time are cached.
    """

    layer: Layer
    mapping: LayerMapping
    operand: str
    lower: Holder
    upper: Holder
    inner_cut: int = 0
    accounting: Accounting = INTERPRETER
    has_room_for_two: bool | None = None
    sizes_in_parts: tuple[float, ...] | None = None

    @cached_property
    def episodes(self) -> int:
        """Return the number of fills of `lower`'s tiles: the loops above the cut, without reuse loops right above it.

        Reuse loops leave the tile unchanged. The MACs keep nothing, so they have no reuse.
        """
        above = self._temporal_above()
        keeps = self.lower.memory != MACS or (self.accounting.is_zigzag and self.operand != OUTPUT)
        while keeps and above and not self._is_relevant(above[0]):
            above.pop(0)
        return prod(loop.size for loop in above)

    @cached_property
    def distinct_tiles(self) -> int:
        """Return the number of different tiles that one instance of `lower` holds over time."""
        return prod(loop.size for loop in self._temporal_above() if self._is_relevant(loop))

    @property
    def period(self) -> int:
        """Return the cycles for which a tile stays in `lower`."""
        return self.mapping.temporal_iterations // self.episodes

    @property
    def window(self) -> int:
        """Return the last cycles of the period, in which the next tile may replace this one.

        These are all cycles if both tiles fit. Otherwise they follow the last use of the whole tile, so the outermost
        loops of the period that reuse it are excluded.
        """
        doubled = self.has_room_for_two
        if doubled is None:
            doubled = self.lower.level is not None and self.lower.level.double_buffered
        if self.lower.memory == MACS or doubled:
            return self.period
        first = self.inner_cut if self.accounting.counts_from_bounds else 0
        below = [loop for at, loop in enumerate(self.mapping.nest) if at < self.lower.cut and loop.along is None]
        own = sum(loop.along is None for loop in self.mapping.nest[first : self.lower.cut])
        while own and (below[-1].size == 1 or not self._is_relevant(below[-1])):
            below.pop()
            own -= 1
        return prod(loop.size for loop in below)

    def lower_sizes(self) -> Sizes:
        """Return the sizes of `lower`'s tiles, with the moves of each size over all instances and time."""
        return self._lower_sizes

    def upper_sizes(self) -> Sizes:
        """Return the sizes that `upper` moves: data that several lower instances share at once count once."""
        return self._upper_sizes

    @cached_property
    def _lower_sizes(self) -> Sizes:
        if self.accounting.counts_from_bounds:
            return ((self._tile_from_bounds, self._moves(self.lower)),)
        return self._sizes(self._times(self.lower), joined=False)

    @cached_property
    def _upper_sizes(self) -> Sizes:
        if not self.accounting.counts_from_bounds:
            return self._sizes(self._times(self.upper), joined=True)
        neighbours = self.neighbours  # instances share no halo: each takes a whole tile
        neighbours = floor(neighbours + EPSILON) if self.accounting.is_defines else nearest(neighbours)
        return ((self._tile_from_bounds * neighbours, self._moves(self.upper)),)

    def lower_room(self) -> int:
        """Return the elements of `lower`'s largest tile; 0 if all is padding."""
        if self.accounting.is_defines:
            return nearest(self._elements(self._spanned(), for_room=True))
        return max((size for size, _ in self.lower_sizes()), default=0)

    @property
    def neighbours(self) -> float:
        """Return the tiles of `lower` that one instance of `upper` serves at once, with a halo for each."""
        spatial = [at for at, loop in enumerate(self.mapping.nest) if loop.along is not None]
        nest = self.mapping.nest
        above = self._elements([at for at in spatial if not self.upper.has_beside_it(nest[at])])
        return above / self._elements([at for at in spatial if not self.lower.has_beside_it(nest[at])])

    def _moves(self, sharing: Holder) -> int:
        """Return the moves of a tile, over all time and all instances of `sharing`."""
        beside = (at for at, loop in enumerate(self.mapping.nest) if sharing.has_beside_it(loop))
        return self.episodes * nearest(prod(map(self._size, beside)))

    def _size(self, at: int) -> float:
        return self.mapping.nest[at].size if self.sizes_in_parts is None else self.sizes_in_parts[at]

    def _spanned(self) -> list[int]:
        return [at for at, loop in enumerate(self.mapping.nest) if self.lower.spans(at, loop)]

    @cached_property
    def _tile_from_bounds(self) -> int:
        return nearest(self._elements(self._spanned()))

    def _elements(self, places: Sequence[int], *, for_room: bool = False) -> float:
        """Return the elements that the loops with these numbers of the nest touch alone."""
        counts = dict.fromkeys(RELEVANT[self.operand], 1.0)
        for at in places:
            loop = self.mapping.nest[at]
            if self._is_relevant(loop):
                counts[loop.dimension] *= self._size(at)
        if for_room:
            counts = {name: float(ceil(count - EPSILON)) for name, count in counts.items()}
        elements = 1.0
        for axis in self.layer.axes if self.operand == INPUT else ():
            outputs, filters = counts.pop(axis.output_loop), counts.pop(axis.filter_loop)
            positions = self._positions(axis, outputs, filters) if self.axes else outputs * filters
            elements *= min(positions, axis.size)
        return elements * prod(counts.values())

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Return the axes along which tiles of the operand may overlap."""
        is_plain = self.accounting.is_defines and (self.layer.r, self.layer.s) == (1, 1)
        return self.layer.axes if self.operand == INPUT and not is_plain else ()

    def _positions(self, axis: Axis, outputs: float, filters: float) -> int:
        if self.accounting.is_zigzag:
            outputs, filters = floor(outputs + EPSILON), floor(filters + EPSILON)
        return floor(touched(axis.stride, axis.dilation, outputs, filters) + EPSILON)

    def _times(self, sharing: Holder) -> int:
        """Return the moves of each tile at `sharing`: repeated in time, and for instances with equal tiles."""
        copies = prod(
            loop.size for loop in self.mapping.nest if sharing.has_beside_it(loop) and not self._is_relevant(loop)
        )
        return copies * self.episodes // self.distinct_tiles

    def _sizes(self, times: int, *, joined: bool) -> Sizes:
        size, count = 1, times
        apart = _APART[self.operand]
        for at, loop in enumerate(self.mapping.nest):
            if loop.dimension in apart:
                if self.lower.spans(at, loop) or (joined and loop.along and not self.upper.has_beside_it(loop)):
                    size *= loop.size
                else:
                    count *= loop.size
        if self.operand != INPUT:
            return ((size, count),)
        sizes = Counter({size: count})
        for axis in self.layer.axes:
            along = self._sizes_along(axis, joined=joined)
            grown: Counter[int] = Counter()
            for (one, often), (other, times_other) in product(sizes.items(), along):
                grown[one * other] += often * times_other
            sizes = grown
        return tuple(sorted((size, count) for size, count in sizes.items() if size))

    def _sizes_along(self, axis: Axis, *, joined: bool) -> Sizes:
        within, beside, rest = [], [], []
        weights = {axis.output_loop: axis.stride, axis.filter_loop: axis.dilation}
        for at, loop in enumerate(self.mapping.nest):
            if loop.dimension not in weights:
                continue
            digit = loop.size, weights[loop.dimension]
            weights[loop.dimension] *= loop.size
            if loop.size > 1:
                if self.lower.spans(at, loop):
                    within.append(digit)
                elif joined and loop.along is not None and not self.upper.has_beside_it(loop):
                    beside.append(digit)
                else:
                    rest.append(digit)
        return block_sizes(axis.padding, axis.size, tuple(within), tuple(beside), tuple(rest))

    def _temporal_above(self) -> list[Loop]:
        """Return the temporal loops above the cut with more than one iteration, innermost first."""
        nest = enumerate(self.mapping.nest)
        return [loop for at, loop in nest if at >= self.lower.cut and loop.along is None and loop.size > 1]

    def _is_relevant(self, loop: Loop) -> bool:
        return loop.dimension in RELEVANT[self.operand]


def touched(stride: int, dilation: int, outputs: float, filters: float) -> float:
    """Return the number of different positions `output * stride + filter * dilation`, without skipped ones."""
    common = gcd(stride, dilation)
    return outputs * filters - max(0, filters - stride // common) * max(0, outputs - dilation // common)


@lru_cache(maxsize=1 << 16)
def block_sizes(
    padding: int, size: int, within: tuple[Digit, ...], beside: tuple[Digit, ...], rest: tuple[Digit, ...]
) -> Sizes:
    """Return pairs of stored positions that a tile touches along an axis, and the number of such tiles.

    A tile reaches from the first to the last position that the loops `within` it touch, clipped to [0, size). Positions
    shared by tiles of the loops `beside` count once. The loops `rest` determine the tile's start.
    """
    length = 1 + sum((digits - 1) * step for digits, step in within)
    starts_beside = sorted(sums_of(beside))
    found = Counter(_union(starts_beside, start - padding, length, size) for start in sums_of(rest))
    return tuple(sorted(found.items()))


def sums_of(digits: Sequence[Digit]) -> list[int]:
    """Return the indices that loops of these sizes and steps reach."""
    return [sum(steps) for steps in product(*(range(0, size * step, step) for size, step in digits))]


def _union(sorted_starts: Sequence[int], offset: int, length: int, size: int) -> int:
    covered, reached = 0, 0
    for start in sorted_starts:
        first, stop = max(start + offset, reached), min(start + offset + length, size)
        covered += max(stop - first, 0)
        reached = max(reached, stop)
    return covered
