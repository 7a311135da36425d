"""Places for all operands of an operator at once, each wholly in one scratchpad that may take it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onchip.facts.indexed import IndexedProblem, bits


def places_of_operands(
    indexed: IndexedProblem, operator: int, pinned_in: Sequence[int] | None = None
) -> Mapping[int, int] | None:
    """Return a scratchpad (by number) for each operand of an operator so that all fit, None if there are none.

    `pinned_in` are, per scratchpad, the tensors (a mask) that are there already; of the operands among them
    nothing is said.
    """
    return _Fitting(indexed, operator, pinned_in or (0,) * len(indexed.views)).places()


def operators_that_do_not_fit(indexed: IndexedProblem) -> tuple[int, ...]:
    """Return the operators whose operands have no place together, in the given order."""
    return tuple(o for o in range(indexed.operator_count) if places_of_operands(indexed, o) is None)


class _Fitting:
    """Bin packing by search, what few may take first, then the large; scratchpads that are alike are tried once."""

    def __init__(self, indexed: IndexedProblem, operator: int, pinned_in: Sequence[int]) -> None:
        self._rooms = [view.room for view in indexed.views]
        self._holds = [memory.holds for memory in indexed.problem.memories]
        self._pinned_in = tuple(pinned_in)
        written = indexed.writes[operator]
        self._taken_in = {
            tensor: (indexed.written_in if written >> tensor & 1 else indexed.read_in)[tensor]
            for tensor in indexed.operand_lists[operator]
            if not any(mask >> tensor & 1 for mask in pinned_in)
        }
        self._tensors = sorted(self._taken_in, key=lambda t: (self._taken_in[t].bit_count(), -indexed.sizes_bytes[t]))
        self._hopeless: set[tuple[object, ...]] = set()

    def places(self) -> Mapping[int, int] | None:
        used = tuple(room.units_of(mask) for room, mask in zip(self._rooms, self._pinned_in, strict=True))
        held = zip(self._rooms, self._pinned_in, used, strict=True)
        if not all(room.holds(mask, units) for room, mask, units in held):
            return None
        found = self._place(0, self._pinned_in, used)
        return None if found is None else dict(zip(self._tensors, found, strict=True))

    def _place(self, index: int, masks: tuple[int, ...], used: tuple[int, ...]) -> tuple[int, ...] | None:
        if index == len(self._tensors):
            return ()
        tensor = self._tensors[index]
        filled = [(used[m], masks[m] & room.may_end_short != 0) for m, room in enumerate(self._rooms)]
        if (index, *filled) in self._hopeless:
            return None
        tried = []
        for memory in bits(self._taken_in[tensor]):
            room, alike = self._rooms[memory], (self._rooms[memory], self._holds[memory], *filled[memory])
            mask, units = masks[memory] | 1 << tensor, used[memory] + room.units[tensor]
            if alike in tried or not room.holds(mask, units):
                continue
            tried.append(alike)
            rest = self._place(index + 1, _with(masks, memory, mask), _with(used, memory, units))
            if rest is not None:
                return (memory, *rest)
        self._hopeless.add((index, *filled))
        return None


def _with(values: tuple[int, ...], index: int, value: int) -> tuple[int, ...]:
    return (*values[:index], value, *values[index + 1 :])
