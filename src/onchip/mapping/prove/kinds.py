"""Which mappings of one way are meant: loop by loop, whether units are idle in some place, and how many turns it takes.

Mappings are told apart by the first loop that has what the others before it have not, so each is of one kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final, TypeAlias

from onchip.mapping.chains.cells import Range
from onchip.mapping.chains.dimension import most_turns
from onchip.mapping.chains.starts import Units
from onchip.mapping.prove.idle_turns import idle_turns

MOST_APART: Final = 32
"""Numbers of turns of units that are idle in some place, told apart at once."""


class Idleness(Enum):
    """Whether any unit of a loop is idle in some place; if none is, the array meets units times turns there, or all."""

    UNKNOWN = auto()
    NONE = auto()
    SOME = auto()


@dataclass(frozen=True)
class LoopKind:
    """What is known of one loop; `turns` are executed, at least and at most, if mappings were told apart by that."""

    idle: Idleness = Idleness.UNKNOWN
    turns: Range | None = None

    def units(self, least: int, most: int, sizes: tuple[int, ...] | None) -> Units:
        """Return so many units of it, beside each other along the dimensions of the array."""
        return Units(least, most, sizes, self.idle is Idleness.NONE, self.turns, self.idle is Idleness.SOME)


Kinds: TypeAlias = tuple[LoopKind, ...]


def told_apart(kinds: Kinds, bounds: Sequence[int], units: Sequence[Units], *, further: bool) -> list[Kinds]:
    """Return all mappings of one way apart; nothing where they may not be.

    By the first loop that leaves units idle in some place, or none, then by how many turns are executed: each number by
    itself if units are idle, else the fewest and all others. With `further` these others, too, and all other loops.
    """
    unknown = [at for at, own in enumerate(kinds) if own.idle is Idleness.UNKNOWN and units[at].most > 1]
    known = [at for at, own in enumerate(kinds) if own.idle is not Idleness.UNKNOWN]
    if not known:
        return list(_by_idleness(kinds, bounds, units, unknown)) if unknown else []
    untold = [at for at in known if kinds[at].turns is None]
    several = [at for at in known if units[at].known_turns(bounds[at]) == 0]
    for loops in (untold, [at for at in several if units[at].any_is_idle], several if further else []):
        if loops:
            return list(_by_turns(kinds, bounds, units, loops))
    return list(_by_idleness(kinds, bounds, units, unknown)) if unknown and further else []


def _by_idleness(kinds: Kinds, bounds: Sequence[int], units: Sequence[Units], loops: Sequence[int]) -> Iterator[Kinds]:
    """Yield all mappings apart by the first of some loops that leaves units idle in some place, or none."""
    found = list(kinds)
    for at in loops:
        if idle_turns(bounds[at], replace(units[at], any_is_idle=True)):
            yield (*found[:at], LoopKind(Idleness.SOME), *kinds[at + 1 :])
        found[at] = LoopKind(Idleness.NONE)
    yield tuple(found)


def _by_turns(kinds: Kinds, bounds: Sequence[int], units: Sequence[Units], loops: Sequence[int]) -> Iterator[Kinds]:
    """Yield all mappings apart by the first of some loops that takes more turns than the fewest, or none."""
    possible = {at: possible_turns(bounds[at], units[at]) for at in loops}
    others = list(kinds)
    for at, own in possible.items():
        others[at] = replace(kinds[at], turns=(own[0], own[-1]))
    found = list(others)
    for at, (fewest, *more) in possible.items():
        apart = more[:MOST_APART] if units[at].any_is_idle else []
        rest = [(more[len(apart)], more[-1])] if more[len(apart) :] else []
        for turns in [*((one, one) for one in apart), *rest]:
            yield (*found[:at], replace(kinds[at], turns=turns), *others[at + 1 :])
        found[at] = replace(kinds[at], turns=(fewest, fewest))
    yield tuple(found)


def possible_turns(bound: int, units: Units) -> Sequence[int]:
    """Return how many turns a loop of which that is known may take, fewest first."""
    if units.any_is_idle:
        return [one for one in idle_turns(bound, replace(units, turns=None)) if units.may_take(one)]
    fewest, most = units.turns or (units.fewest_turns(bound), most_turns(bound, units))
    return range(fewest, most + 1)
