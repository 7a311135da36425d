"""Loops that leave units idle in some place: how many turns they take, and what a place of so many turns meets.

The outermost loop of such a dimension is over units, f of them: so all of its turns are executed, T, and those inside
any place divide them. It is needed to its last iteration: the other f - 1 parts of the units do not reach all indices
in T turns. The last index that a place of t turns leads to is `units * T - 1 - (T - t)` at most, as the loops in time
outside have steps of t and more; if some index of a place is missing, that one is beyond the bound. And of its T / t
parts the first one lacks fewest.
"""

from __future__ import annotations

from functools import lru_cache

from onchip.mapping.chains.starts import Units


@lru_cache(maxsize=1 << 10)
def idle_turns(bound: int, units: Units) -> tuple[int, ...]:
    """Return how many turns may be executed if units of a loop are idle in some place; one number of units."""
    outermost = _least_outermost(units)
    most = (bound - 1) * outermost // (units.most * (outermost - 1))
    return tuple(
        turns
        for turns in range(max(-(-bound // units.most), 2), most + 1)
        if _most_missing(bound, units, turns, turns // _least_part(turns)) > 0
    )


def has_idle_places(bound: int, units: Units) -> bool:
    """Return whether it is known how many turns a loop takes that leaves units idle."""
    return units.any_is_idle and units.known_turns(bound) > 0


@lru_cache(maxsize=1 << 12)
def idle_places(bound: int, units: Units) -> tuple[tuple[int, int, int], ...]:
    """Return the places of a loop that takes a known number of turns: turns inside, and fewest and most indices met."""
    executed = units.known_turns(bound)
    inside = [turns for turns in range(1, executed // 2 + 1) if executed % turns == 0]
    found = [(one, one * units.most - _most_missing(bound, units, executed, one), one * units.most) for one in inside]
    return (*found, (executed, bound, bound))


def _most_missing(bound: int, units: Units, executed: int, inside: int) -> int:
    """Indices that a place of so many turns lacks at most of what all units could do: of all its parts the fewest."""
    beyond = units.most * executed - (executed - inside) - bound
    return max(min(beyond, (units.most * executed - bound) * inside // executed), 0)


def _least_outermost(units: Units) -> int:
    """Return how many iterations an outermost loop over units has at least."""
    return min((_least_part(size) for size in units.sizes or (units.most,) if size > 1), default=2)


def _least_part(number: int) -> int:
    return next(part for part in range(2, number + 1) if number % part == 0)
