"""Places to begin with, where not every operator has room to stream all that it reads and writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

from onchip.arch.memory import MemoryLevel, Operand
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role
from onchip.scheduling.program.places import Places, StackMap

Choice = tuple[str | None, ...]
"""A memory for each tensor that an operator reads or writes; None: it is streamed."""


@dataclass(slots=True)
class FirstPlaces:
    """Initial places: all operands are streamed, except those of operators that fit only with some operands on chip.

    Each operator of `network` is a separate stack. Operands on chip for one operator leave before the next one runs, so
    that each operator has all memories.
    """

    network: Graph
    levels: Sequence[MemoryLevel]
    _left: dict[str, Iterator[Choice]] = field(default_factory=dict)
    _chosen: dict[str, Choice] = field(default_factory=dict)

    def after(self, operator: str) -> Places | None:
        """Other places for an operator that had no room, beginning with the fewest tensors; None if none is left."""
        if operator not in self._left:
            self._left[operator] = iter(self._choices(self.network.operator[operator]))
        choice = next(self._left[operator], None)
        if choice is None:
            return None
        self._chosen[operator] = choice
        return self._places()

    def _choices(self, operator: Operator) -> list[Choice]:
        """Return the choices of memories for an operator's operands, those with the fewest operands on chip first.

        Among equals, the memories farthest from the MACs come first: they tend to be the largest.
        """
        kinds = (Operand.WEIGHT if self._is_parameter(name) else Operand.INPUT for name in _read(operator))
        reads = [self._memories(kind) for kind in kinds]
        writes = [self._memories(Operand.OUTPUT)] * len(operator.outputs)
        choices = product(*((None, *memories) for memories in (*reads, *writes)))
        return sorted(choices, key=lambda one: sum(memory is not None for memory in one))[1:]

    def _places(self) -> Places:
        read: dict[StackMap, str] = {}
        written: dict[StackMap, str] = {}
        waiting: dict[StackMap, str | None] = {}
        for stack, operator in enumerate(self.network.operators):
            choice = self._chosen.get(operator.name, ())
            names = (*_read(operator), *operator.outputs)
            for at, (name, memory) in enumerate(zip(names, choice, strict=False)):
                if memory is not None:
                    (read if at < len(names) - len(operator.outputs) else written)[stack, name] = memory
                    waiting[stack, name] = None
        return Places(read, written, waiting)

    def _memories(self, operand: Operand) -> list[str]:
        return [level.memory.name for level in reversed(self.levels) if operand in level.memory.holds]

    def _is_parameter(self, name: str) -> bool:
        return self.network.tensor[name].role is Role.PARAMETER


def _read(operator: Operator) -> tuple[str, ...]:
    return tuple(dict.fromkeys(operator.reads))
