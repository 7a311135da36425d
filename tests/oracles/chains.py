"""The least that boundaries cost in places inside each other: every order of them, in every places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import inf

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]


def least_of_all_chains(shape: Sequence[int], operands: Sequence[Sequence[Table]]) -> float:
    """Costs are by point, flat; infinite where there is no room."""
    points = list(product(*map(range, shape)))
    found = 0.0 if not any(operands) else inf
    for order in _orders([len(own) for own in operands]):
        for places in _nested(points, len(order)):
            placed, cost = [0] * len(operands), 0.0
            for operand, place in zip(order, places, strict=True):
                cost += float(operands[operand][placed[operand]].reshape(shape)[place])
                placed[operand] += 1
            found = min(found, cost)
    return found


def _orders(left: Sequence[int]) -> Iterator[tuple[int, ...]]:
    if not any(left):
        yield ()
    for at, count in enumerate(left):
        if count:
            yield from ((at, *rest) for rest in _orders([*left[:at], count - 1, *left[at + 1 :]]))


def _nested(points: Sequence[tuple[int, ...]], count: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Each inside the next, or the same."""
    if not count:
        yield ()
        return
    for place in points:
        around = [one for one in points if all(low <= high for low, high in zip(place, one, strict=True))]
        yield from ((place, *rest) for rest in _nested(around, count - 1))
