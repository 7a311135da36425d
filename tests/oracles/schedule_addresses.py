"""The aligned addresses that a state of the oracle of schedules may have after an action."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import gcd
from typing import NamedTuple

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.schedule import Homes
from onchip.ir.layer import Layer
from oracles.schedule_costs import Choice, Toy

NOWHERE = -1
"""The offset of a tensor without an address."""
Place = tuple[int, int, int]
"""A tensor, a memory, an offset."""
Fixed = tuple[tuple[Layer, Homes], LayerMapping]


class State(NamedTuple):
    """The executed operators, the residencies, and the tensors with a copy in DRAM.

    `fixed` are the mappings that later tiles of the stack share, by nest and homes.
    """

    done: frozenset[int]
    resident: frozenset[Place]
    in_dram: frozenset[int]
    fixed: frozenset[Fixed] = frozenset()

    def memories_of(self, tensor: int) -> list[int]:
        return sorted(memory for one, memory, _ in self.resident if one == tensor)


@dataclass(frozen=True)
class Action:
    """An action: `copy` from the first of `ends` to the second (DRAM has the greatest number), `free`, or `compute`."""

    kind: str
    tensor: int = NOWHERE
    ends: tuple[int, int] = (NOWHERE, NOWHERE)
    choice: Choice | None = None
    homes: tuple[str | None, ...] = ()
    dead: frozenset[Place] = frozenset()
    """Residencies that begin and end in the action, as nothing reads them."""
    spaces: tuple[int, ...] | None = None
    """Offsets of workspaces by memory, if they matter."""


class Addresses:
    """The addresses of one network, all of whose choices are known."""

    def __init__(self, toy: Toy) -> None:
        self.toy, self.dram = toy, len(toy.memories)
        self.steps = self._steps()
        self.own_offsets = self._own_offsets()

    def of(self, before: State, action: Action, bare: State) -> Iterator[tuple[Action, State]]:
        """Yield `bare` with each possible address of new residencies next to those that exist meanwhile."""
        if action.kind == "free":
            gone = (action.tensor, action.ends[0], self._at(before, action))
            yield action, bare._replace(resident=before.resident - {gone})
            return
        came = [action.tensor] if action.kind == "copy" else []
        if action.kind == "compute":
            came = [one for operand in self.toy.operators[action.tensor].writes for one in operand.tensors]
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
                    yield replace(action, dead=dead), bare._replace(resident=after)

    def _at(self, state: State, action: Action) -> int:
        return next(at for tensor, memory, at in state.resident if (tensor, memory) == (action.tensor, action.ends[0]))

    def _targets(self, action: Action) -> list[int | None]:
        if action.kind == "copy":
            return [action.ends[1]]
        names = [one.name for one in self.toy.memories]
        written = self.toy.operators[action.tensor].writes
        return [
            None if home is None else names.index(home)
            for home, operand in zip(action.homes[-len(written) :], written, strict=True)
            for _ in operand.tensors
        ]

    def _size(self, tensor: int) -> int:
        return self.toy.tensors[tensor].size_bytes

    def _offsets(self, memory: int, size: int) -> range:
        """Return the offsets in descending order, as the search visits the last one first."""
        return range(0, self.toy.memories[memory].capacity - size + 1, self.steps[memory])[::-1]

    def _steps(self) -> list[int]:
        """Return, by memory, the common divisor of all sizes in it if it is aligned, else the alignment.

        Offsets may be multiples of it: offsets rounded down to its multiples cause no overlaps and no higher ends.
        """
        found = []
        for memory, one in enumerate(self.toy.memories):
            rooms = [choice.room[memory] for choices in self.toy.known.values() for choice in choices]
            common = gcd(*(tensor.size_bytes for tensor in self.toy.tensors), *rooms)
            found.append(common if common and common % one.alignment == 0 else one.alignment)
        return found

    def _own_offsets(self) -> dict[Place, int]:
        """Return a separate address for each tensor, above the workspaces, in memories with capacity for everything."""
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
        return next(self.workspaces(choice, resident), None) is not None

    def workspaces(self, choice: Choice, resident: Iterable[Place]) -> Iterator[tuple[int, ...]]:
        """Yield all offsets, by memory, of a Compute's workspaces next to the residents (0 for an empty workspace).

        In a memory with a separate address for each tensor, only the offset below all of them is tried.
        """
        found = []
        for memory, size in enumerate(choice.room):
            here = [(at, at + self._size(name)) for name, where, at in resident if where == memory]
            is_roomy = (0, memory, NOWHERE) in self.own_offsets
            tried = (0,) if is_roomy or not size else self._offsets(memory, size)
            fits = [at for at in tried if all(at + size <= begin or end <= at for begin, end in here)]
            found.append(fits if size else [0])
        yield from product(*found)


def _aligned(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment
