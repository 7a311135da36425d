"""Mappings one step from another: a prime factor moved, two exchanged, or two loops next to each other swapped.

Tiles keep their memories and cuts; what a tile spans changes with the loops that stand inside its cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import prod

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import Operand
from onchip.model.layer.limits import array_of
from onchip.model.unrolling.unrolling import prime_counts


@dataclass(frozen=True, slots=True)
class _Factor:
    """One copy of a prime of a loop: its segment, or the array dimension along which it runs."""

    dimension: str
    prime: int
    place: int | str


@dataclass(frozen=True, slots=True)
class _SegmentedNest:
    """A nest between its cuts: those of `owners[i]` stand behind segment i, beyond the last segment there are none."""

    segments: tuple[tuple[Loop, ...], ...]
    owners: tuple[tuple[tuple[str, Operand], ...], ...]

    @classmethod
    def of(cls, mapping: LayerMapping, problem: LayerProblem) -> _SegmentedNest:
        """Cuts of one memory at one place are one cut; of different memories at one place the nearer is the inner."""
        names = [level.memory.name for level in problem.levels]
        cuts: dict[tuple[int, int], list[tuple[str, Operand]]] = {}
        for operand in Operand:
            for kept in mapping.kept(operand):
                cuts.setdefault((kept.loops, names.index(kept.memory)), []).append((kept.memory, operand))
        places = sorted(cuts)
        ends = [0, *(loops for loops, _ in places), len(mapping.nest)]
        segments = tuple(mapping.nest[start:end] for start, end in pairwise(ends))
        return cls(segments, tuple(tuple(cuts[place]) for place in places))

    def mapping(self) -> LayerMapping:
        """Return the nest in one piece."""
        kept: dict[Operand, list[Kept]] = {operand: [] for operand in Operand}
        end = 0
        for segment, owners in zip(self.segments, self.owners, strict=False):
            end += len(segment)
            for memory, operand in owners:
                kept[operand].append(Kept(memory, end))
        return LayerMapping(
            tuple(loop for segment in self.segments for loop in segment), *(tuple(kept[one]) for one in Operand)
        )

    def factors(self) -> list[_Factor]:
        """Return one factor of each kind: copies of a prime at one place are equivalent."""
        found = dict.fromkeys(
            _Factor(loop.dimension, prime, loop.along or at)
            for at, segment in enumerate(self.segments)
            for loop in segment
            for prime in prime_counts(loop.size)
        )
        return list(found)

    def without(self, factor: _Factor) -> _SegmentedNest:
        """Return the nest without a factor, and without its loop if the loop becomes 1."""
        segments = [list(segment) for segment in self.segments]
        for at, segment in enumerate(segments):
            for index, loop in enumerate(segment):
                if (
                    loop.dimension == factor.dimension
                    and (loop.along or at) == factor.place
                    and not loop.size % factor.prime
                ):
                    left = loop.size // factor.prime
                    segment[index : index + 1] = [Loop(loop.dimension, left, loop.along)] if left > 1 else []
                    return _SegmentedNest(tuple(map(tuple, segments)), self.owners)
        return self

    def with_factor(self, factor: _Factor) -> Iterator[_SegmentedNest]:
        """Yield the nest with a factor in the loop of its kind and place.

        Without such a loop, as the innermost or outermost.
        """
        along = factor.place if isinstance(factor.place, str) else None
        for at, segment in enumerate(self.segments):
            for index, loop in enumerate(segment):
                if (loop.dimension, loop.along or at) == (factor.dimension, factor.place):
                    grown = Loop(loop.dimension, loop.size * factor.prime, loop.along)
                    yield self._changed(at, (*segment[:index], grown, *segment[index + 1 :]))
                    return
        at = self._segment_along(along) if along else int(factor.place)
        own, segment = Loop(factor.dimension, factor.prime, along), self.segments[at]
        yield self._changed(at, (own, *segment))
        if segment and along is None:
            yield self._changed(at, (*segment, own))

    def swapped(self) -> Iterator[_SegmentedNest]:
        """Yield nests with two adjacent temporal loops of a segment swapped."""
        for at, segment in enumerate(self.segments):
            for index in range(len(segment) - 1):
                inner, outer = segment[index : index + 2]
                if inner.along is None and outer.along is None and inner.dimension != outer.dimension:
                    yield self._changed(at, (*segment[:index], outer, inner, *segment[index + 2 :]))

    def _segment_along(self, along: str) -> int:
        return next((at for at, one in enumerate(self.segments) if any(loop.along == along for loop in one)), 0)

    def _changed(self, at: int, segment: tuple[Loop, ...]) -> _SegmentedNest:
        return _SegmentedNest((*self.segments[:at], segment, *self.segments[at + 1 :]), self.owners)


def neighbours(problem: LayerProblem, mapping: LayerMapping) -> Iterator[LayerMapping]:
    """Yield the mappings one step away that fit on the array; tiles may exceed memories, no loop is imperfect.

    Raises AcceleratorError if the machine has no array.
    """
    nest = _SegmentedNest.of(mapping, problem)
    factors = nest.factors()
    yield from (one.mapping() for one in nest.swapped())
    for factor in factors:
        for place in _places(problem, nest, factor):
            if place != factor.place:
                moved = nest.without(factor).with_factor(_Factor(factor.dimension, factor.prime, place))
                yield from (one.mapping() for one in moved if _has_room(problem, one))
    for left, right in combinations(factors, 2):
        if left.place != right.place and left.dimension != right.dimension:
            for one in _exchanged(problem, nest, left, right):
                yield one.mapping()


def _exchanged(problem: LayerProblem, nest: _SegmentedNest, left: _Factor, right: _Factor) -> Iterator[_SegmentedNest]:
    if right.place in _places(problem, nest, left) and left.place in _places(problem, nest, right):
        rest = nest.without(left).without(right)
        for one in rest.with_factor(_Factor(left.dimension, left.prime, right.place)):
            for both in one.with_factor(_Factor(right.dimension, right.prime, left.place)):
                if _has_room(problem, both):
                    yield both


def _places(problem: LayerProblem, nest: _SegmentedNest, factor: _Factor) -> list[int | str]:
    """Return every segment, and the array dimensions along which the loop may run."""
    array = array_of(problem.accelerator)
    along = [name for name in array.sizes if factor.dimension in loops_along(array, name)]
    return [*range(len(nest.segments)), *along]


def _has_room(problem: LayerProblem, nest: _SegmentedNest) -> bool:
    """Return True if no array dimension has more loop iterations than units."""
    loops = [loop for segment in nest.segments for loop in segment]
    sizes = array_of(problem.accelerator).sizes
    return all(prod(loop.size for loop in loops if loop.along == name) <= size for name, size in sizes.items())
