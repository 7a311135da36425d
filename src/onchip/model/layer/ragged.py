"""Loops that end short: tile sizes, their number, chains of memories, and the time of each.

The loops of a dimension are the digits of its index, so a tile begins at the sum of the digits above its cut.
Dimensions end independently: moves are counted along each dimension, and multiplied.

The nest is walked from the outermost loop inwards. The remaining indices of each dimension determine the iterations of
the inner loops. All iterations of a loop but the last leave the inner loops whole, so few cases differ.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import pairwise, product
from math import prod
from typing import Final, TypeAlias

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.ir.layer import INPUT, LOOPS, OUTPUT, RELEVANT, Axis, Layer
from onchip.model.accounting.accounting import INTERPRETER, Accounting
from onchip.model.layer.tiles import MACS, Boundary, Digit, Holder, Sizes, sizes_in_parts, sums_of

Digits: TypeAlias = tuple[Digit, ...]
Interval: TypeAlias = tuple[int, int]  # first and last position

Places: TypeAlias = Mapping[str, tuple[int, ...]]  # by dimension, the indices at which tiles begin
ONE: Final = Counter({1: 1})
"""A single index."""


def ends_short(layer: Layer, mapping: LayerMapping) -> bool:
    """Return True if loops of the nest run past a bound that is not padded."""
    return any(mapping.bounds[name] > layer.bounds[name] for name in mapping.ragged)


@dataclass(frozen=True, slots=True)
class _Moves:
    """Tiles that move once at every combination of the dimensions' starts; a `sign` of -1 subtracts them."""

    sign: int
    places: Places


