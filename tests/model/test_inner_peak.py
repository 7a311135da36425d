"""Bytes that a graph needs in addition to its inputs and outputs, compared with all tensors in each step."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.capacity.bounds import inner_peak_bytes


def plainly(graph: Graph) -> int:
    """Return the largest total size, over the steps, of activations that are live and of the workspace."""
    most = 0
    for step, operator in enumerate(graph.operators):
        before = {name for one in graph.operators[:step] for name in one.outputs}
        after = {name for one in graph.operators[step:] for name in one.inputs}
        alive = (before & after) | set(operator.outputs)
        sizes = [one.size_bytes for one in graph.tensors if one.name in alive and one.role is Role.ACTIVATION]
        most = max(most, sum(sizes) + operator.workspace_bytes)
    return most


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    names = ["x"]
    tensors, operators = [Tensor("x", 7, Role.INPUT)], []
    for step in range(draw(st.integers(1, 8))):
        read = draw(st.lists(st.sampled_from(names), max_size=3, unique=True))
        written = tuple(f"t{step}.{at}" for at in range(draw(st.integers(1, 2))))
        operators.append(Operator(f"o{step}", "Any", tuple(read), written, workspace_bytes=draw(st.integers(0, 3))))
        for name in written:
            role = draw(st.sampled_from([Role.ACTIVATION, Role.ACTIVATION, Role.OUTPUT]))
            tensors.append(Tensor(name, draw(st.integers(1, 9)), role))
            names.append(name)
    return Graph("graph", tuple(tensors), tuple(operators))


@given(graphs())
def test_it_is_what_lives_in_the_fullest_step(graph: Graph) -> None:
    assert inner_peak_bytes(graph) == plainly(graph)
