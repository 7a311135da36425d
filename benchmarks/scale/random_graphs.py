"""Seeded random graphs of any size: windowed (reads of recent tensors), layered, and cells of architecture search."""

from __future__ import annotations

import random
from typing import Final

from scale.wiring import Wiring

from onchip.ir.graph import Graph


def windowed(operators: int, seed: int = 0, window: int = 10, reads: int = 3, most_bytes: int = 100_000) -> Graph:
    """Return operators that each read 1 to `reads` of the `window` most recent tensors of 1 to `most_bytes` bytes."""
    chance, wiring = random.Random(seed), Wiring(element_bytes=1)
    recent = [wiring.input("in", chance.randint(1, most_bytes))]
    for number in range(operators):
        read = chance.sample(recent, min(len(recent), chance.randint(1, reads)))
        recent.append(wiring.add("Op", tuple(read), chance.randint(1, most_bytes), f"t{number}"))
        del recent[:-window]
    return wiring.graph(f"windowed-{operators}-{seed}")


def layered(layers: int, width: int, seed: int = 0, reads: int = 2, most_bytes: int = 100_000) -> Graph:
    """Return layers of operators that each read 1 to `reads` of the layer before, and now and then an older one."""
    chance, wiring = random.Random(seed), Wiring(element_bytes=1)
    before = [wiring.input("in", chance.randint(1, most_bytes))]
    old = list(before)
    for layer in range(layers):
        here = []
        for place in range(width):
            read = chance.sample(before, min(len(before), chance.randint(1, reads)))
            if chance.random() < 1 / width:
                read.append(chance.choice(old))
            size = chance.randint(1, most_bytes)
            here.append(wiring.add("Op", tuple(dict.fromkeys(read)), size, f"t{layer}_{place}"))
        old.append(chance.choice(here))
        del old[:-4]
        before = here
    return wiring.graph(f"layered-{layers}x{width}-{seed}")


OPERATIONS: Final = ("separable 3x3", "separable 5x5", "dilated", "pool", "skip")


def nas_cells(cells: int = 20, nodes: int = 5, seed: int = 0, channels: int = 44, side: int = 56) -> Graph:
    """Return cells as NASNet (Zoph et al. 2018) and DARTS (Liu et al. 2019) find them; each node joins two operations.

    A cell reads the outputs of the two cells before it. All cells that keep the side have one random wiring, the two
    cells that halve it and double the channels another.
    """
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
