"""Small random problems with durations, some operators in bands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from onchip.answer.problem import Count, Durations, Objective, Order, Problem, Rate, Transfers
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.ir.graph import Graph
from onchip.ir.operator import ChannelSplits, Operator, StatedCost
from onchip.ir.tensor import Role, Tensor
from support.programs import CHAIN, Case

SCRATCHPAD = "sram"

HELD = (
    *(tuple(Operand) for _ in range(4)),
    (Operand.INPUT, Operand.OUTPUT),
    (Operand.INPUT, Operand.WEIGHT),
    (Operand.OUTPUT,),
    (Operand.WEIGHT,),
)
"""Operand kinds that scratchpads of random machines hold, mostly all."""

UNTIMED = tuple(one for one in Objective if one not in (Objective.LATENCY, Objective.RECOMPUTATION))
"""Objectives of problems that need no durations."""


def timed_problem(graph: Graph, capacity_bytes: int, random: Random, order: Order = Order.FREE) -> Problem:
    """Return the graph in one scratchpad of a random machine."""
    units = random.choice([(8, 1), (8, 2), (16, 1), (8, 3)])
    setup_cycles = random.choice([0, 0, 1, 3])
    way = Rate(setup_cycles, (units,))
    rates = {(DRAM, SCRATCHPAD): way, (SCRATCHPAD, DRAM): way}
    durations = Durations({}, random.choice([1, 1, 2, 3]), setup_cycles, random.random() < 0.7)
    memories = (Memory(SCRATCHPAD, capacity_bytes, random.choice([1, 1, 1, 2])),)
    return Problem(graph, memories, Objective.LATENCY, order, Count.ALL, Transfers((), rates), durations=durations)


def problem_of_several(
    graph: Graph, capacities_bytes: Sequence[int], random: Random, order: Order = Order.FREE, links: float = 0.3
) -> Problem:
    """Return the graph in scratchpads of a random machine with various operands, alignments and rates.

    `links` is the probability of a link for each ordered pair of scratchpads.
    """
    names = [f"{SCRATCHPAD}{number}" for number in range(len(capacities_bytes))]
    setup_cycles = random.choice([0, 0, 1, 3])
    memories = tuple(
        Memory(name, capacity, random.choice([1, 1, 1, 2]), random.choice(HELD))
        for name, capacity in zip(names, capacities_bytes, strict=True)
    )
    if {one for memory in memories for one in memory.holds} != {*Operand}:
        memories = (replace(memories[0], holds=tuple(Operand)), *memories[1:])
    joined = tuple((one, other) for one in names for other in names if one != other and random.random() < links)
    ways = [*((DRAM, name) for name in names), *((name, DRAM) for name in names), *joined]
    rates = {way: Rate(setup_cycles, (random.choice([(8, 1), (8, 1), (8, 2), (16, 1), (24, 2)]),)) for way in ways}
    durations = Durations({}, random.choice([1, 1, 2, 3]), setup_cycles, random.random() < 0.7)
    transfers = Transfers(joined, rates)
    return Problem(graph, memories, Objective.LATENCY, order, Count.ALL, transfers, durations=durations)


def with_durations(problem: Problem) -> Problem:
    """Return the problem with operators of two cycles and transfers of one cycle per byte."""
    rates: dict[tuple[str, str], Rate] = {}
    for memory in problem.memories:
        rates |= {(DRAM, memory.name): Rate(), (memory.name, DRAM): Rate()}
    durations = Durations({operator.name: 2 for operator in problem.graph.operators})
    return replace(problem, transfers=Transfers((), rates), durations=durations)


TIMED = Case(replace(with_durations(CHAIN.problem), objective=Objective.LATENCY), CHAIN.program)
"""x(4) is loaded until cycle 4, then f and g run for two cycles each, then y(5) is stored: 13 cycles."""


def timed_graph(random: Random, operators: int, channels: int = 2, widths: tuple[int, ...] = (1, 2)) -> Graph:
    """Return a graph over tensors with `channels` channels of some of the `widths`, in bytes; some operators split.

    With one channel none does.
    """
    tensors = [Tensor.of_shape("x", (channels, random.choice(widths)), 8, Role.INPUT)]
    nodes: list[Operator] = []
    for number in range(operators):
        readable = [tensor.name for tensor in tensors if tensor.role is not Role.PARAMETER]
        inputs = tuple(dict.fromkeys(random.choice(readable[-3:]) for _ in range(random.choice([1, 1, 2]))))
        parameters: tuple[str, ...] = ()
        if random.random() < 0.6:
            tensors.append(Tensor.of_shape(f"w{number}", (channels, random.choice(widths)), 8, Role.PARAMETER))
            parameters = (tensors[-1].name,)
        tensors.append(Tensor.of_shape(f"t{number}", (channels, random.choice(widths)), 8, Role.ACTIVATION))
        cycles = random.randint(1, 9)
        splits = None
        if random.random() < 0.5 and channels > 1:
            part = random.randint(-(-cycles // channels), cycles)
            splits = ChannelSplits(random.random() < 0.5, ((channels, part),))
        stated = StatedCost(cycles, None, splits)
        nodes.append(Operator(f"o{number}", "Any", inputs, (tensors[-1].name,), parameters, stated=stated))
    read = {name for node in nodes for name in node.inputs}
    roles = {tensor.name: Role.OUTPUT for tensor in tensors if tensor.name.startswith("t") and tensor.name not in read}
    named = tuple(Tensor.of_shape(t.name, t.shape or (), 8, roles.get(t.name, t.role)) for t in tensors)
    return Graph("timed", named, tuple(nodes))
