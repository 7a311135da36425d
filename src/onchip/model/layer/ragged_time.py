"""Cycles of a nest whose loops end short: how many run, and how long transfers wait at one port.

The nest is walked from the outermost loop inwards. What is left of each dimension says how often the loops inside a
place run: all but the last iterations of a loop leave the loops inside it all of theirs, so few cases differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from math import prod
from typing import TypeAlias

from onchip.answer.layer_mapping import LayerMapping
from onchip.ir.layer import LOOPS, RELEVANT, Layer
from onchip.model.layer.tiles import Boundary

Left: TypeAlias = tuple[int, ...]  # of each of LOOPS, iterations before its bound, at most those of the loops inside


@dataclass(frozen=True, slots=True)
class TileFilling:
    """Tiles of an operand whose memory spans the loops inside `cut`; a `needed` tile is in use in those inside that.

    With room for two the next tile may come all the time: then `needed` is None.
    """

    operand: str
    cut: int
    needed: int | None

    @classmethod
    def of(cls, boundary: Boundary) -> TileFilling:
        """Of the tiles that cross a boundary between memories."""
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
        """Whether these innermost loops take their last turn as a whole while no part of the tile is free."""
        return self.needed is None or self.needed >= loops


@dataclass(frozen=True, slots=True)
class PortMove:
    """A transfer at a port, `busy` each time; None fills the units, in every cycle. `times`: while the loops run."""

    filling: TileFilling | None
    busy: int
    times: int
    returns: bool


class RaggedTime:
    """Counts cycles and waiting of one mapping; `layer` is the one executed."""

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
        """By what single transfers exceed their windows, or all together the union of the windows."""
        moving = [one for one in moves if one.times]
        if not moving:
            return 0
        alone = sum(self._alone(one) for one in moving)
        return max(alone, sum(one.busy * one.times for one in moving) - self._covered(moving), 0)

    def _turns(self, loops: int, left: Left) -> tuple[int, Left, Left]:
        """Turns of the outermost of so many loops; what it leaves to those inside, before its last turn and in it."""
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
        """Whether the tile at the end of these loops is another one than at their beginning."""
        while loops > filling.cut:
            turns, _, left = self._turns(loops, left)
            if turns > 1 and self._matters(filling, loops - 1):
                return True
            loops -= 1
        return False

    def _is_replaced(self, filling: TileFilling, at: int, inside: Left) -> bool:
        """Whether a tile gives way to another when a loop moves on, after its iteration in which so much was left."""
        return at >= filling.cut and (self._matters(filling, at) or self._moves_on(filling, at, inside))

    def _matters(self, filling: TileFilling, at: int) -> bool:
        return self._loops[at].dimension in RELEVANT[filling.operand]

    def _window(self, filling: TileFilling, loops: int, left: Left) -> int:
        """Before a tile is replaced at the end of these loops."""
        if filling.needed is None:
            return self._since_last(filling, loops, left)
        while loops > filling.needed:
            _, _, left = self._turns(loops, left)
            loops -= 1
        return self.length(loops, left)

    def _since_last(self, filling: TileFilling, loops: int, left: Left) -> int:
        """Cycles from the last time that a tile is replaced within these loops, or from their beginning."""
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
        """Cycles in the window of at least one transfer; after the last of a tile's there is none."""
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
