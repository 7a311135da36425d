"""Which orders of the loops between two tiles make a difference: who is innermost, who is outermost."""

from __future__ import annotations

from typing import Final

from onchip.cost.layer.tables import Machine
from onchip.solve.mapping.exact.compiled import inlined
from onchip.solve.mapping.exact.room import DescentState
from onchip.solve.mapping.exact.tables import NO_CLASS, Space
from onchip.solve.mapping.exact.work import Work

NO_LOOPS: Final = 4
"""Stands for the class of loops that are not there."""


@inlined
def is_inner(w: Work, inner: int, tile: int, around: int) -> bool:
    """Whether loops of the class may be innermost between a tile and the one around it."""
    if tile == around or inner == NO_LOOPS:
        return bool(tile == around and inner == NO_LOOPS)
    return bool(w.part[inner, tile] != w.part[inner, around])


@inlined
def sole_run(space: Space, w: Work, room: DescentState, place: int) -> int:
    """The operand that the memory above a place holds alone, if its run begins right above that; else -1.

    Then the loops below need a part in the run's class that is not outermost: else the tile might span the run.
    """
    if place == w.fits.shape[0]:
        return -1
    inner, held = room.inner[place + 1], 0
    for operand in range(3):
        held += 1 if space.holds[operand, place] else 0
    return int(inner) if held == 1 and inner < NO_CLASS and space.holds[inner, place] else -1


@inlined
def is_outer(w: Work, inner: int, outer: int, tile: int, around: int) -> bool:
    """Whether they may be outermost as well, with `inner` innermost."""
    if inner == NO_LOOPS or tile - w.part[inner, tile] + w.part[inner, around] == around:
        return inner == outer
    return inner != outer and is_inner(w, outer, tile, around)


@inlined
def lengthens(space: Space, place: int, inner: int) -> bool:
    """Whether a run of the class right above a place may keep a tile there or below."""
    if inner >= NO_CLASS:
        return False
    found = False
    for level in range(place):
        found |= space.holds[inner, level]
    return bool(found)


@inlined
def narrows(space: Space, machine: Machine, w: Work, room: DescentState, place: int, outer: int) -> bool:
    """Whether loops of the class right below the next place leave a tile there, or above, a narrower window."""
    if outer >= NO_CLASS:
        return False
    for level in range(place, w.fits.shape[0]):
        if space.holds[outer, level] and not machine.double_buffered[level]:
            return True
        lower, upper = room.tile[level + 1], room.tile[level + 2]
        if lower - w.part[outer, lower] + w.part[outer, upper] != upper:
            return False
    return False
