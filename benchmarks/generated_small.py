"""Seeded small graphs with budgets so tight that addresses matter: chains, branches that join, several outputs."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from onchip.answer.problem import Count, Order, Problem
from onchip.api.budgets import budgets_of, roomy_problem
from onchip.arch.memory import Memory
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.search.budget.limits import Limits

LEAST_OPERATORS, MOST_OPERATORS = 8, 20
GREATEST_BYTES = (4, 9, 9, 30, 100)
WINDOWS = (3, 5, 8, MOST_OPERATORS)
ALIGNMENTS = (1, 1, 1, 2, 4)
SHARES = (0.0, 0.0, 0.1, 0.25, 0.5)
"""Position of the capacity between the need of one operator (0) and the least peak without spills (1)."""


def small_problem(seed: int, order: Order) -> Problem:
    """Return the seed's graph at a capacity from M_R on, with the alignment of the seed."""
    graph, chance = small_graph(seed), random.Random(~seed)
    alignment = chance.choice(ALIGNMENTS)
    budgets = budgets_of(roomy_problem(graph, Count.ACTIVATIONS, alignment), Limits())
    least, most = budgets.required_bytes, budgets.min_peak_bytes
    capacity = least + round(((most or least) - least) * chance.choice(SHARES))
    return Problem(graph, (Memory("sram", capacity, alignment),), order=order)


def small_graph(seed: int) -> Graph:
    """Return 8 to 20 operators: odd seeds have branches that join, even ones read recent tensors."""
    chance = random.Random(seed)
    wiring = _Wiring(chance, chance.choice(GREATEST_BYTES))
    operators = chance.randint(LEAST_OPERATORS, MOST_OPERATORS)
    if seed % 2:
        wiring.branch(operators)
    else:
        wiring.read_recent(operators, chance.choice(WINDOWS), chance.choice((0.3, 0.6, 0.9)))
    return wiring.graph(f"small{seed}")


@dataclass
class _Wiring:
    chance: random.Random
    greatest_bytes: int
    sizes: dict[str, int] = field(default_factory=dict)
    made: list[Operator] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.inputs = [self._tensor(f"in{index}") for index in range(self.chance.randint(1, 2))]

    def read_recent(self, operators: int, window: int, joins: float) -> None:
        """Add operators that read one to three of the most recent tensors."""
        for _ in range(operators):
            recent = list(self.sizes)[-window:]
            reads = 1 + (self.chance.random() < joins) + (self.chance.random() < joins / 4)
            self._operator(self.chance.sample(recent, min(len(recent), reads)))

    def branch(self, operators: int) -> None:
        """Several ends go on in turn; now and then one is read again, or two or three of them are joined."""
        ends = list(self.inputs)
        while len(self.made) < operators:
            at = self.chance.randrange(len(ends))
            if self.chance.random() < 0.3 and len(ends) > 1:
                joined = self.chance.sample(ends, min(len(ends), self.chance.choice((2, 2, 3))))
                ends = [end for end in ends if end not in joined] + self._operator(joined)
            elif self.chance.random() < 0.4:
                ends += self._operator([ends[at]])
            else:
                ends[at : at + 1] = self._operator([ends[at]])

    def _operator(self, reads: list[str]) -> list[str]:
        index = len(self.made)
        outputs = [self._tensor(f"t{index}.{number}") for number in range(1 + (self.chance.random() < 0.15))]
        self.made.append(Operator(f"op{index}", "Op", tuple(reads), tuple(outputs)))
        return outputs

    def _tensor(self, name: str) -> str:
        self.sizes[name] = self.chance.randint(1, self.greatest_bytes)
        return name

    def graph(self, name: str) -> Graph:
        """Return the graph; tensors without readers are outputs, and some others, too."""
        read = {tensor for operator in self.made for tensor in operator.inputs}
        tensors = []
        for tensor, size in self.sizes.items():
            if tensor in self.inputs:
                role = Role.INPUT
            else:
                is_output = tensor not in read or self.chance.random() < 0.05
                role = Role.OUTPUT if is_output else Role.ACTIVATION
            if tensor in read or role is not Role.INPUT:
                tensors.append(Tensor(tensor, size, role))
        return Graph(name, tuple(tensors), tuple(self.made))
