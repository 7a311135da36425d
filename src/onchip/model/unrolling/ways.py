"""Spatial unrollings on the array; if they do not divide a loop, the last iteration has fewer units."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.answer.layer_mapping import loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.ir.layer import LOOPS
from onchip.model.layer.limits import array_of

Ways: TypeAlias = NDArray[np.int64]  # axes: unrolling, dimension of the array, loop; values: units
MOST_OF_A_DIMENSION: Final = 20_000
MOST_WAYS: Final = 300_000


def all_ways(problem: LayerProblem) -> Ways | None:
    """Return every unrolling, or None above MOST_WAYS, or MOST_OF_A_DIMENSION along one dimension."""
    found = np.ones((1, 0, len(LOOPS)), np.int64)
    for own in _of_dimensions(problem):
        if own is None or len(found) * len(own) > MOST_WAYS:
            return None
        found = _joined(found, own)
    return found


def some_ways(problem: LayerProblem, most: int) -> Ways:
    """Return up to `most` unrollings with the fewest iterations, pruned after each dimension."""
    bounds = np.array(list(problem.layer.bounds.values()))
    found = np.ones((1, 0, len(LOOPS)), np.int64)
    for own in _of_dimensions(problem, most):
        if own is None:
            own = np.ones((1, len(LOOPS)), np.int64)
        turns = np.prod(np.ceil(bounds / own), axis=1)
        found = _joined(found, own[np.argsort(turns, kind="stable")[:most]])
        turns = np.prod(np.ceil(bounds / np.prod(found, axis=1)), axis=1)
        found = found[np.argsort(turns, kind="stable")[:most]]
    return found


def _joined(found: Ways, own: NDArray[np.int64]) -> Ways:
    first, second = np.repeat(found, len(own), axis=0), np.tile(own, (len(found), 1))
    return np.concatenate([first, second[:, None, :]], axis=1)


def _of_dimensions(problem: LayerProblem, most: int = 0) -> Iterator[NDArray[np.int64] | None]:
    """Yield for each dimension the loop sizes along it, or None for too many; with `most`, only useful sizes."""
    array, bounds = array_of(problem.accelerator), problem.layer.bounds
    for name, units in array.sizes.items():
        allowed = loops_along(array, name)
        sizes = [_sizes(bounds[loop], units, fewer=most > 0) if loop in allowed else [1] for loop in LOOPS]
        rows: list[tuple[int, ...]] = []
        for row in choices_within(sizes, units):
            rows.append(row)
            if len(rows) > MOST_OF_A_DIMENSION:
                break
        is_whole = len(rows) <= MOST_OF_A_DIMENSION or most > 0
        yield np.array(rows, np.int64) if is_whole else None


def _sizes(bound: int, units: int, *, fewer: bool) -> list[int]:
    every = range(1, min(bound, units) + 1)
    return sorted({-(-bound // -(-bound // size)) for size in every}, reverse=True) if fewer else list(every)


def choices_within(sizes: Sequence[Sequence[int]], units: int) -> Iterator[tuple[int, ...]]:
    """Yield every choice of one size from each sequence whose product is at most `units`."""
    if not sizes:
        yield ()
        return
    for size in sizes[0]:
        if size <= units:
            for rest in choices_within(sizes[1:], units // size):
                yield (size, *rest)
