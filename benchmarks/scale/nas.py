"""Cells as architecture search finds them, seeded: every node joins two operations on what came before it.

After the spaces of NASNet (Zoph et al. 2018) and DARTS (Liu et al. 2019): a cell reads the outputs of the two cells
before it, its nodes are put together at the end, and two cells of all halve the side and double the channels.
"""

from __future__ import annotations

import random
from typing import Final

from scale.wiring import Wiring

from onchip.ir.graph import Graph

OPERATIONS: Final = ("separable 3x3", "separable 5x5", "dilated", "pool", "skip")


def nas_cells(cells: int = 20, nodes: int = 5, seed: int = 0, channels: int = 44, side: int = 56) -> Graph:
    """Return `cells` cells with one random wiring for those that keep the side, and one for those that halve it."""
    return _Cells(random.Random(seed), nodes, channels, side).graph(cells, seed)


class _Cells:
    def __init__(self, chance: random.Random, nodes: int, channels: int, side: int) -> None:
        self._wiring = Wiring(element_bytes=1)
        self._channels, self._side = channels, side
        self._normal, self._reducing = (
            [(chance.randrange(2 + node), chance.choice(OPERATIONS)) for node in range(nodes) for _ in range(2)]
            for _ in range(2)
        )

    def graph(self, cells: int, seed: int) -> Graph:
        image = self._wiring.input("image", 3 * self._side**2)
        before = [self._add("Conv", (image,)), self._add("Conv", (image,))]
        for cell in range(cells):
            is_reducing = cell in {cells // 3, 2 * cells // 3}
            before = [before[1], self._cell(before, is_reducing=is_reducing)]
        self._wiring.add("AveragePool", (before[1],), self._channels)
        return self._wiring.graph(f"nas-{cells}-{seed}")

    def _cell(self, before: list[str], *, is_reducing: bool) -> str:
        there = [self._add("Conv", (self._add("Relu", (read,)),)) for read in before]
        inputs = len(there)
        if is_reducing:
            self._side, self._channels = self._side // 2, 2 * self._channels
        choices = self._reducing if is_reducing else self._normal
        for first, second in zip(choices[::2], choices[1::2], strict=True):
            joined = tuple(
                self._operation(there[place], kind, halves=is_reducing and place < inputs)
                for place, kind in (first, second)
            )
            there.append(self._add("Add", tuple(dict.fromkeys(joined))))
        nodes = tuple(there[inputs:])
        return self._wiring.add("Concat", nodes, len(nodes) * self._elements)

    def _operation(self, read: str, kind: str, *, halves: bool) -> str:
        if kind == "pool":
            return self._add("MaxPool", (read,))
        if kind == "skip":
            return self._add("Conv", (read,)) if halves else read
        for _ in range(1 if kind == "dilated" else 2):
            read = self._add("Conv", (self._add("DepthwiseConv", (self._relu(read),)),))
        return read

    def _relu(self, read: str) -> str:
        return self._wiring.add("Relu", (read,), self._wiring.elements(read))

    @property
    def _elements(self) -> int:
        return self._channels * self._side**2

    def _add(self, kind: str, reads: tuple[str, ...]) -> str:
        return self._wiring.add(kind, reads, self._elements)
