"""Assignment of an operator's operands to scratchpads, each whole in one that may hold it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from onchip.model.lifetimes.bit_masks import bits
from onchip.model.lifetimes.indexed import IndexedProblem


def places_of_operands(
    indexed: IndexedProblem, operator: int, pinned_in: Sequence[Collection[int]] | None = None
) -> Mapping[int, int] | None:
    """Return a scratchpad number for each operand so that all fit at once, or None if there is no assignment.

    `pinned_in` lists the tensors already resident in each scratchpad; operands among them are not in the result.
    """
    return _Fitting(indexed, operator, pinned_in or ((),) * len(indexed.views)).places()


def operators_that_do_not_fit(indexed: IndexedProblem) -> tuple[int, ...]:
    """Return the operators whose operands do not fit together, in the given order."""
    if len(indexed.views) == 1:
        return tuple(o for o in range(indexed.operator_count) if not _fit_into_the_only_one(indexed, o))
    return tuple(o for o in range(indexed.operator_count) if places_of_operands(indexed, o) is None)


def _fit_into_the_only_one(indexed: IndexedProblem, operator: int) -> bool:
    """Return True if the only scratchpad may hold each operand, and all of them together."""
    inside, written = indexed.inside_others(operator), indexed.write_lists[operator]
    apart = [tensor for tensor in indexed.operand_lists[operator] if tensor not in inside]
    takes_each = all((indexed.written_in if one in written else indexed.read_in)[one] for one in apart)
    return takes_each and indexed.room.holds_all(apart, indexed.room.units_of_all(apart))


class _Fitting:
    """A bin packing search, most constrained and largest operands first; equal scratchpads are tried once.

    An operand that may lie inside another takes no space. A scratchpad's fill is its used units, and True if a tensor
    in it may end short.
    """

    def __init__(self, indexed: IndexedProblem, operator: int, pinned_in: Sequence[Collection[int]]) -> None:
        self._rooms = [view.room for view in indexed.views]
        self._alike = indexed.first_alike
        self._pinned_in = pinned_in
        written = indexed.write_lists[operator]
        inside = indexed.inside_others(operator)
        self._taken_in = {
            tensor: (indexed.written_in if tensor in written else indexed.read_in)[tensor]
            for tensor in indexed.operand_lists[operator]
            if tensor not in inside and not any(tensor in pinned for pinned in pinned_in)
        }
        self._tensors = sorted(self._taken_in, key=lambda t: (self._taken_in[t].bit_count(), -indexed.sizes_bytes[t]))
        self._hopeless: set[tuple[object, ...]] = set()

    def places(self) -> Mapping[int, int] | None:
        held = zip(self._rooms, self._pinned_in, strict=True)
        filled = tuple((room.units_of_all(pinned), room.ends_short(pinned)) for room, pinned in held)
        if not all(room.takes(*full) for room, full in zip(self._rooms, filled, strict=True)):
            return None
        found = self._place(0, filled)
        return None if found is None else dict(zip(self._tensors, found, strict=True))

    def _place(self, index: int, filled: tuple[tuple[int, bool], ...]) -> tuple[int, ...] | None:
        if index == len(self._tensors):
            return ()
        tensor = self._tensors[index]
        if (index, *filled) in self._hopeless:
            return None
        tried = []
        for memory in bits(self._taken_in[tensor]):
            room, alike = self._rooms[memory], (self._alike[memory], *filled[memory])
            units, ends_short = filled[memory]
            full = units + room.units[tensor], ends_short or room.ends_short((tensor,))
            if alike in tried or not room.takes(*full):
                continue
            tried.append(alike)
            rest = self._place(index + 1, (*filled[:memory], full, *filled[memory + 1 :]))
            if rest is not None:
                return (memory, *rest)
        self._hopeless.add((index, *filled))
        return None
