"""COSMA's four rivals at the strength that its paper gives them: places are found as the plan goes, and never mended.

Section V-A2 says: a linear allocator in the manner of TensorFlow Lite's, and a policy that replaces tensors each time
there is no room. Here each tensor takes the tightest gap when it comes (`simple_memory_arena.cc`); where none takes it,
`belady` lets the tensor go whose next use is farthest, again until one does, and `greedy` those neighbours that cost
least right then. Operands of the running operator that are in the way are written out and come back, the cheapest set
that helps. The paper does not say what its own do there, nor in which order a step's operands come: inputs first here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from onchip.answer.problem import Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.arch.memory import DRAM
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role

BELADY, GREEDY = "belady", "greedy"


def linear_plan(problem: Problem, policy: str) -> Plan:
    """Return the plan in the graph's order; each operator must fit alone."""
    rival = _Rival(problem, policy)
    for step, operator in enumerate(problem.graph.operators):
        rival.run(step, operator)
    return Plan(problem.memories, tuple(rival.instructions))


@dataclass(slots=True)
class _Rival:
    """The state of a plan under construction.

    `places` are offsets of residents, `copied` the tensors with a copy in DRAM, `uses` the steps to come.
    """

    problem: Problem
    policy: str
    places: dict[str, int] = field(default_factory=dict)
    copied: set[str] = field(default_factory=set)
    uses: dict[str, list[int]] = field(default_factory=dict)
    instructions: list[Instruction] = field(default_factory=list)

    def __post_init__(self) -> None:
        for tensor in self.problem.counted_tensors:
            self.uses[tensor.name] = []
            if tensor.role in (Role.INPUT, Role.PARAMETER):
                self.copied.add(tensor.name)
        for step, operator in enumerate(self.problem.graph.operators):
            for tensor in self.problem.operands(operator):
                self.uses[tensor.name].append(step)

    def run(self, step: int, operator: Operator) -> None:
        """Load inputs, allocate outputs, run the operator, and free tensors that are not needed again."""
        operands = [tensor.name for tensor in self.problem.operands(operator)]
        for name in (*(one for one in operands if one not in operator.outputs), *operator.outputs):
            if name not in self.places:
                self._place(name, operands, is_read=name not in operator.outputs)
        self.instructions.append(Compute(operator.name))
        for name in operands:
            self.uses[name].remove(step)
            if name in operator.outputs and self.problem.graph.tensor[name].role is Role.OUTPUT:
                self.instructions.append(Copy(name, self._memory, DRAM))
                self.copied.add(name)
            if not self.uses[name]:
                self._free(name)

    @property
    def _memory(self) -> str:
        return self.problem.memories[0].name

    def _size(self, name: str) -> int:
        return self.problem.graph.tensor[name].size_bytes

    def _place(self, name: str, operands: Sequence[str], *, is_read: bool) -> None:
        """Place a tensor in the tightest gap; make one by replacement, or by moving operands, if there is none."""
        offset = self._tightest(self._size(name))
        if offset is None:
            self._replace(self._size(name), operands)
            offset = self._tightest(self._size(name))
        moved: tuple[str, ...] = ()
        if offset is None:
            moved, offset = self._made_way(name, operands)
        self._allocate(name, offset, is_read=is_read)
        for other in moved:
            again = self._tightest(self._size(other))
            if again is None:
                raise AssertionError(f"{other} has no place any more")
            self._allocate(other, again, is_read=True)

    def _allocate(self, name: str, offset: int, *, is_read: bool) -> None:
        self.places[name] = offset
        self.instructions.append(Allocate(name, self._memory, offset))
        if is_read:
            self.instructions.append(Copy(name, DRAM, self._memory))

    def _gaps(self, without: Iterable[str] = ()) -> Iterator[tuple[int, int]]:
        """Free stretches between residents, from the bottom: offset and bytes."""
        top, left_out = 0, set(without)
        for name, offset in sorted(self.places.items(), key=lambda one: one[1]):
            if name not in left_out:
                if offset > top:
                    yield top, offset - top
                top = offset + self._size(name)
        yield top, self.problem.memories[0].capacity_bytes - top

    def _tightest(self, size: int) -> int | None:
        fitting = [(room, offset) for offset, room in self._gaps() if room >= size]
        return min(fitting)[1] if fitting else None

    def _replace(self, size: int, operands: Sequence[str]) -> None:
        """Evict other tensors until there is a gap, or no other tensor is left."""
        others = [name for name in self.places if name not in operands]
        if self.policy == GREEDY:
            for name in self._cheapest_neighbours(size, others):
                self._evict(name)
            return
        for name in sorted(others, key=lambda one: (-self.uses[one][0], -self._size(one))):
            if self._tightest(size) is not None:
                return
            self._evict(name)

    def _cheapest_neighbours(self, size: int, others: Sequence[str]) -> list[str]:
        """Return the cheapest run of adjacent residents whose eviction makes a gap; all if no run suffices."""
        rows = sorted(self.places, key=lambda one: self.places[one])
        best: tuple[int, list[str]] | None = None
        for first in range(len(rows)):
            for last in range(first, len(rows)):
                leaving = rows[first : last + 1]
                if any(name not in others for name in leaving):
                    break
                if any(room >= size for _, room in self._gaps(leaving)):
                    cost = sum(map(self._cost, leaving))
                    if best is None or cost < best[0]:
                        best = cost, leaving
                    break
        return list(others) if best is None else best[1]

    def _cost(self, name: str) -> int:
        """Return the bytes of an eviction now: a load later, and a store unless DRAM has a copy."""
        return self._size(name) * (1 if name in self.copied else 2)

    def _made_way(self, name: str, operands: Sequence[str]) -> tuple[tuple[str, ...], int]:
        """Return the cheapest operands that make a gap when they are placed again after the tensor; evict them."""
        here = [one for one in operands if one in self.places]
        every = [some for count in range(1, len(here) + 1) for some in combinations(here, count)]
        for some in sorted(every, key=lambda chosen: sum(map(self._cost, chosen))):
            ordered = tuple(sorted(some, key=lambda one: -self._size(one)))
            offset = self._offset_beside(name, ordered)
            if offset is not None:
                for one in ordered:
                    self._evict(one)
                return ordered, offset
        raise AssertionError(f"{name} has no place, whoever makes way")

    def _offset_beside(self, name: str, moved: Sequence[str]) -> int | None:
        """Return the tensor's offset if it is placed first, then the moved operands, the largest first."""
        before = dict(self.places)
        for one in moved:
            del self.places[one]
        found = []
        for one in (name, *moved):
            offset = self._tightest(self._size(one))
            found.append(offset)
            if offset is None:
                break
            self.places[one] = offset
        self.places = before
        return None if None in found else found[0]

    def _evict(self, name: str) -> None:
        if name not in self.copied:
            self.instructions.append(Copy(name, self._memory, DRAM))
            self.copied.add(name)
        self._free(name)

    def _free(self, name: str) -> None:
        del self.places[name]
        self.instructions.append(Free(name, self._memory))
