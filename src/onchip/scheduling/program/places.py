"""Places of the feature maps and parameters of each stack: the input of the composition, before any address."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

_Place = TypeVar("_Place", str, str | None)
StackMap = tuple[int, str]
"""The number of a stack, and a tensor of the network that it reads or writes, by name."""
Place = tuple[int, str]
"""The number of a stack, and a memory by name."""


@dataclass(frozen=True, slots=True)
class StackPlaces:
    """The places of one group: pairs of a tensor and a memory, and the tensors that leave the chip behind the group."""

    read: frozenset[tuple[str, str]] = frozenset()
    written: frozenset[tuple[str, str]] = frozenset()
    waiting: frozenset[tuple[str, str | None]] = frozenset()
    leaving: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Places:
    """Places of tensors by stack, as memory names. None is DRAM, and unlisted tensors are in DRAM.

    `read`: the memory where a stack's operators read a tensor; unlisted tensors are streamed. `written`: the memory
    where a stack's operator writes the tensor. `waiting`: the memory for bands that the stack reads again in the next
    tile but one or later; unlisted bands stay in their memory. `leaving`: tensors that leave the chip after a stack
    although a later stack reads them; they are copied to DRAM if it has no copy.
    """

    read: Mapping[StackMap, str] = field(default_factory=dict)
    written: Mapping[StackMap, str] = field(default_factory=dict)
    waiting: Mapping[StackMap, str | None] = field(default_factory=dict)
    leaving: frozenset[StackMap] = frozenset()

    def by_stack(self) -> Mapping[int, StackPlaces]:
        """Return the places of each stack by its number; stacks without any entry are absent."""
        read, written, waiting = _by_stack(self.read), _by_stack(self.written), _by_stack(self.waiting)
        leaving: dict[int, list[str]] = {}
        for stack, name in self.leaving:
            leaving.setdefault(stack, []).append(name)
        return {
            stack: StackPlaces(
                frozenset(read.get(stack, ())),
                frozenset(written.get(stack, ())),
                frozenset(waiting.get(stack, ())),
                frozenset(leaving.get(stack, ())),
            )
            for stack in {*read, *written, *waiting, *leaving}
        }

    @classmethod
    def of_stacks(cls, stacks: Sequence[StackPlaces]) -> Places:
        """Return the places of these stacks, in their order."""
        numbered = list(enumerate(stacks))
        return cls(
            {(at, name): memory for at, one in numbered for name, memory in one.read},
            {(at, name): memory for at, one in numbered for name, memory in one.written},
            {(at, name): memory for at, one in numbered for name, memory in one.waiting},
            frozenset((at, name) for at, one in numbered for name in one.leaving),
        )

    def with_residency(
        self, tensor: str, writer: Place | None, readers: Mapping[int, str], leaving: Iterable[int]
    ) -> Places:
        """Return these places with other places for one tensor.

        `writer` is the stack that writes the tensor and the memory there (None: DRAM). `readers` maps the stacks that
        read it on chip to the memory. `leaving` are the stacks after which it leaves the chip.
        """
        read = {key: where for key, where in self.read.items() if key[1] != tensor}
        written = {key: where for key, where in self.written.items() if key[1] != tensor}
        read |= {(stack, tensor): memory for stack, memory in readers.items()}
        written |= {} if writer is None else {(writer[0], tensor): writer[1]}
        kept = (key for key in self.leaving if key[1] != tensor)
        return Places(read, written, self.waiting, frozenset((*kept, *((stack, tensor) for stack in leaving))))

    def with_written(self, tensor: str, writer: Place | None, leaving: Iterable[int]) -> Places:
        """Return these places with a tensor written elsewhere (None: DRAM).

        The places where it is read do not change.
        """
        written = {key: where for key, where in self.written.items() if key[1] != tensor}
        written |= {} if writer is None else {(writer[0], tensor): writer[1]}
        kept = (key for key in self.leaving if key[1] != tensor)
        return replace(self, written=written, leaving=frozenset((*kept, *((stack, tensor) for stack in leaving))))

    def with_map(self, tensor: str, writer: int | None, readers: Iterable[int], memory: str | None) -> Places:
        """Return these places with a tensor in one memory from its writer (None: DRAM has it) to these readers."""
        if memory is None:
            return self.with_residency(tensor, None, {}, ())
        return self.with_residency(
            tensor, None if writer is None else (writer, memory), dict.fromkeys(readers, memory), ()
        )

    def with_all(self, others: Places) -> Places:
        """These and others, of other stacks."""
        return Places(
            {**self.read, **others.read},
            {**self.written, **others.written},
            {**self.waiting, **others.waiting},
            self.leaving | others.leaving,
        )

    def renumbered(self, numbers: Mapping[int, int]) -> Places:
        """Return the places of the stacks whose old numbers are given, under their new numbers."""

        def moved(places: Mapping[StackMap, _Place]) -> dict[StackMap, _Place]:
            return {(numbers[stack], name): one for (stack, name), one in places.items() if stack in numbers}

        leaving = frozenset((numbers[stack], name) for stack, name in self.leaving if stack in numbers)
        return Places(moved(self.read), moved(self.written), moved(self.waiting), leaving)


def _by_stack(places: Mapping[StackMap, _Place]) -> Mapping[int, list[tuple[str, _Place]]]:
    found: dict[int, list[tuple[str, _Place]]] = {}
    for (stack, name), memory in places.items():
        found.setdefault(stack, []).append((name, memory))
    return found
