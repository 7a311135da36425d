"""Every aligned address that a state of the oracle of schedules can have after what happens in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

from oracles.schedule_costs import Choice, Toy

NOWHERE = -1
"""The offset of what has no address yet."""
Place = tuple[int, int, int]
"""A tensor, a memory, an offset."""


class State(NamedTuple):
    """After `step` Computes: what is resident where, and which tensors DRAM has."""

    step: int
    resident: frozenset[Place]
    in_dram: frozenset[int]

    def memories_of(self, tensor: int) -> list[int]:
        return sorted(memory for one, memory, _ in self.resident if one == tensor)


@dataclass(frozen=True)
class Action:
    """`copy` from the first of `ends` to the second (DRAM's number is above all), `free`, or `compute`."""

    kind: str
    tensor: int = NOWHERE
    ends: tuple[int, int] = (NOWHERE, NOWHERE)
    choice: Choice | None = None
    homes: tuple[str | None, ...] = ()
    dead: frozenset[Place] = frozenset()
    """What came and left at once, as nobody reads it."""


class Addresses:
    """Of one network, all of whose choices are known."""

    def __init__(self, toy: Toy) -> None:
        self.toy, self.dram = toy, len(toy.memories)
        self.own_offsets = self._own_offsets()

    def of(self, before: State, action: Action, bare: State) -> Iterator[tuple[Action, State]]:
        """`bare` with each address that what came may have, beside all that is resident meanwhile."""
        if action.kind == "free":
            yield action, bare
            return
        came = [action.tensor] if action.kind == "copy" else []
        if action.kind == "compute":
            came = [one.tensor for one in self.toy.operators[action.tensor].writes]
        targets = dict(zip(came, self._targets(action), strict=True))
        new = [(tensor, memory) for tensor, memory in targets.items() if memory is not None and memory < self.dram]
        for offsets in product(*(self._tried(tensor, memory) for tensor, memory in new)):
            placed = [(*one, offset) for one, offset in zip(new, offsets, strict=True)]
            if all(self._is_free(one, [*before.resident, *placed[:at]]) for at, one in enumerate(placed)):
                together = [*before.resident, *placed]
                if action.choice is None or self._workspaces_fit(action.choice, together):
                    stay = {one[:2] for one in bare.resident}
                    after = frozenset(one for one in together if one[:2] in stay)
                    dead = frozenset(placed) - after
                    yield replace(action, dead=dead), State(bare.step, after, bare.in_dram)

    def _targets(self, action: Action) -> list[int | None]:
        if action.kind == "copy":
            return [action.ends[1]]
        names = [one.name for one in self.toy.memories]
        written = len(self.toy.operators[action.tensor].writes)
        return [None if home is None else names.index(home) for home in action.homes[-written:]]

    def _size(self, tensor: int) -> int:
        return self.toy.tensors[tensor].size_bytes

    def _offsets(self, memory: int, size: int) -> range:
        """The highest first: what is tried last is looked at first."""
        one = self.toy.memories[memory]
        return range(0, one.capacity - size + 1, one.alignment)[::-1]

    def _own_offsets(self) -> dict[Place, int]:
        """In a memory that has room for everything at once each tensor has an address of its own, above workspaces."""
        found: dict[Place, int] = {}
        for memory, one in enumerate(self.toy.memories):
            rooms = [choice.room[memory] for choices in self.toy.known.values() for choice in choices]
            end, own = _aligned(max(rooms, default=0), one.alignment), dict[Place, int]()
            for tensor, other in enumerate(self.toy.tensors):
                own[tensor, memory, NOWHERE] = end
                end += _aligned(other.size_bytes, one.alignment)
            found |= own if end <= one.capacity else {}
        return found

    def _tried(self, tensor: int, memory: int) -> Sequence[int]:
        own = self.own_offsets.get((tensor, memory, NOWHERE))
        return self._offsets(memory, self._size(tensor)) if own is None else (own,)

    def _is_free(self, placed: Place, others: list[Place]) -> bool:
        tensor, memory, start = placed
        stop = start + self._size(tensor)
        return not any(
            memory == where and start < other + self._size(name) and other < stop for name, where, other in others
        )

    def _workspaces_fit(self, choice: Choice, resident: list[Place]) -> bool:
        for memory, size in enumerate(choice.room):
            here = [(at, at + self._size(name)) for name, where, at in resident if where == memory]
            if size and not any(
                all(offset + size <= begin or end <= offset for begin, end in here)
                for offset in self._offsets(memory, size)
            ):
                return False
        return True


def _aligned(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment
