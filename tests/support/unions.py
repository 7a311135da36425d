"""Graphs that are unions of disjoint smaller graphs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from onchip.ir.graph import Graph
from onchip.ir.operator import InPlace, Operator


def prefixed(graph: Graph, prefix: str) -> Graph:
    """Return the graph with a prefix before each name."""
    tensors = tuple(replace(tensor, name=prefix + tensor.name) for tensor in graph.tensors)
    return Graph(graph.name, tensors, tuple(_prefixed(operator, prefix) for operator in graph.operators))


def _prefixed(operator: Operator, prefix: str) -> Operator:
    return replace(
        operator,
        name=prefix + operator.name,
        inputs=tuple(prefix + name for name in operator.inputs),
        outputs=tuple(prefix + name for name in operator.outputs),
        parameters=tuple(prefix + name for name in operator.parameters),
        in_place=tuple(InPlace(prefix + one.input, prefix + one.output, one.shift_bytes) for one in operator.in_place),
    )


def union(graphs: Sequence[Graph], seed: int) -> Graph:
    """Return one graph of all, with prefixed names and randomly interleaved operators."""
    chance = random.Random(seed)
    apart = [prefixed(graph, f"c{number}.") for number, graph in enumerate(graphs)]
    waiting = [list(graph.operators) for graph in apart]
    turns = [number for number, graph in enumerate(apart) for _ in graph.operators]
    chance.shuffle(turns)
    mixed = tuple(waiting[number].pop(0) for number in turns)
    return Graph("union", tuple(tensor for graph in apart for tensor in graph.tensors), mixed)


def relisted(graph: Graph, seed: int) -> Graph:
    """Return the graph with its operators in another random topological order."""
    chance, done, listed = random.Random(seed), set[str](), list[Operator]()
    waiting = list(graph.operators)
    while waiting:
        ready = [one for one in waiting if all(n in done or n not in graph.producer for n in one.inputs)]
        one = chance.choice(ready)
        waiting.remove(one)
        listed.append(one)
        done.update(one.outputs)
    return replace(graph, operators=tuple(listed))
