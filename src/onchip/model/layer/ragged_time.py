"""Cycles of a nest with loops that end short, and stalls at one port.

The nest is walked from the outermost loop inwards. The remaining indices of each dimension determine the iterations of
the inner loops. All iterations of a loop but the last leave the inner loops whole, so few cases differ.
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
