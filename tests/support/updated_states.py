"""Small graphs in which most states are updated by an operator that reads the old value."""

from __future__ import annotations

from random import Random

from onchip.answer.problem import Order, Problem
from onchip.arch.memory import Memory
from onchip.ir.graph import Graph, State
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor


def graph_with_updates(random: Random, operators: int) -> Graph:
    """Return a graph of up to three states, most of them updated in place; other operators may read either value."""
    tensors, nodes, states = [Tensor("x", random.randint(1, 3), Role.INPUT)], list[Operator](), list[State]()
    readable = ["x"]
    for number in range(operators):
        inputs, outputs = [random.choice(readable) for _ in range(random.choice((0, 1, 1, 2)))], list[str]()
        for _ in range(random.choice((0, 1, 1, 2)) if len(states) < 2 else 0):
            old, new, size = f"old{len(states)}", f"new{len(states)}", random.randint(1, 3)
            tensors += [Tensor(old, size, Role.INPUT), Tensor(new, size, Role.OUTPUT)]
            states.append(State(old, new, in_place=random.random() < 0.8))
            outputs.append(new)
            if random.random() < 0.8:
                inputs.append(old)
            readable.append(old)
        if not outputs or random.random() < 0.3:
            tensors.append(Tensor(f"t{number}", random.randint(1, 3), Role.ACTIVATION))
            outputs.append(f"t{number}")
        nodes.append(Operator(f"o{number}", "Any", tuple(dict.fromkeys(inputs)), tuple(outputs)))
        readable += outputs
    read = {name for node in nodes for name in node.inputs}
    roles = {one.name: Role.OUTPUT for one in tensors if one.role is Role.ACTIVATION and one.name not in read}
    named = tuple(Tensor(one.name, one.size_bytes, roles.get(one.name, one.role)) for one in tensors)
    return Graph("updates", named, tuple(nodes), tuple(states))


def problem_with_updates(seed: int) -> Problem:
    """Return such a graph in a roomy scratchpad."""
    random = Random(seed)
    graph = graph_with_updates(random, random.choice((1, 2, 2, 3)))
    order, alignment_bytes = random.choice((Order.FREE, Order.GIVEN)), random.choice((1, 1, 1, 2, 3))
    return Problem(graph, (Memory("sram", 100, alignment_bytes),), order=order)
