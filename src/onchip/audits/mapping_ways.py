"""Spatial mappings, with a lower bound for each: the traffic at the MACs, and one move of all other data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from onchip.answer.layer_mapping import loops_along
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Operand
from onchip.audits.mapping_terms import NestTiling, Terms
from onchip.audits.mapping_tiles import CHANGES, Sizes, Whole, divisors
from onchip.ir.layer import LOOPS, Layer

MOST_WAYS = 2_000_000
Way = tuple[tuple[int, ...], ...]
"""Spatial iterations by array dimension and loop, in the order of LOOPS."""


@dataclass(frozen=True, slots=True)
class Ways:
    """The spatial mappings of one layer; `sizes` is indexed by mapping, dimension, loop."""

    dimensions: tuple[str, ...]
    sizes: Whole
    turns: Whole

    @classmethod
    def of(cls, layer: Layer, array: ComputeArray) -> Ways | None:
        """Return all spatial mappings, or None for more than MOST_WAYS."""
        bounds = tuple(layer.bounds[loop] for loop in LOOPS)
        found: list[Way] = []
        for way in _listed(array, tuple(array.sizes), bounds):
            found.append(way)
            if len(found) > MOST_WAYS:
                return None
        sizes = np.array(found, np.int64)
        return cls(tuple(array.sizes), sizes, np.array(bounds) // sizes.prod(axis=1))

    def floors(self, terms: Terms) -> Whole:
        """Return a lower bound on the energy of each spatial mapping, in the terms' unit."""
        turns: Sizes = {loop: self.turns[:, at] for at, loop in enumerate(LOOPS)}
        nothing: Sizes = {loop: np.ones_like(size) for loop, size in turns.items()}
        outputs: Sizes = {loop: turns[loop] if loop in CHANGES["output"] else nothing[loop] for loop in LOOPS}
        beside = {
            (dimension, loop): self.sizes[:, at, number]
            for at, dimension in enumerate(self.dimensions)
            for number, loop in enumerate(LOOPS)
        }
        total = np.full(len(self.sizes), terms.mac_energy + terms.constant())
        for operand, chain in terms.chains.items():
            total = total + terms.boundary(operand, 0, NestTiling(nothing, turns, beside))
            for number in range(1, len(chain) + 1):
                least = terms.boundary(operand, number, NestTiling(turns, turns, beside), is_floor=True)
                if operand == Operand.OUTPUT:  # linear in the number of revisits: the minimum is at one end
                    other = terms.boundary(operand, number, NestTiling(outputs, turns, beside), is_floor=True)
                    least = np.minimum(least, other)
                total = total + least
        return total

    def loops_in_time(self) -> Whole:
        """Return the least cycles of the loops of each spatial mapping."""
        return np.asarray(self.turns.prod(axis=1))


def _listed(array: ComputeArray, names: tuple[str, ...], bounds: tuple[int, ...]) -> Iterator[Way]:
    if not names:
        yield ()
        return
    for along in _along(loops_along(array, names[0]), array.sizes[names[0]], bounds):
        left = tuple(bound // size for bound, size in zip(bounds, along, strict=True))
        for rest in _listed(array, names[1:], left):
            yield (along, *rest)


def _along(loops: tuple[str, ...], units: int, bounds: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    if not bounds:
        yield ()
        return
    loop = LOOPS[len(LOOPS) - len(bounds)]
    for size in divisors(bounds[0]) if loop in loops else [1]:
        if size <= units:
            for rest in _along(loops, units // size, bounds[1:]):
                yield (size, *rest)
