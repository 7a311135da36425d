"""Between two operators of an order without spills: what is ready and what is resident, kept up to date by lists.

Without spills all of that follows from which operators have run, and these follow from which are ready: what has not
run is what is ready and all behind it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from itertools import chain
from typing import Final

from onchip.facts.indexed import IndexedProblem

NOTHING_HAS_RUN: Final = b"\0"
"""The key of the start: the list of what has run, which is empty, and the byte that says so."""
FEW: Final = 64
"""So many operators that have run are named in a key; more would take longer to sort than a bit for each."""


class Position:
    """Moves one operator on, or back, in the time that the operator's own operands and successors take."""

    def __init__(self, indexed: IndexedProblem) -> None:
        self._indexed = indexed
        self._room = indexed.room
        self._awaited = [len(befores) for befores in indexed.predecessor_lists]
        self._unread = [len(readers) for readers in indexed.reader_lists]
        self._has_run = bytearray(indexed.operator_count)
        self._ran: list[int] = []
        self.ready = [operator for operator, awaited in enumerate(self._awaited) if not awaited]
        self._ready_bits = bytearray(indexed.operator_count // 8 + 1)
        for operator in self.ready:
            self._flip(self._ready_bits, operator)
        self.resident: set[int] = set()
        self.used_units = 0

    def run(self, operator: int) -> None:
        """Run a ready operator; what is dead then leaves."""
        indexed, units, resident = self._indexed, self._room.units, self.resident
        self._has_run[operator] = 1
        self._ran.append(operator)
        for tensor in indexed.read_lists[operator]:
            self._unread[tensor] -= 1
        for tensor in indexed.operand_lists[operator]:
            if tensor not in resident and self._unread[tensor]:
                resident.add(tensor)
                self.used_units += units[tensor]
            elif tensor in resident and not self._unread[tensor]:
                resident.remove(tensor)
                self.used_units -= units[tensor]
        self._unready(operator)
        for successor in indexed.successors[operator]:
            self._awaited[successor] -= 1
            if not self._awaited[successor]:
                self._make_ready(successor)

    def take_back(self, operator: int) -> None:
        """Be where `run` of this operator, the last, has come from."""
        indexed, units, resident = self._indexed, self._room.units, self.resident
        self._has_run[self._ran.pop()] = 0
        for tensor in indexed.read_lists[operator]:
            self._unread[tensor] += 1
        for tensor in indexed.operand_lists[operator]:
            was_there = self._has_begun(tensor) and self._unread[tensor] > 0
            if was_there and tensor not in resident:
                resident.add(tensor)
                self.used_units += units[tensor]
            elif tensor in resident and not was_there:
                resident.remove(tensor)
                self.used_units -= units[tensor]
        for successor in indexed.successors[operator]:
            if not self._awaited[successor]:
                self._unready(successor)
            self._awaited[successor] += 1
        self._make_ready(operator)

    def need_bytes(self, operator: int) -> int:
        """Return the packed bytes resident while a ready operator runs."""
        operands = self._indexed.operand_lists[operator]
        units, resident = self._room.units, self.resident
        used = self.used_units
        for tensor in operands:
            if tensor not in resident:
                used += units[tensor]
        inside = self._inside_others(operator)
        used -= self._room.units_of_all(inside)
        if self._room.alignment_bytes == 1:
            return used
        apart = (tensor for tensor in chain(resident, operands) if tensor not in inside)
        return self._room.packed_bytes(apart, used)

    def _inside_others(self, operator: int) -> tuple[int, ...]:
        """Return what lies within other tensors while a ready operator overwrites what only it still reads."""
        dead: dict[int, tuple[int, ...]] = {}
        for one in self._indexed.overwritable_lists[operator]:
            if self._unread[one.tensor] == 1:
                dead.setdefault(one.group, one.inside)
        return tuple(chain.from_iterable(dead.values()))

    def exchange(self, operator: int) -> tuple[list[int], list[int]]:
        """Return which tensors are resident after a ready operator only, and which before it only."""
        come: list[int] = []
        gone: list[int] = []
        reads, unread, resident = self._indexed.read_lists[operator], self._unread, self.resident
        for tensor in self._indexed.operand_lists[operator]:
            dies = unread[tensor] == (tensor in reads)
            if tensor in resident:
                if dies:
                    gone.append(tensor)
            elif not dies:
                come.append(tensor)
        return come, gone

    def key_after(self, operator: int) -> bytes:
        """Return what tells apart which operators have run, this ready one among them.

        Those ready then are listed, four bytes each; or, where these are more, the few that have run, and a byte that
        says so; or, where either list is longer than that, there is a bit for every operator. So no two are alike.
        """
        new = [one for one in self._indexed.successors[operator] if self._awaited[one] == 1]
        most, ran, ready_then = len(self._ready_bits), len(self._ran) + 1, len(self.ready) - 1 + len(new)
        if ran < ready_then and ran <= FEW and 4 * ran + 1 < most:
            return array("I", sorted((*self._ran, operator))).tobytes() + b"\0"
        if 4 * ready_then < most:
            ready = self.ready.copy()
            del ready[bisect_left(ready, operator)]
            for one in new:
                insort(ready, one)
            return array("I", ready).tobytes()
        flags = self._ready_bits.copy()
        for one in (operator, *new):
            self._flip(flags, one)
        return bytes(flags)

    def _has_begun(self, tensor: int) -> bool:
        """Whether its operator, or one that reads it, has run."""
        producer = self._indexed.producer[tensor]
        has_been_written = producer >= 0 and self._has_run[producer] == 1
        return has_been_written or self._unread[tensor] < len(self._indexed.reader_lists[tensor])

    def _make_ready(self, operator: int) -> None:
        insort(self.ready, operator)
        self._flip(self._ready_bits, operator)

    def _unready(self, operator: int) -> None:
        del self.ready[bisect_left(self.ready, operator)]
        self._flip(self._ready_bits, operator)

    def _flip(self, flags: bytearray, operator: int) -> None:
        flags[operator >> 3] ^= 1 << (operator & 7)
