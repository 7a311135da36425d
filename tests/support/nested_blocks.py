"""Networks of nested blocks, like U-Nets: an output of a level on the way down is read on the way up."""

from __future__ import annotations

import random
from collections.abc import Sequence

from onchip.answer.problem import Problem
from onchip.arch.memory import Memory
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.capacity.bounds import greatest_need


class NestedBlocks:
    """A U-Net with `levels` levels, whose cells share a random wiring; sizes are random within a level.

    Each level is `narrowing` times as wide as the one above it.
    """

    def __init__(self, seed: int, levels: int, nodes: int, widest: int = 64, narrowing: float = 2 / 3) -> None:
        self._seed, self._nodes = seed, nodes
        self._tensors: list[Tensor] = []
        self._operators: list[Operator] = []
        self._levels([max(2, int(widest * narrowing**level)) for level in range(levels + 1)])

    @property
    def graph(self) -> Graph:
        """Return the network."""
        return Graph("nested", tuple(self._tensors), tuple(self._operators))

    def _levels(self, sizes: Sequence[int]) -> None:
        hidden, skips = self._tensor(sizes[0], Role.INPUT), list[str]()
        for size in sizes[:-1]:
            skips.append(self._cell(hidden, size))
            hidden = self._add((skips[-1],), size)
        hidden = self._cell(hidden, sizes[-1])
        for size in reversed(sizes[:-1]):
            hidden = self._cell(self._add((hidden, skips.pop()), size), size)
        self._add((hidden,), 1, Role.OUTPUT)

    def _cell(self, read: str, size: int) -> str:
        """Add a cell whose first operator reads the input and whose last joins all unread maps.

        Any order in between is legal.
        """
        chance = random.Random(self._seed)
        made, first = [self._add((read,), size)], len(self._operators)
        for _ in range(self._nodes):
            one, other = (chance.choice(made) for _ in range(2))
            more = chance.randint(1, size), chance.randint(1, size)
            made.append(self._add((self._add((one,), more[0]), self._add((other,), more[1])), size))
        taken = {name for operator in self._operators[first:] for name in operator.inputs}
        return self._add([name for name in made if name not in taken], size)

    def _add(self, reads: Sequence[str], size: int, role: Role = Role.ACTIVATION) -> str:
        written = self._tensor(size, role)
        self._operators.append(Operator(f"o{len(self._operators)}", "Op", tuple(dict.fromkeys(reads)), (written,)))
        return written

    def _tensor(self, size: int, role: Role) -> str:
        self._tensors.append(Tensor.of_shape(f"t{len(self._tensors)}", (size,), 8, role))
        return self._tensors[-1].name


def in_room_for(graph: Graph, more: float) -> Problem:
    """Return the problem of a network with `more` times the capacity that its most demanding operator needs."""
    roomy = Problem(graph, (Memory("sram", 10**9),))
    need_bytes = greatest_need(roomy).need_bytes
    return Problem(graph, (Memory("sram", int(need_bytes * more)),))