@dataclass(frozen=True)
class RaggedBoundary(Boundary):
    """A boundary of a nest with loops that end short; `number` is its position in the operand's `chain` of holders."""

    chain: tuple[Holder, ...] = ()
    number: int = 0

    @cached_property
    def episodes(self) -> int:
        """Return the number of fills of `lower`'s tiles."""
        return sum(one.sign * prod(map(len, one.places.values())) for one in self._own_fills)

    @cached_property
    def distinct_tiles(self) -> int:
        """Return the number of different tiles that one instance of `lower` holds over time."""
        above = self._above(self.lower)
        return prod(len(self._places(name, above)) for name in RELEVANT[self.operand])

    def returned_sizes(self, *, joined: bool) -> Sizes:
        """Return the sizes of returning sums: all except those that begin in a holder to which none returns.

        If several instances add to one sum, only the first receives it back. The upper holder may itself not be the
        first instance of its sum: then sums start again with each of its tiles.
        """
        unlike = self._unlike(self.number)
        found = self._of_instances(self._own_fills, joined, zero=unlike)
        zero = unlike
        for number in range(self.number + 1, len(self.chain)):
            begun = self._begun(self.chain[number])
            also_zero = zero | self._unlike(number)
            is_home = number == len(self.chain) - 1
            if is_home or also_zero != zero:
                found.subtract(self._of_instances(begun, joined, zero))
            if not is_home and also_zero != zero:
                found.update(self._of_instances(begun, joined, also_zero))
            zero = also_zero
        return _listed(found)

    @cached_property
    def _own_fills(self) -> list[_Moves]:
        return self._fills(self.lower)

    @cached_property
    def _lower_sizes(self) -> Sizes:
        return _listed(self._sizes_of(self._own_fills, frozenset(), self._beside(self.lower)))

    @cached_property
    def _upper_sizes(self) -> Sizes:
        apart = self._beside(self.upper)
        return _listed(self._sizes_of(self._own_fills, self._beside(self.lower) - apart, apart))

    def _of_instances(self, moves: Sequence[_Moves], joined: bool, zero: frozenset[int]) -> Counter[int]:
        below = self._beside(self.lower) - zero
        apart = self._beside(self.upper) - zero if joined else below
        return self._sizes_of(moves, below - apart, apart)

    def _unlike(self, number: int) -> frozenset[int]:
        """Return the spatial loops, within an instance of the next holder, over instances that add to the same sums."""
        if number == len(self.chain) - 1:
            return frozenset()
        apart = self._beside(self.chain[number]) - self._beside(self.chain[number + 1])
        return frozenset(at for at in apart if not self._is_relevant(self.mapping.nest[at]))

    def _beside(self, holder: Holder) -> frozenset[int]:
        return frozenset(
            at for at, loop in enumerate(self.mapping.nest) if loop.size > 1 and holder.has_beside_it(loop)
        )

    def _above(self, holder: Holder) -> list[int]:
        """Return the temporal loops above the cut with more than one iteration, innermost first."""
        nest = enumerate(self.mapping.nest)
        return [at for at, loop in nest if at >= holder.cut and loop.along is None and loop.size > 1]

    def _fills(self, holder: Holder) -> list[_Moves]:
        """Return the iterations of the loops above the cut that replace the tile, from the first relevant loop on.

        An irrelevant loop keeps the tile if no relevant loop has advanced inside it, that is, if these end at once.
        """
        above = self._above(holder)
        keeps = holder.memory != MACS
        while keeps and above and not self._is_relevant(self.mapping.nest[above[0]]):
            above.pop(0)
        found = [_Moves(1, {name: self._places(name, above) for name in self._bounds})]
        found.extend(
            _Moves(-1, {name: self._left_alone(name, at, above) for name in self._bounds})
            for at in above
            if keeps and not self._is_relevant(self.mapping.nest[at])
        )
        return [one for one in found if all(one.places.values())]

    def _left_alone(self, name: str, at: int, above: Sequence[int]) -> tuple[int, ...]:
        """Return the starts along a dimension at which a loop advances and no relevant loop inside it has advanced."""
        nest, outer = self.mapping.nest, [one for one in above if one > at]
        if nest[at].dimension == name:
            return tuple(one for one in self._places(name, [at, *outer]) if self._digit(at, one))
        places = self._places(name, outer)
        inner = [one for one in above if one < at and nest[one].dimension == name]
        if name not in RELEVANT[self.operand] or not inner:
            return places
        return tuple(one for one in places if one + self._weights[inner[0]] >= self._bounds[name])

    def _begun(self, holder: Holder) -> list[_Moves]:
        """Return the first moves of each tile of `lower` while a tile of a holder above, or the whole output, stays."""
        is_home = holder is self.chain[-1]
        moves = [_Moves(1, dict.fromkeys(self._bounds, (0,)))] if is_home else self._fills(holder)
        inside = [at for at in self._above(self.lower) if at < holder.cut]
        return [
            _Moves(one.sign, {name: self._places_within(name, places, inside) for name, places in one.places.items()})
            for one in moves
        ]

    def _places_within(self, name: str, places: tuple[int, ...], inside: Sequence[int]) -> tuple[int, ...]:
        if name not in RELEVANT[OUTPUT]:
            return places
        steps = self._places(name, inside)
        return tuple(one + step for one in places for step in steps if one + step < self._bounds[name])

    def _places(self, name: str, loops: Sequence[int]) -> tuple[int, ...]:
        """Return the indices below the bound that these loops of a dimension reach, all others at iteration 0."""
        nest, weights = self.mapping.nest, self._weights
        digits = tuple((nest[at].size, weights[at]) for at in loops if nest[at].dimension == name)
        return places_of(digits, self._bounds[name])

    @cached_property
    def _bounds(self) -> Mapping[str, int]:
        return self.layer.bounds

    @cached_property
    def _weights(self) -> list[int]:
        """Return the step of each loop along its dimension."""
        led, found = dict.fromkeys(self._bounds, 1), []
        for loop in self.mapping.nest:
            found.append(led[loop.dimension])
            led[loop.dimension] *= loop.size
        return found

    @cached_property
    def _loops_of(self) -> dict[str, list[int]]:
        """Return the loops of each dimension with more than one iteration."""
        found: dict[str, list[int]] = {name: [] for name in self._bounds}
        for at, loop in enumerate(self.mapping.nest):
            if loop.size > 1:
                found[loop.dimension].append(at)
        return found

    def _digit(self, at: int, place: int) -> int:
        return place // self._weights[at] % self.mapping.nest[at].size

    def _digits(self, name: str, loops: Callable[[int], bool]) -> Digits:
        nest, weights = self.mapping.nest, self._weights
        return tuple((nest[at].size, weights[at]) for at in self._loops_of[name] if loops(at))

    def _sizes_of(self, moves: Sequence[_Moves], joined: frozenset[int], apart: frozenset[int]) -> Counter[int]:
        """Return the sizes of tiles over instances of the loops `apart`, with `joined` instances counted together."""
        found: Counter[int] = Counter()
        for one in moves:
            sizes = Counter({1: one.sign})
            for along in self._sizes_by_dimension(one.places, joined, apart):
                if along == ONE:
                    continue
                grown: Counter[int] = Counter()
                for (size, often), (other, times) in product(sizes.items(), along.items()):
                    grown[size * other] += often * times
                sizes = grown
            found.update(sizes)
        return found

    def _sizes_by_dimension(
        self, places: Places, joined: frozenset[int], apart: frozenset[int]
    ) -> Iterator[Counter[int]]:
        axes = self.layer.axes if self.operand == INPUT else ()
        nest, bounds = self.mapping.nest, self._bounds

        def side(name: str) -> Side:
            within = self._digits(name, lambda at: self.lower.spans(at, nest[at]))
            both = (self._digits(name, joined.__contains__), self._digits(name, apart.__contains__))
            return Side(bounds[name], places[name], within, *both)

        for axis in axes:
            yield blocks(axis, side(axis.output_loop), side(axis.filter_loop))
        for name in bounds:
            if self._loops_of[name] and not any(name in (axis.output_loop, axis.filter_loop) for axis in axes):
                yield lengths(side(name), is_relevant=name in RELEVANT[self.operand])


