"""The ways in which units of a loop may stand among its loops in time, where it is known how many turns are executed.

Units stand in parts, and loops in time between these. An index is what all of them lead to, each with the product of
those inside as its step; loops in time that have no units between them count as one. So there are few arrangements that
are executed in so many turns, and of each it is known which indices a turn has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.ir.layer import Axis

MOST_ARRANGEMENTS: Final = 400
"""Of more nothing is said."""
MOST_INDICES: Final = 4096
"""Of a loop, with those that units would have beyond its bound."""

Beside: TypeAlias = tuple[tuple[int, bool], ...]
"""Units of a loop along each dimension of the array, and whether an instance serves them all."""
_Loops: TypeAlias = tuple[tuple[int, bool | None], ...]  # innermost first: in time None, else whether they are served


@dataclass(frozen=True)
class Arrangement:
    """`indices` are by turn, instance and unit of it; those from the bound on are none."""

    loops: _Loops
    bound: int
    indices: NDArray[np.int64]

    @cached_property
    def met(self) -> NDArray[np.int64]:
        """Return how many indices all units meet in the first turns, by number of turns from one on."""
        found: NDArray[np.int64] = (self.indices < self.bound).sum(axis=(1, 2)).cumsum()
        return found

    @property
    def _is_full(self) -> NDArray[np.bool_]:
        """By number of turns, but for all of them, whether no unit is idle in any."""
        inside = np.arange(1, len(self.met))
        found: NDArray[np.bool_] = self.met[:-1] == inside * self.indices[0].size
        return found

    def may_be(self, *, any_is_idle: bool) -> bool:
        """Return whether some unit may be idle in some place, or none.

        There are places right outside of each loop in time; and right outside of a part of it, if it may stand in two.
        Of a loop that leaves units idle all turns are executed.
        """
        ends = np.cumprod([1, *(size for size, is_served in self.loops if is_served is None)], dtype=np.int64)
        turns = len(self.met)
        if not any_is_idle:
            return bool(self._is_full[[int(end) - 1 for end in ends[1:] if end < turns]].all())
        inner_and_outer = zip(ends, [*ends[1:], turns], strict=True)
        inside = np.arange(1, turns)
        may_end = np.any([(inside % one == 0) & (two % inside == 0) for one, two in inner_and_outer], axis=0)
        return turns % int(ends[-1]) == 0 and bool((may_end & ~self._is_full).any())


@lru_cache(maxsize=1 << 9)
def arrangements_of(bound: int, turns: int, beside: Beside, *, any_is_idle: bool) -> Sequence[Arrangement] | None:
    """Return all that are executed in so many turns and leave units idle in some place, or in none.

    None where these are too many, or there are too many indices.
    """
    indices = turns * int(np.prod([size for size, _ in beside], dtype=np.int64))
    if indices > MOST_INDICES:
        return None
    found = list[Arrangement]()
    for number, loops in enumerate(_all_loops(beside, turns, indices)):
        if number == MOST_ARRANGEMENTS:
            return None
        own = _laid_out(loops, bound, turns)
        if own is not None and own.may_be(any_is_idle=any_is_idle):
            found.append(own)
    return found


def _all_loops(beside: Beside, turns: int, most: int) -> Iterator[_Loops]:
    """But for the loop in time outside all units: each loop in time is right inside some units."""
    if all(size == 1 for size, _ in beside):
        yield ()
        return
    for time in range(1, min(turns, most) + 1):
        inner: _Loops = ((time, None),) if time > 1 else ()
        for at, (size, is_served) in enumerate(beside):
            for part in (one for one in range(2, size + 1) if size % one == 0):
                rest = (*beside[:at], (size // part, is_served), *beside[at + 1 :])
                for outer in _all_loops(rest, turns // time, most // (time * part)):
                    yield (*inner, (part, is_served), *outer)


def _laid_out(loops: _Loops, bound: int, turns: int) -> Arrangement | None:
    """Return None where other than so many turns are executed."""
    step, begins, apart, served = 1, np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64)
    for size, is_served in loops:
        along = np.arange(size) * step
        if is_served is None:
            begins = (along[:, None] + begins).ravel()
        elif is_served:
            served = (along[:, None] + served).ravel()
        else:
            apart = (along[:, None] + apart).ravel()
        step *= size
    begins = (np.arange(-(-bound // step))[:, None] * step + begins).ravel()
    begins = begins[begins < bound]
    if len(begins) != turns:
        return None
    return Arrangement(loops, bound, begins[:, None, None] + apart[:, None] + served)


@lru_cache(maxsize=1 << 10)
def inputs_of_turns(
    axis: Axis, outputs: int, taps: int, turns: int, beside: Beside, *, any_is_idle: bool
) -> NDArray[np.int64] | None:
    """Return by arrangement in how many turns, of all taps and instances, so many inputs are read, from none on.

    Each row once; None where arrangements are too many.
    """
    arrangements = arrangements_of(outputs, turns, beside, any_is_idle=any_is_idle)
    if not arrangements:
        return None
    return np.unique([_inputs(one.indices, axis, outputs, taps) for one in arrangements], axis=0)


def _inputs(indices: NDArray[np.int64], axis: Axis, outputs: int, taps: int) -> NDArray[np.int64]:
    served = indices.shape[-1]
    found = np.zeros(served + 1, np.int64)
    for tap in range(taps):
        positions = indices * axis.stride + tap * axis.dilation - axis.padding
        is_read = (indices < outputs) & (positions >= 0) & (positions < axis.size)
        found += np.bincount(is_read.sum(axis=-1).ravel(), minlength=served + 1)
    return found
