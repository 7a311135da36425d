"""Loops that leave units idle at some position: their possible iterations, and the indices of each position.

The outermost loop of such a dimension is spatial, with f iterations. So all its T temporal iterations are executed, and
the iterations inside any position divide T. The last spatial iteration is needed: the other f - 1 parts of the units do
not reach all indices in T iterations. A position of t iterations reaches at most the index `units * T - 1 - (T - t)`,
since outer temporal loops have steps of at least t. If the position misses an index, that index is beyond the bound. Of
its T / t parts the first misses the fewest.
"""

from __future__ import annotations

from functools import lru_cache

from onchip.mapping.chains.starts import Units


@lru_cache(maxsize=1 << 10)
def idle_turns(bound: int, units: Units) -> tuple[int, ...]:
    """Return the possible temporal iterations of a loop that leaves units idle at some position (one unrolling)."""
    outermost = _least_outermost(units)
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


def _least_outermost(units: Units) -> int:
    """Return the minimum number of iterations of an outermost spatial loop."""
    return min((_least_part(size) for size in units.sizes or (units.most,) if size > 1), default=2)


def _least_part(number: int) -> int:
    return next(part for part in range(2, number + 1) if number % part == 0)
