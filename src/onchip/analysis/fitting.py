"""Places for all operands of an operator at once, each wholly in one scratchpad that may take it."""

from __future__ import annotations

from collections.abc import Mapping

from onchip.analysis.indexed import IndexedProblem


def places_of_operands(indexed: IndexedProblem, operator: int) -> Mapping[int, int] | None:
    """Return a scratchpad (by number) for each operand of an operator so that all fit, None if there are none."""
    return _Fitting(indexed, operator).places()


def operators_that_do_not_fit(indexed: IndexedProblem) -> tuple[int, ...]:
    """Return the operators whose operands have no place together, in the given order."""
    return tuple(o for o in range(indexed.operator_count) if places_of_operands(indexed, o) is None)


class _Fitting:
    """Bin packing by search, the largest first; scratchpads in which it makes no difference are tried once."""

    def __init__(self, indexed: IndexedProblem, operator: int) -> None:
        self._indexed = indexed
        self._rooms = [view.room for view in indexed.views]
        written = indexed.writes[operator]
        self._taken_in = {
            tensor: (indexed.written_in if written >> tensor & 1 else indexed.read_in)[tensor]
            for tensor in indexed.operand_lists[operator]
        }
        # What few may take comes first, then the large.
        self._tensors = sorted(self._taken_in, key=lambda t: (self._taken_in[t].bit_count(), -indexed.sizes_bytes[t]))
        self._hopeless: set[tuple[object, ...]] = set()

    def places(self) -> Mapping[int, int] | None:
        found = self._place(0, (0,) * len(self._rooms), (0,) * len(self._rooms))
        return None if found is None else dict(zip(self._tensors, found, strict=True))

    def _place(self, index: int, masks: tuple[int, ...], used: tuple[int, ...]) -> tuple[int, ...] | None:
        if index == len(self._tensors):
            return ()
        tensor = self._tensors[index]
        states = [(room, used[m], masks[m] & room.may_end_short != 0) for m, room in enumerate(self._rooms)]
        key = (index, *((units, short) for _, units, short in states))
        if key in self._hopeless:
            return None
        tried = []
        for memory, room in enumerate(self._rooms):
            alike = (*states[memory], self._indexed.problem.memories[memory].holds)
            mask, units = masks[memory] | 1 << tensor, used[memory] + room.units[tensor]
            if not self._taken_in[tensor] >> memory & 1 or alike in tried or not room.holds(mask, units):
                continue
            tried.append(alike)
            rest = self._place(index + 1, _with(masks, memory, mask), _with(used, memory, units))
            if rest is not None:
                return (memory, *rest)
        self._hopeless.add(key)
        return None


def _with(values: tuple[int, ...], index: int, value: int) -> tuple[int, ...]:
    return (*values[:index], value, *values[index + 1 :])
