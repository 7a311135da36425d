"""Enumeration of the interleavings of a loop's spatial and temporal parts with a given number of temporal iterations.

Spatial parts may be split, with temporal parts between them. The step of each part is the product of the sizes of the
parts inside it. Adjacent temporal parts count as one. Hence only few arrangements have a given number of temporal
iterations (turns), and each determines the loop indices of each turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from operator import mul
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.ir.layer import Axis

MOST_ARRANGEMENTS: Final = 400
"""Limit on the arrangements of a loop. Nothing is known of a loop with more."""
MOST_INDICES: Final = 4096
"""Limit on the indices of a loop, including those of units beyond its bound."""

Beside: TypeAlias = tuple[tuple[int, bool], ...]
"""Units of a loop along each dimension of the array, and True if one instance serves them all."""
_Loops: TypeAlias = tuple[tuple[int, bool | None], ...]  # innermost first; None: temporal, else `is_served`


@dataclass(frozen=True)
class Arrangement:
    """An interleaving of spatial and temporal loops.

    `indices` has the axes turn, instance, and unit within the instance. Entries of at least `bound` mean an idle unit.
    """

    loops: _Loops
    bound: int
    indices: NDArray[np.int64]

    @cached_property
    def met(self) -> NDArray[np.int64]:
        """Return the number of indices that all units execute in the first n turns, for n = 1, 2, ..."""
        found: NDArray[np.int64] = (self.indices < self.bound).sum(axis=(1, 2)).cumsum()
        return found

    @property
    def _is_full(self) -> NDArray[np.bool_]:
        """Return for n = 1, 2, ..., without the total, whether no unit is idle in the first n turns."""
        inside = np.arange(1, len(self.met))
        found: NDArray[np.bool_] = self.met[:-1] == inside * self.indices[0].size
        return found

    def may_be(self, *, any_is_idle: bool) -> bool:
        """Return True if the arrangement can leave a unit idle at some place (or none, if not `any_is_idle`).

        A place is right outside each temporal loop, or right outside a part of one that may be split. A loop that
        leaves units idle executes all turns.
        """
        turns, ends = len(self.met), self._ends
        if not any_is_idle:
            return bool(self._is_full[[end - 1 for end in ends[1:] if end < turns]].all())
        inside = (int(one) + 1 for one in np.nonzero(~self._is_full)[0])
        return any(turns % one == 0 and self.may_have_place_of(one) for one in inside)

    def may_have_place_of(self, inside: int) -> bool:
        """Return True if some place may have `inside` turns inside it."""
        turns, ends = len(self.met), self._ends
        is_between = any(inside % one == 0 and two % inside == 0 for one, two in pairwise(ends))
        return is_between or inside == turns or inside % ends[-1] == 0

    @cached_property
    def _ends(self) -> list[int]:
        """Return the number of turns inside all units, and right outside each temporal loop, ascending."""
        return list(accumulate((size for size, is_served in self.loops if is_served is None), mul, initial=1))


@lru_cache(maxsize=1 << 9)
def arrangements_of(bound: int, turns: int, beside: Beside, *, any_is_idle: bool) -> Sequence[Arrangement] | None:
    """Return all arrangements with `turns` turns that can leave units idle at some place (or none).

    Returns None if the arrangements or their indices exceed the limits.
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
    """Yield all loops but the outermost temporal one: each temporal loop is right inside a spatial one."""
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
    """Return the arrangement of these loops, or None if its number of turns is not `turns`."""
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


@lru_cache(maxsize=1 << 12)
def blocks_of_parts(
    axis: Axis, outputs: int, taps: int, turns: int, beside: Beside, inside: tuple[int, int], *, any_is_idle: bool
) -> Sequence[int] | None:
    """Return lower bounds on the lengths, in stored positions, of the parts of a place, the longest first.

    `inside` holds the output turns and the taps of a part; only the last part may have fewer. A part of an instance is
    the block from its first position to its last. Returns None if there are too many arrangements, or if none has such
    a place.
    """
    parts = _parts_of_place(outputs, turns, beside, inside[0], any_is_idle=any_is_idle)
    if not parts:
        return None
    tap = np.arange(0, taps, inside[1])
    from_tap = tap * axis.dilation - axis.padding
    to_tap = (np.minimum(tap + inside[1], taps) - 1) * axis.dilation - axis.padding + 1
    first, last = (np.array(parts)[..., side, None] * axis.stride for side in (0, 1))
    length = np.minimum(last + to_tap, axis.size) - np.maximum(first + from_tap, 0)
    each = np.sort(np.where(last < 0, 0, np.maximum(length, 0)).reshape(len(parts), -1), axis=1)
    return list(map(int, each.min(axis=0)[::-1]))


@lru_cache(maxsize=1 << 12)
def _parts_of_place(
    bound: int, turns: int, beside: Beside, inside: int, *, any_is_idle: bool
) -> Sequence[tuple[tuple[int, int], ...]] | None:
    """Return by arrangement the first and last index of each instance in each part of `inside` turns.

    The last index of an idle instance is -1. Returns None if there are too many arrangements.
    """
    arrangements = arrangements_of(bound, turns, beside, any_is_idle=any_is_idle)
    if arrangements is None:
        return None
    found = set[tuple[tuple[int, int], ...]]()
    for own in arrangements:
        if own.may_have_place_of(inside):
            starts = np.arange(0, turns, inside)
            last = np.maximum.reduceat(np.where(own.indices < bound, own.indices, -1).max(axis=2), starts)
            first = np.minimum.reduceat(own.indices.min(axis=2), starts)
            found.add(tuple(zip(first.ravel().tolist(), last.ravel().tolist(), strict=True)))
    return sorted(found)


@lru_cache(maxsize=1 << 10)
def inputs_of_turns(
    axis: Axis, outputs: int, taps: int, turns: int, beside: Beside, *, any_is_idle: bool
) -> NDArray[np.int64] | None:
    """Return by arrangement a histogram of the inputs read (0, 1, ...) in a turn, over all taps and instances.

    Rows are distinct. Returns None if there are too many arrangements, or none.
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