def _listed(sizes: Counter[int]) -> Sizes:
    return tuple(sorted((size, count) for size, count in sizes.items() if size and count))


@dataclass(frozen=True, slots=True)
class Side:
    """The tiles along a dimension: their starts, and the loops they span, share (`joined`) or replicate (`apart`)."""

    bound: int
    places: tuple[int, ...]
    within: Digits
    joined: Digits
    apart: Digits

    def starts(self) -> Iterator[int]:
        """Yield the start of each tile, at each instance."""
        own = sums_of(self.apart)
        return (place + beside for place in self.places for beside in own)

    def intervals(self) -> Counter[tuple[Interval, ...]]:
        """Return the index intervals that each joined tile covers, with their counts."""
        inner, beside = sorted(sums_of(self.within)), sums_of(self.joined)
        found = Counter[tuple[Interval, ...]]()
        for start in self.starts():
            first = [start + one for one in beside if start + one < self.bound]
            found[tuple((one, one + inner[bisect_left(inner, self.bound - one) - 1]) for one in first)] += 1
        return found


@lru_cache(maxsize=1 << 12)
def lengths(side: Side, *, is_relevant: bool) -> Counter[int]:
    """Return the lengths of tiles with counts; for an irrelevant dimension, 1 for each non-empty tile."""
    inner = sorted(sums_of(side.within + side.joined))
    found = Counter(bisect_left(inner, side.bound - start) for start in side.starts())
    del found[0]
    return found if is_relevant else Counter({1: found.total()})


@lru_cache(maxsize=1 << 12)
def blocks(axis: Axis, outputs: Side, filters: Side) -> Counter[int]:
    """Return the stored positions of an axis that tiles cover, with counts."""
    found: Counter[int] = Counter()
    for (rows, often), (taps, times) in product(outputs.intervals().items(), filters.intervals().items()):
        reached, covered = 0, 0
        spans = (
            (row[0] * axis.stride + tap[0] * axis.dilation, row[1] * axis.stride + tap[1] * axis.dilation)
            for row, tap in product(rows, taps)
        )
        for first, last in sorted(spans):
            start, stop = max(first - axis.padding, reached), min(last - axis.padding + 1, axis.size)
            covered += max(stop - start, 0)
            reached = max(reached, stop)
        if covered:
            found[covered] += often * times
    return found


@lru_cache(maxsize=1 << 12)
def places_of(digits: Digits, bound: int) -> tuple[int, ...]:
    """Return the indices below the bound that these digits reach."""
    return tuple(place for place in sums_of(digits) if place < bound)


Left: TypeAlias = tuple[int, ...]  # by LOOPS, indices left before the bound, clipped to the inner loops' extent


