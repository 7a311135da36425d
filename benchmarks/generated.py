"""Seeded networks: NAS-like cells of random wiring, and hard random graphs."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor

LEAST_OPERATORS, MOST_OPERATORS = 200, 600
INPUT_BYTES = 3 * 224 * 224


@dataclass(frozen=True, slots=True)
class CellParameters:
    """A stack of `cells`, each of `blocks` that add two transformed states; every `reduce_every`-th halves the size."""

    seed: int
    cells: int
    blocks: int
    reduce_every: int
    state_bytes: int
    longest_chain: int


def nas_like(seed: int) -> tuple[Graph, CellParameters]:
    """Return the network of a seed; seeds are skipped forward until it has 200 to 600 operators."""
    chance = random.Random(seed)
    while True:
        parameters = CellParameters(
            seed,
            chance.randint(8, 20),
            chance.randint(4, 6),
            chance.choice((4, 6, 7)),
            chance.choice((100_352, 150_528, 200_704)),
            chance.randint(2, 4),
        )
        graph = _Wiring(chance, parameters).graph()
        if LEAST_OPERATORS <= len(graph.operators) <= MOST_OPERATORS:
            return graph, parameters


class _Wiring:
    def __init__(self, chance: random.Random, parameters: CellParameters) -> None:
        self._chance = chance
        self._parameters = parameters
        self._tensors = [Tensor("image", INPUT_BYTES, Role.INPUT)]
        self._operators: list[Operator] = []

    def graph(self) -> Graph:
        """Wire cell after cell; each reads the two cells before it."""
        size = self._parameters.state_bytes
        before = last = self._operator("Conv", ("image",), size)
        for cell in range(1, self._parameters.cells + 1):
            if cell % self._parameters.reduce_every == 0:
                size //= 2
            before, last = last, self._cell(before, last, size)
        self._operator("Pool", (last,), 1024)
        output = self._tensors[-1]
        self._tensors[-1] = Tensor(output.name, output.size_bytes, Role.OUTPUT)
        return Graph(f"generated{self._parameters.seed}", tuple(self._tensors), tuple(self._operators))

    def _cell(self, before: str, last: str, size_bytes: int) -> str:
        states = [self._operator("Conv", (name,), size_bytes) for name in (before, last)]
        read: set[str] = set()
        for _ in range(self._parameters.blocks):
            chosen = [self._chance.choice(states) for _ in range(2)]
            read.update(chosen)
            transformed = tuple(self._chain(name, size_bytes) for name in chosen)
            states.append(self._operator("Add", transformed, size_bytes))
        loose = tuple(name for name in states if name not in read)
        return self._operator("Concat", loose, size_bytes * len(loose))

    def _chain(self, name: str, size_bytes: int) -> str:
        for _ in range(self._chance.randint(0, self._parameters.longest_chain)):
            name = self._operator("Conv", (name,), size_bytes)
        return name

    def _operator(self, kind: str, inputs: tuple[str, ...], size_bytes: int) -> str:
        index = len(self._operators)
        name = f"t{index}"
        self._tensors.append(Tensor(name, size_bytes, Role.ACTIVATION))
        self._operators.append(Operator(f"op{index}", kind, inputs, (name,)))
        return name


HARD_WINDOW, HARD_READS, HARD_BYTES = 10, 3, 100


def hard_random(seed: int, operators: int = 100) -> Graph:
    """Return operators that each read 1 to 3 of the 10 most recent tensors of 1 to 100 bytes."""
    chance = random.Random(seed)
    sizes = {"in": chance.randint(1, HARD_BYTES)}
    found = []
    for index in range(operators):
        recent = list(sizes)[-HARD_WINDOW:]
        reads = chance.sample(recent, min(len(recent), chance.randint(1, HARD_READS)))
        sizes[f"t{index}"] = chance.randint(1, HARD_BYTES)
        found.append(Operator(f"op{index}", "Op", tuple(reads), (f"t{index}",)))
    return _graph(f"hard{seed}", sizes, found)


def _graph(name: str, sizes: Mapping[str, int], operators: Sequence[Operator]) -> Graph:
    """Return the graph; the first tensor is the network's input, and tensors without readers are its outputs."""
    read = {tensor for operator in operators for tensor in operator.inputs}
    roles = {tensor: Role.ACTIVATION if tensor in read else Role.OUTPUT for tensor in sizes}
    roles[next(iter(sizes))] = Role.INPUT
    return Graph(name, tuple(Tensor(one, size, roles[one]) for one, size in sizes.items()), tuple(operators))
