"""Feasibility check for operands that must be resident at once, each whole in one scratchpad."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

from onchip.answer.problem import Problem
from onchip.arch.memory import Memory, Operand
from onchip.ir.operator import Operator

Item = tuple[Operand, int]
"""An operand and its size in bytes."""
_MOST_EXACT = 16
_MOST_NODES = 100_000
_KINDS = tuple(kinds for count in range(1, 4) for kinds in combinations(Operand, count))


@dataclass(frozen=True, slots=True)
class _Bin:
    """A scratchpad with its fill: sizes are rounded up to the alignment, except the one with the most padding."""

    memory: Memory
    capacity_bytes: int
    taken_bytes: int = 0
    padding_bytes: int = 0

    def with_item(self, item: Item) -> _Bin | None:
        operand, size = item
        padding = -size % self.memory.alignment_bytes
        taken, most = self.taken_bytes + size + padding, max(self.padding_bytes, padding)
        if operand not in self.memory.holds or taken - most > self.capacity_bytes:
            return None
        return _Bin(self.memory, self.capacity_bytes, taken, most)


@dataclass(frozen=True, slots=True)
class SplitRoom:
    """The scratchpads of an accelerator with replaced capacities, `capacities_bytes`."""

    memories: tuple[Memory, ...]
    capacities_bytes: tuple[int, ...]

    @classmethod
    def of(cls, memories: tuple[Memory, ...], sixteenths: int = 16) -> SplitRoom:
        """Return the scratchpads with `sixteenths`/16 of their capacities."""
        return cls(memories, tuple(memory.capacity_bytes * sixteenths // 16 for memory in memories))

    def holding(self, kinds: Sequence[Operand]) -> int:
        """Return the bytes of all scratchpads that hold one of these operands."""
        sized = zip(self.memories, self.capacities_bytes, strict=True)
        return sum(size for memory, size in sized if set(kinds) & set(memory.holds))

    def greatest(self, operand: Operand) -> int:
        """Return the bytes of the largest scratchpad that holds the operand."""
        sized = zip(self.memories, self.capacities_bytes, strict=True)
        return max((size for memory, size in sized if operand in memory.holds), default=0)

    @property
    def limits(self) -> tuple[tuple[tuple[Operand, ...], int], ...]:
        """Return for each set of operand kinds the bytes that they may take together, in any distribution."""
        return tuple((kinds, self.holding(kinds)) for kinds in _KINDS)

    def can_pass_on(self) -> bool:
        """Return True if an operator's output may reside where the next operator reads its input."""
        return any({Operand.INPUT, Operand.OUTPUT} <= set(memory.holds) for memory in self.memories)

    def holds(self, items: Sequence[Item]) -> bool:
        """Return True if all items fit, each in one scratchpad (a bin packing).

        Exact up to `_MOST_EXACT` items; above it, first-fit decreasing decides.
        """
        ordered = sorted(items, key=lambda item: (-item[1], item[0]))
        bins = tuple(_Bin(*each) for each in zip(self.memories, self.capacities_bytes, strict=True))
        if any(sum(size for kind, size in items if kind in kinds) > limit for kinds, limit in self.limits):
            return False
        return _fill_greedily(ordered, list(bins)) or (len(items) <= _MOST_EXACT and _Packing(ordered).packs(0, bins))


def _fill_greedily(items: Sequence[Item], bins: list[_Bin]) -> bool:
    """Place each item into the first bin that takes it; return False if one fits nowhere."""
    for item in items:
        found = ((place, each.with_item(item)) for place, each in enumerate(bins))
        place, filled = next(((place, filled) for place, filled in found if filled is not None), (0, None))
        if filled is None:
            return False
        bins[place] = filled
    return True


@dataclass(slots=True)
class _Packing:
    """A depth-first bin packing, largest items first; equal bins and repeated fills are tried once."""

    items: list[Item]
    nodes: int = 0
    hopeless: set[tuple[int, tuple[tuple[int, int], ...]]] = field(default_factory=set)

    def packs(self, index: int, bins: tuple[_Bin, ...]) -> bool:
        if index == len(self.items):
            return True
        filling = index, tuple((one.taken_bytes, one.padding_bytes) for one in bins)
        if filling in self.hopeless:
            return False
        self.nodes += 1
        tried = set()
        for place, each in enumerate(bins):
            memory = each.memory
            alike = (memory.holds, memory.alignment_bytes, each.capacity_bytes, each.taken_bytes, each.padding_bytes)
            filled = each.with_item(self.items[index])
            if filled is None or alike in tried or self.nodes > _MOST_NODES:
                continue
            tried.add(alike)
            if self.packs(index + 1, (*bins[:place], filled, *bins[place + 1 :])):
                return True
        self.hopeless.add(filling)
        return False


def items_of(problem: Problem, operator: Operator) -> list[Item]:
    """Return an operator's operands with their sizes in the graph."""
    return [(problem.operand(operator, tensor), tensor.size_bytes) for tensor in problem.operands(operator)]
