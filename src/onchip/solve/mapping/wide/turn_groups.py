"""How many inputs along an axis an instance reads in a turn: of each way in which units may stand among loops in time.

Units of a loop stand in parts, and loops in time between these. An output's index is what all of them lead to, each
with the product of those inside as its step; loops in time that have no units between them count as one. So there are
few arrangements that are executed in so many turns, and of each it is known which outputs a turn has.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.ir.layer import Axis

MOST_ARRANGEMENTS: Final = 400
"""Of more nothing is said."""
MOST_OUTPUTS: Final = 4096
"""Of an axis, with those that units would have beyond them."""

Beside: TypeAlias = tuple[tuple[int, bool], ...]
"""Units of a loop along each dimension of the array, and whether an instance serves them all."""
_Loops: TypeAlias = tuple[tuple[int, bool | None], ...]  # innermost first: in time None, else whether they are served


@lru_cache(maxsize=1 << 10)
def groups_of_turns(axis: Axis, outputs: int, taps: int, turns: int, beside: Beside) -> NDArray[np.int64] | None:
    """Return by arrangement in how many turns, of all taps and instances, so many inputs are read, from none on.

    Each row once; None where arrangements are too many.
    """
    served = int(np.prod([size for size, is_served in beside if is_served], dtype=np.int64))
    units = int(np.prod([size for size, _ in beside], dtype=np.int64))
    if units * turns > MOST_OUTPUTS:
        return None
    found = set[tuple[int, ...]]()
    for number, loops in enumerate(_arrangements(beside, turns, units * turns)):
        if number == MOST_ARRANGEMENTS:
            return None
        numbers = _outputs_of_turns(loops, outputs, turns)
        if numbers is not None:
            found.add(tuple(_inputs(numbers, axis, outputs, taps, served).tolist()))
    return np.array(sorted(found), np.int64) if found else None


def _arrangements(beside: Beside, turns: int, most: int) -> Iterator[_Loops]:
    """All, but for the loop in time outside all units: a loop in time is right inside some units."""
    if all(size == 1 for size, _ in beside):
        yield ()
        return
    for time in (1, *range(2, turns + 1)):
        if time > turns or time > most:
            return
        for at, (size, is_served) in enumerate(beside):
            for part in (one for one in range(2, size + 1) if size % one == 0):
                rest = (*beside[:at], (size // part, is_served), *beside[at + 1 :])
                inner: _Loops = ((time, None),) if time > 1 else ()
                for outer in _arrangements(rest, turns // time, most // (time * part)):
                    yield (*inner, (part, is_served), *outer)


def _outputs_of_turns(loops: _Loops, outputs: int, turns: int) -> NDArray[np.int64] | None:
    """Return the outputs by turn, instance and unit of it; None where other than so many turns are executed."""
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
    begins = (np.arange(-(-outputs // step))[:, None] * step + begins).ravel()
    begins = begins[begins < outputs]
    return begins[:, None, None] + apart[:, None] + served if len(begins) == turns else None


def _inputs(numbers: NDArray[np.int64], axis: Axis, outputs: int, taps: int, served: int) -> NDArray[np.int64]:
    found = np.zeros(served + 1, np.int64)
    for tap in range(taps):
        positions = numbers * axis.stride + tap * axis.dilation - axis.padding
        is_read = (numbers < outputs) & (positions >= 0) & (positions < axis.size)
        found += np.bincount(is_read.sum(axis=-1).ravel(), minlength=served + 1)
    return found
