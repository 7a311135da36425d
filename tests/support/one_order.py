"""Problems in the smallest scratchpad, random graphs that make them hard, and checks of their answers."""

from __future__ import annotations

import random

from onchip.answer.problem import Order, Problem
from onchip.answer.program import Plan
from onchip.answer.result import SearchResult, Status
from onchip.arch.memory import Memory
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.capacity.bounds import greatest_need
from onchip.verify.verifier import verify


def tight(graph: Graph, alignment: int = 1, beyond: int = 0) -> Problem:
    need = greatest_need(Problem(graph, (Memory("sram", 1, alignment),))).need_bytes
    return Problem(graph, (Memory("sram", need + beyond, alignment),), order=Order.GIVEN)


def assert_true(problem: Problem, result: SearchResult[Plan], least_bytes: int | None) -> None:
    """Assert that a plan is legal and its claim holds; `least_bytes` is the least cost over all choices."""
    assert result.answer is not None
    assert result.objective_value is not None
    assert verify(problem, result.answer).violations == ()
    assert least_bytes is not None
    assert result.lower_bound <= least_bytes <= result.objective_value
    if result.status is Status.OPTIMAL:
        assert result.objective_value == least_bytes


def windowed(operators: int, seed: int) -> Graph:
    """Return operators that read one to three of the ten most recent tensors, of up to a thousand bytes each."""
    chance, names, made = random.Random(seed), ["in"], list[Operator]()
    for index in range(operators):
        recent = names[-10:]
        reads = tuple(chance.sample(recent, min(len(recent), chance.randint(1, 3))))
        names.append(f"t{index}")
        made.append(Operator(f"op{index}", "Op", reads, (names[-1],)))
    read = {name for operator in made for name in operator.inputs}
    roles = [Role.ACTIVATION if name in read else Role.OUTPUT for name in names]
    roles[0] = Role.INPUT
    tensors = (Tensor(name, chance.randint(1, 1000), role) for name, role in zip(names, roles, strict=True))
    return Graph(f"windowed{seed}", tuple(tensors), tuple(made))
