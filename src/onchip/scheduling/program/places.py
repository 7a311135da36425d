"""Where the maps and parameters of each stack lie: what the composition chooses, before any address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

_Place = TypeVar("_Place", str, str | None)
StackMap = tuple[int, str]
"""The number of a stack, and a tensor of the network that it reads or writes, by name."""


@dataclass(frozen=True, slots=True)
class StackPlaces:
    """Of `Places` what is of one stack: pairs of a tensor and a memory."""

    read: frozenset[tuple[str, str]] = frozenset()
    written: frozenset[tuple[str, str]] = frozenset()
    waiting: frozenset[tuple[str, str | None]] = frozenset()


@dataclass(frozen=True, slots=True)
class Places:
    """Memories by name; DRAM is None, and what is not listed is there.

    `read`: where a stack's operators read a tensor, else they stream it. `written`: where a stack's operator writes it.
    `waiting`: where bands of it lie that the stack's next tile but one, or a later one, reads again; if it is not
    listed they stay where they are.
    """

    read: Mapping[StackMap, str] = field(default_factory=dict)
    written: Mapping[StackMap, str] = field(default_factory=dict)
    waiting: Mapping[StackMap, str | None] = field(default_factory=dict)

    def by_stack(self) -> Mapping[int, StackPlaces]:
        """What is of each stack, by its number; a stack of which nothing is listed is not there."""
        read, written, waiting = _by_stack(self.read), _by_stack(self.written), _by_stack(self.waiting)
        return {
            stack: StackPlaces(
                frozenset(read.get(stack, ())), frozenset(written.get(stack, ())), frozenset(waiting.get(stack, ()))
            )
            for stack in {*read, *written, *waiting}
        }

    def with_map(self, tensor: str, writer: int | None, readers: frozenset[int], memory: str | None) -> Places:
        """The same, but that a tensor lies in one memory from its writer (None: DRAM has it) to these readers."""
        read = {key: where for key, where in self.read.items() if key[1] != tensor}
        written = {key: where for key, where in self.written.items() if key[1] != tensor}
        if memory is not None:
            read |= {(stack, tensor): memory for stack in readers}
            written |= {} if writer is None else {(writer, tensor): memory}
        return Places(read, written, self.waiting)

    def with_all(self, others: Places) -> Places:
        """These and others, of other stacks."""
        return Places(
            {**self.read, **others.read}, {**self.written, **others.written}, {**self.waiting, **others.waiting}
        )

    def renumbered(self, numbers: Mapping[int, int]) -> Places:
        """The same of some stacks, by their old numbers, under new ones."""

        def moved(places: Mapping[StackMap, _Place]) -> dict[StackMap, _Place]:
            return {(numbers[stack], name): one for (stack, name), one in places.items() if stack in numbers}

        return Places(moved(self.read), moved(self.written), moved(self.waiting))


def _by_stack(places: Mapping[StackMap, _Place]) -> Mapping[int, list[tuple[str, _Place]]]:
    found: dict[int, list[tuple[str, _Place]]] = {}
    for (stack, name), memory in places.items():
        found.setdefault(stack, []).append((name, memory))
    return found
