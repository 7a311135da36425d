"""Small graphs with skip connections: tensors with early and late readers, some of them outputs of the network too."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from onchip.answer.problem import Order, Problem
from onchip.bounds.latency.ways_to_run import WaysToRun
from onchip.ir.graph import Graph
from onchip.ir.operator import ChannelSplits, Operator, StatedCost
from onchip.ir.tensor import Role, Tensor
from support.timed_problems import problem_of_several, timed_problem


def skipping_graph(random: Random, operators: int, channels: int, widths: tuple[int, ...]) -> Graph:
    """Return a chain of operators that mostly also read a tensor that an earlier operator has read.

    With two channels some operators state a split.
    """
    tensors = [_tensor(random, "x", channels, widths, Role.INPUT)]
    nodes: list[Operator] = []
    for number in range(operators):
        made = [one.name for one in tensors if one.role is not Role.PARAMETER]
        read = [name for node in nodes for name in node.inputs]
        inputs = [made[-1] if random.random() < 0.8 else random.choice(made)]
        if read and random.random() < 0.5:
            inputs.append(random.choice(read))
        parameters = [f"w{number}"] if random.random() < 0.4 else []
        outputs = [f"t{number}{letter}" for letter in random.choice(("a", "a", "ab"))]
        tensors += [_tensor(random, name, channels, widths, Role.PARAMETER) for name in parameters]
        tensors += [_tensor(random, name, channels, widths, Role.ACTIVATION) for name in outputs]
        operands = (tuple(dict.fromkeys(inputs)), tuple(outputs), tuple(parameters))
        nodes.append(Operator(f"o{number}", "Any", *operands, stated=_stated(random, channels)))
    read = [name for node in nodes for name in node.inputs]
    return Graph("skipping", tuple(_with_role(random, one, one.name in read) for one in tensors), tuple(nodes))


def skipping_problem(seed: int, operators: int) -> Problem:
    """Return such a graph in one scratchpad or several with little room beyond what its largest operator needs."""
    random = Random(seed)
    channels = random.choice((1, 1, 2))
    graph = skipping_graph(random, operators, channels, (1, 1, 2) if channels == 2 else (1, 1, 2, 3, 4))
    order = random.choice((Order.FREE, Order.GIVEN))
    problem = timed_problem(graph, 1, random, order)
    ways = WaysToRun(problem)
    needs = [
        min(ways.least_need_bytes(at, parts) for parts in (one.cycles if random.random() < 0.5 else (1,)))
        for at, one in enumerate(ways.operators)
    ]
    room = max(needs) + random.choice((0, 0, 1, 1, 2, 3))
    if random.random() < 0.6:
        return replace(problem, memories=(replace(problem.memories[0], capacity_bytes=room),))
    first = random.randint(1, room)
    return problem_of_several(graph, (first, max(1, room - first + random.choice((0, 1, 2)))), random, order)


def _with_role(random: Random, tensor: Tensor, is_read: bool) -> Tensor:
    if tensor.role is not Role.ACTIVATION or (is_read and random.random() < 0.85):
        return tensor
    return replace(tensor, role=Role.OUTPUT)


def _tensor(random: Random, name: str, channels: int, widths: tuple[int, ...], role: Role) -> Tensor:
    return Tensor.of_shape(name, (channels, random.choice(widths)), 8, role)


def _stated(random: Random, channels: int) -> StatedCost:
    cycles = random.choice((1, 2, 3, 5, 8, 10, 20))
    if channels == 1 or random.random() < 0.5:
        return StatedCost(cycles)
    part = random.randint(-(-cycles // channels), cycles)
    return StatedCost(cycles, None, ChannelSplits(random.random() < 0.5, ((channels, part),)))