@dataclass(frozen=True, slots=True)
class TileFilling:
    """Tiles of an operand whose memory spans the loops inside `cut`; a window is the last run of `needed` loops.

    With double buffering `needed` is None, since the next tile may arrive at any time.
    """

    operand: str
    cut: int
    needed: int | None

    @classmethod
    def of(cls, boundary: Boundary) -> TileFilling:
        """Return the filling of tiles that cross a boundary between memories."""
        lower, nest = boundary.lower, boundary.mapping.nest
        if lower.level is not None and lower.level.double_buffered:
            return cls(boundary.operand, lower.cut, None)
        relevant = RELEVANT[boundary.operand]
        ends = (
            at + 1
            for at, loop in enumerate(nest[: lower.cut])
            if loop.along is None and loop.size > 1 and loop.dimension in relevant
        )
        return cls(boundary.operand, lower.cut, max(ends, default=0))

    def is_needed_in(self, loops: int) -> bool:
        """Return True if the last iteration of these innermost loops is entirely in the window of the tile."""
        return self.needed is None or self.needed >= loops


@dataclass(frozen=True, slots=True)
class PortMove:
    """A transfer at a port of `busy` cycles, `times` during the loops; `filling` is None for the MACs (every cycle)."""

    filling: TileFilling | None
    busy: int
    times: int
    returns: bool


