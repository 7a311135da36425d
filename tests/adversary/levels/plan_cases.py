"""Tiny networks for one scratchpad: their generator, their files, and their form for the oracles."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TypeAlias

from adversary.frame import Facts, Json
from oracles.byte_replay import Network
from oracles.one_plan import Question, packed_bytes, peak_of, required_bytes

Names: TypeAlias = dict[str, str]
ROLES_FROM_OUTSIDE = ("input", "parameter")
BITS = (1, 3, 8, 8, 8, 16)
MOST_GAPS = 8


def network_facts(chance: random.Random) -> Facts:
    """Return `tensors` [elements, bits, role] and `operators` [inputs, parameters, outputs], by number.

    The networks have operators of one tensor, tensors read twice by one operator, several outputs, outputs with and
    without readers, and disconnected parts.
    """
    greatest = chance.choice((1, 2, 3, 5, 9, 13))
    tensors = [_tensor(chance, greatest, "input") for _ in range(chance.randint(1, 3))]
    inputs, parameters = list(range(len(tensors))), list[int]()
    if chance.random() < 0.4:
        parameters.append(len(tensors))
        tensors.append(_tensor(chance, greatest, "parameter"))
    readable, operators = inputs[:], []
    gaps = MOST_GAPS
    for _ in range(chance.randint(1, chance.choice((3, 4, 5, 5, 6)))):
        recent = readable[-chance.randint(1, 4) :] if chance.random() < 0.7 else readable
        reads = [chance.choice(recent) for _ in range(chance.choice((0, 1, 1, 2, 2, 2, 3)))]
        gaps -= len(set(reads))
        weights = parameters if chance.random() < 0.4 else []
        writes = list(range(len(tensors), len(tensors) + chance.choice((1, 1, 1, 1, 2, 3))))
        tensors += [_tensor(chance, greatest, "activation") for _ in writes]
        readable += writes
        operators.append([reads, weights, writes])
        if gaps < 0:
            break
    read = {tensor for inputs_, _, _ in operators for tensor in inputs_}
    for number, tensor in enumerate(tensors):
        if tensor[2] == "activation" and chance.random() < (0.15 if number in read else 0.8):
            tensor[2] = "output"
    return {"tensors": tensors, "operators": operators}


def crowd_facts(chance: random.Random) -> Facts:
    """Return a network like `network_facts` with many waiting tensors of equal size and cost, each with another reader.

    The readers stand in a chain of operators with varying needs, or outside it, and anywhere in the file. So only the
    best order, and nothing in the file, determines which tensors should be evicted.
    """
    size = chance.randint(1, 4)
    tensors: list[list[Json]] = [[1, 8, "input"]]

    def written(elements: int) -> int:
        tensors.append([elements, 8, "activation"])
        return len(tensors) - 1

    alike = [written(size) for _ in range(chance.choice((2, 2, 2, 3)))]
    end, length = written(1), chance.randint(2, 4)
    operators: list[list[list[int]]] = [[[0], [], [*alike, end]]]
    readers = [length, *(chance.randint(0, length) for _ in alike[1:])]
    for place in range(length):
        reads = [end, *(tensor for tensor, reader in zip(alike, readers, strict=True) if reader == place)]
        end = written(chance.choice((1, 1, size, size + 1, 2 * size + 1)))
        operators.append([reads, [], [end]])
    ends = [end]
    for tensor, reader in zip(alike, readers, strict=True):
        if reader == length:
            ends.append(written(chance.choice((1, 1, size, size + 1, 2 * size + 1))))
            operators.insert(chance.randint(1, len(operators)), [[tensor], [], [ends[-1]]])
    operators.append([ends, [], [written(1)]])
    tensors[-1][2] = "output"
    return {"tensors": tensors, "operators": operators}


def _tensor(chance: random.Random, greatest: int, role: str) -> list[int | str]:
    return [chance.randint(1, greatest), chance.choice(BITS), role]


def odd_capacity(chance: random.Random, question: Question) -> int:
    """Return a capacity at or next to the need of one operator or the peak of the given order; sometimes between."""
    required, peak = required_bytes(question), peak_of(question, tuple(range(len(question.reads))))
    edge = chance.choice((required, required, required, peak, chance.randint(required, peak)))
    return max(1, edge + chance.choice((-1, 0, 0, 0, 0, 1, 2)))


@dataclass(frozen=True, slots=True)
class Case:
    """The facts of a case, with names; `names` gives tensors and operators others."""

    facts: Facts
    prefix: str = ""

    def tensor(self, number: int) -> str:
        """Return the name of a tensor."""
        return f"{self.prefix}t{number}"

    def operator(self, number: int) -> str:
        """Return the name of an operator."""
        return f"{self.prefix}op{number}"

    def size_bytes(self, number: int) -> int:
        """Return ceil(elements * bits / 8), with the requested bits."""
        elements, bits, _ = self.facts["tensors"][number]
        return int(-(-elements * (self.facts.get("bits") or bits) // 8))

    @property
    def counts_parameters(self) -> bool:
        """Return True if parameters are planned."""
        return bool(self.facts.get("count") == "all")

    @property
    def file(self) -> Facts:
        """Return the graph file; operators with members or attributes would be planned identically."""
        return {
            "format": "onchip-graph",
            "version": 1,
            "name": "odd",
            "tensors": [
                {"name": self.tensor(number), "shape": [elements], "bits": bits, "role": role}
                for number, (elements, bits, role) in enumerate(self.facts["tensors"])
            ],
            "operators": [
                {
                    "name": self.operator(number),
                    "kind": "Odd",
                    "inputs": [self.tensor(one) for one in reads],
                    "parameters": [self.tensor(one) for one in weights],
                    "outputs": [self.tensor(one) for one in writes],
                }
                for number, (reads, weights, writes) in enumerate(self.facts["operators"])
            ],
        }

    @property
    def question(self) -> Question:
        """Return the input of the exhaustive oracle."""
        operators = self.facts["operators"]
        weights = [parameters if self.counts_parameters else [] for _, parameters, _ in operators]
        return Question(
            tuple(self.size_bytes(number) for number in range(len(self.facts["tensors"]))),
            tuple(role for _, _, role in self.facts["tensors"]),
            tuple((*reads, *more) for (reads, _, _), more in zip(operators, weights, strict=True)),
            tuple(tuple(writes) for _, _, writes in operators),
            self.facts.get("alignment", 1),
        )

    @property
    def network(self) -> Network:
        """Return the input of the replay."""
        question = self.question
        counted = [n for n, role in enumerate(question.roles) if role != "parameter" or self.counts_parameters]
        return Network(
            {self.tensor(number): question.sizes[number] for number in counted},
            {self.tensor(number): question.roles[number] for number in counted},
            {self.operator(o): tuple(map(self.tensor, read)) for o, read in enumerate(question.reads)},
            {self.operator(o): tuple(map(self.tensor, written)) for o, written in enumerate(question.writes)},
        )

    @property
    def need_bytes(self) -> int:
        """M_R."""
        return required_bytes(self.question)

    def need_of(self, operator: str) -> int:
        """Return the bytes that one operator needs."""
        number = int(operator.removeprefix(f"{self.prefix}op"))
        sizes = [self.question.sizes[tensor] for tensor in self.question.operands(number)]
        return packed_bytes(sizes, self.question.alignment)
