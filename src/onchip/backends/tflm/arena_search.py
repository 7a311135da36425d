"""The order of least arena as TFLite Micro has it: inputs there from the start, outputs kept to the end, and scratch.

A plan may load an input when it is needed, and write an output when it is there; so its order need not be the best one
for a runtime that does neither. The same search finds that, on a graph that says so: one operator gives all inputs, and
one reads all outputs.
"""

from __future__ import annotations

from typing import Final

from onchip.answer.problem import Objective, Order, Problem
from onchip.answer.program import Compute
from onchip.answer.schedule import WORKSPACE
from onchip.api.plan import plan_problem
from onchip.arch.memory import Memory
from onchip.formats.tflite.arena_lives import ArenaContents
from onchip.formats.tflite.arena_plan import ALIGNMENT_BYTES
from onchip.formats.tflite.graph import ReadNetwork
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.search.budget.limits import Limits

SEARCH_SECONDS: Final = 10.0
_GIVEN, _KEPT, _END = "@inputs", "@outputs", "@end"


def searched_order(read: ReadNetwork, contents: ArenaContents) -> tuple[str, ...]:
    """The names of operators in the best order found in ten seconds; none where there is none.

    `contents` are those of the file's own order.
    """
    graph = _graph(read, contents)
    if graph is None:
        return ()
    room = sum(tensor.size_bytes + ALIGNMENT_BYTES for tensor in graph.tensors)
    problem = Problem(graph, (Memory("arena", room, ALIGNMENT_BYTES),), Objective.PEAK, Order.FREE)
    answer = plan_problem(problem, limits=Limits(time_limit_seconds=SEARCH_SECONDS)).answer
    lines = () if answer is None else answer.instructions
    return tuple(line.operator for line in lines if isinstance(line, Compute) and line.operator in read.source)


def _graph(read: ReadNetwork, contents: ArenaContents) -> Graph | None:
    """Groups of tensors as tensors, and the operators that move bytes between them; None where inputs need no place."""
    network = read.network
    group = {index: f"group {at}" for at, group in enumerate(contents.groups) for index in group}
    given = tuple(dict.fromkeys(group[index] for index in network.inputs if index in group))
    kept = tuple(dict.fromkeys(group[index] for index in network.outputs if index in group))
    if not given or not kept:
        return None
    operators = [Operator(_GIVEN, _GIVEN, (), given)]
    spaces = []
    for operator, scratch in zip(network.operators, contents.scratch, strict=True):
        inputs = tuple(dict.fromkeys(group[index] for index in operator.inputs if index in group))
        outputs = tuple(group[index] for index in operator.outputs if index in group)
        if not outputs or set(outputs) <= set(inputs):
            continue
        if scratch:
            size = sum(-(-one.size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES for one in scratch)
            spaces.append(Tensor(operator.name + WORKSPACE, size, Role.ACTIVATION))
            outputs = (*outputs, spaces[-1].name)
        operators.append(Operator(operator.name, operator.kind, inputs, outputs))
    operators.append(Operator(_KEPT, _KEPT, kept, (_END,)))
    touched = {name for operator in operators for name in (*operator.inputs, *operator.outputs)}
    tensors = [
        Tensor(f"group {at}", buffer.size_bytes, Role.ACTIVATION)
        for at, buffer in enumerate(contents.buffers)
        if f"group {at}" in touched
    ]
    return Graph(read.graph.name, (*tensors, *spaces, Tensor(_END, 1, Role.OUTPUT)), tuple(operators))