class RaggedTime:
    """The counter of cycles and stalls for one mapping; `layer` has the executed bounds."""

    def __init__(self, layer: Layer, mapping: LayerMapping) -> None:
        nest = mapping.nest
        self._loops = nest
        self._weights = [
            prod(inner.size for inner in nest[:at] if inner.dimension == loop.dimension) for at, loop in enumerate(nest)
        ]
        self._all: Left = tuple(layer.bounds[name] for name in LOOPS)
        self.length: Callable[[int, Left], int] = lru_cache(maxsize=None)(self._length)
        self.cycles = self.length(len(nest), self._all)

    def stall(self, moves: Sequence[PortMove]) -> int:
        """Return the excess of single transfers over their windows, or of all transfers over the windows' union."""
        moving = [one for one in moves if one.times]
        if not moving:
            return 0
        alone = sum(self._alone(one) for one in moving)
        return max(alone, sum(one.busy * one.times for one in moving) - self._covered(moving), 0)

    def _turns(self, loops: int, left: Left) -> tuple[int, Left, Left]:
        """Return the outermost loop's iterations, and the indices left inside before its last iteration and in it."""
        loop, weight = self._loops[loops - 1], self._weights[loops - 1]
        at = LOOPS.index(loop.dimension)
        turns = 1 if loop.along is not None else -(-left[at] // weight)
        full, last = min(left[at], weight), left[at] - (turns - 1) * weight
        return turns, (*left[:at], full, *left[at + 1 :]), (*left[:at], min(last, weight), *left[at + 1 :])

    def _length(self, loops: int, left: Left) -> int:
        if not loops:
            return 1
        turns, full, last = self._turns(loops, left)
        return (turns - 1) * self.length(loops - 1, full) + self.length(loops - 1, last)

    def _moves_on(self, filling: TileFilling, loops: int, left: Left) -> bool:
        """Return True if the tile at the end of these loops differs from that at their start."""
        while loops > filling.cut:
            turns, _, left = self._turns(loops, left)
            if turns > 1 and self._matters(filling, loops - 1):
                return True
            loops -= 1
        return False

    def _is_replaced(self, filling: TileFilling, at: int, inside: Left) -> bool:
        """Return True if the tile is replaced when a loop advances after an iteration with `inside` indices left."""
        return at >= filling.cut and (self._matters(filling, at) or self._moves_on(filling, at, inside))

    def _matters(self, filling: TileFilling, at: int) -> bool:
        return self._loops[at].dimension in RELEVANT[filling.operand]

    def _window(self, filling: TileFilling, loops: int, left: Left) -> int:
        """Return the cycles of the window before the tile is replaced at the end of these loops."""
        if filling.needed is None:
            return self._since_last(filling, loops, left)
        while loops > filling.needed:
            _, _, left = self._turns(loops, left)
            loops -= 1
        return self.length(loops, left)

    def _since_last(self, filling: TileFilling, loops: int, left: Left) -> int:
        """Return the cycles since the tile's last replacement within these loops, or since their start."""
        whole = loops, left
        while loops > filling.cut:
            turns, full, left = self._turns(loops, left)
            loops -= 1
            if turns > 1:
                if not self._is_replaced(filling, loops, full):
                    break
                whole = loops, left
        return self.length(*whole)

    def _alone(self, move: PortMove) -> int:
        filling = move.filling
        if filling is None:
            return max(move.busy - 1, 0) * move.times

        @cache
        def waits(loops: int, left: Left, has_begun: bool) -> int:
            if loops <= filling.cut:
                return 0
            turns, full, last = self._turns(loops, left)
            first_inside = waits(loops - 1, full if turns > 1 else last, has_begun)
            if turns == 1:
                return first_inside
            later = has_begun or not self._matters(filling, loops - 1)
            total = first_inside + (turns - 2) * waits(loops - 1, full, later) + waits(loops - 1, last, later)
            if self._is_replaced(filling, loops - 1, full) and (later or not move.returns):
                total += (turns - 1) * max(move.busy - self._window(filling, loops - 1, full), 0)
            return total

        return waits(len(self._loops), self._all, False)

    def _covered(self, moves: Sequence[PortMove]) -> int:
        """Return the cycles in the window of at least one transfer; a tile's last transfer has none after it."""
        fillings = {one.filling for one in moves}
        if None in fillings or any(self._replacements(one) + 1 == self.cycles for one in fillings if one):
            return self.cycles
        every = [one for one in fillings if one is not None]

        @cache
        def covered(loops: int, left: Left, ending: frozenset[TileFilling]) -> int:
            if any(one.is_needed_in(loops) for one in ending):
                return self.length(loops, left)
            if not loops:
                return 0
            turns, full, last = self._turns(loops, left)
            inside = covered(loops - 1, last, ending)
            if turns > 1:
                replaced = frozenset(one for one in every if self._is_replaced(one, loops - 1, full))
                inside += (turns - 1) * covered(loops - 1, full, replaced)
            return inside

        return covered(len(self._loops), self._all, frozenset())

    def _replacements(self, filling: TileFilling) -> int:
        @cache
        def count(loops: int, left: Left) -> int:
            if loops <= filling.cut:
                return 0
            turns, full, last = self._turns(loops, left)
            inside = (turns - 1) * count(loops - 1, full) if turns > 1 else 0
            own = (turns - 1) * self._is_replaced(filling, loops - 1, full)
            return inside + count(loops - 1, last) + own

        return count(len(self._loops), self._all)


Crossed: TypeAlias = Mapping[str, tuple[Boundary, ...]]
"""The boundaries of each operand, from the MACs up to its home."""


def chain_of(problem: LayerProblem, mapping: LayerMapping, operand: str) -> tuple[Holder, ...]:
    """Return the MACs, the memories that keep tiles of the operand, and its home."""
    levels = {level.memory.name: level for level in problem.levels}
    home = problem.home(operand)
    return (
        Holder(MACS, 0, ()),
        *(
            Holder(kept.memory, kept.loops, levels[kept.memory].serves, levels[kept.memory])
            for kept in mapping.kept(operand)
        ),
        Holder(home, len(mapping.nest), None, levels.get(home)),
    )


def boundaries(
    layer: Layer, problem: LayerProblem, mapping: LayerMapping, accounting: Accounting = INTERPRETER
) -> Crossed:
    """Return each operand's boundaries from the MACs to its home; `layer` has executed or, in parts, requested bounds.

    Capacity, accesses and time share these objects, which cache their tile counts.
    """
    chains = {operand: chain_of(problem, mapping, operand) for operand in layer.operands}
    if ends_short(layer, mapping):
        return {
            operand: tuple(
                RaggedBoundary(layer, mapping, operand, lower, upper, chain=chain, number=number)
                for number, (lower, upper) in enumerate(pairwise(chain))
            )
            for operand, chain in chains.items()
        }
    sizes = None
    if accounting.counts_from_bounds and layer.bounds != mapping.bounds:
        sizes = sizes_in_parts(layer, mapping)
    return {
        operand: tuple(
            Boundary(layer, mapping, operand, lower, upper, inner_cut, accounting, sizes_in_parts=sizes)
            for (lower, upper), inner_cut in zip(pairwise(chain), (0, *(holder.cut for holder in chain)), strict=False)
        )
        for operand, chain in chains.items()
    }
