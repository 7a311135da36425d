"""Addresses of what is resident, from the top of each memory down: the bottom is left to workspaces."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from onchip.answer.program import Allocate, Compute, Free, Instruction
from onchip.arch.memory import Memory
from onchip.ir.graph import Graph
from onchip.solve.schedule.movements import Begin, Movement


class NoPlaceError(Exception):
    """What is to be resident at once does not fit a memory; says which."""

    def __init__(self, memory: str, tensor: str) -> None:
        super().__init__(f"no place for {tensor!r} in {memory!r}")
        self.memory = memory
        self.tensor = tensor


@dataclass(frozen=True, slots=True)
class Addressed:
    """`free_below`: for each step, by memory, the bytes below all that is resident while its operator runs."""

    instructions: tuple[Instruction, ...]
    free_below: tuple[Mapping[str, int], ...]


@dataclass(slots=True)
class _Occupied:
    """The residencies of one memory, half-open ranges of bytes, in order."""

    memory: Memory
    ranges: list[tuple[int, int]] = field(default_factory=list)
    of_tensors: dict[str, tuple[int, int]] = field(default_factory=dict)

    def take(self, tensor: str, size_bytes: int) -> int | None:
        """The address of the tightest gap among residents, at its upper end; else the highest below them all."""
        alignment, above, best = self.memory.alignment_bytes, self.memory.capacity_bytes, None
        for start, stop in reversed([(0, 0), *self.ranges]):
            offset = (above - size_bytes) // alignment * alignment
            if offset >= stop:
                is_bottom = stop == 0
                gap = (is_bottom, above - stop)
                if best is None or gap < best[0]:
                    best = gap, offset
            above = start
        if best is None:
            return None
        taken = best[1], best[1] + size_bytes
        insort(self.ranges, taken)
        self.of_tensors[tensor] = taken
        return best[1]

    def give_back(self, tensor: str) -> None:
        taken = self.of_tensors.pop(tensor)
        del self.ranges[bisect_left(self.ranges, taken)]

    @property
    def free_below(self) -> int:
        return self.ranges[0][0] if self.ranges else self.memory.capacity_bytes


def addressed(graph: Graph, memories: Sequence[Memory], movements: Iterable[Movement]) -> Addressed:
    """Give each residency an address, first come, first served; raises NoPlaceError."""
    occupied = {memory.name: _Occupied(memory) for memory in memories}
    instructions: list[Instruction] = []
    free_below: list[Mapping[str, int]] = []
    for one in movements:
        if isinstance(one, Begin):
            offset = occupied[one.memory].take(one.tensor, graph.tensor[one.tensor].size_bytes)
            if offset is None:
                raise NoPlaceError(one.memory, one.tensor)
            instructions.append(Allocate(one.tensor, one.memory, offset))
            continue
        if isinstance(one, Compute):
            free_below.append({name: memory.free_below for name, memory in occupied.items()})
        elif isinstance(one, Free):
            occupied[one.memory].give_back(one.tensor)
        instructions.append(one)
    return Addressed(tuple(instructions), tuple(free_below))
