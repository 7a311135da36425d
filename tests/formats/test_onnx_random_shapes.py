"""Random networks with symbols: every tensor has the shape that onnxruntime finds when it runs the file."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, numpy_helper
from onnx.helper import make_graph, make_node, make_tensor

from onchip.answer.bindings import Bindings
from onchip.formats.onnx.control_flow import unfold
from onchip.formats.onnx.dimensions import bind
from onchip.formats.onnx.file import load_model
from support.onnx_networks import model, value

SYMBOLS = ("batch", "time", None)
INT64 = TensorProto.INT64


@dataclass
class Drawn:
    """A network that grows: nodes and constants, and the rank of each float tensor."""

    data: st.DataObject
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    ranks: dict[str, int] = field(default_factory=dict)
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def pick(self) -> str:
        return self.data.draw(st.sampled_from(sorted(self.ranks)))

    def integer(self, low: int, high: int) -> int:
        return self.data.draw(st.integers(low, high))

    def add(self, kind: str, operands: list[str], **attributes: Any) -> str:  # noqa: ANN401 (as make_node has them)
        name = f"t{next(self.numbers)}"
        self.nodes.append(make_node(kind, operands, [name], **attributes))
        return name

    def constant(self, *numbers: int) -> str:
        name = f"c{next(self.numbers)}"
        self.constants.append(make_tensor(name, INT64, [len(numbers)], numbers))
        return name

    def size(self, tensor: str, axis: int) -> str:
        """Return one dimension through Shape and Gather, as exporters write it."""
        return self.add("Gather", [self.add("Shape", [tensor]), self.constant(axis)])


def elementwise(drawn: Drawn) -> None:
    source = drawn.pick()
    other = drawn.add("Relu", [source])
    drawn.ranks[drawn.add("Add", [source, other])] = drawn.ranks[source]


def reshaped_by_its_own_shape(drawn: Drawn) -> None:
    source = drawn.pick()
    rank = drawn.ranks[source]
    if rank < 2:
        return
    sizes = [drawn.size(source, axis) for axis in range(rank - 2)]
    target = drawn.add("Concat", [*sizes, drawn.constant(-1)], axis=0)
    drawn.ranks[drawn.add("Reshape", [source, target])] = rank - 1


def expanded(drawn: Drawn) -> None:
    source = drawn.pick()
    rank = drawn.ranks[source]
    whole = drawn.add("Concat", [drawn.constant(drawn.integer(1, 3)), drawn.add("Shape", [source])], axis=0)
    drawn.ranks[drawn.add("Expand", [source, whole])] = rank + 1


def sliced_to_a_half(drawn: Drawn) -> None:
    source = drawn.pick()
    axis = drawn.integer(0, drawn.ranks[source] - 1)
    half = drawn.add("Div", [drawn.add("Add", [drawn.size(source, axis), drawn.constant(1)]), drawn.constant(2)])
    drawn.ranks[drawn.add("Slice", [source, drawn.constant(0), half, drawn.constant(axis)])] = drawn.ranks[source]


def padded_by_its_size(drawn: Drawn) -> None:
    source = drawn.pick()
    rank = drawn.ranks[source]
    zeros = drawn.constant(*[0] * (2 * rank - 1))
    drawn.ranks[drawn.add("Pad", [source, drawn.add("Concat", [zeros, drawn.size(source, 0)], axis=0)])] = rank


def gathered_by_a_range(drawn: Drawn) -> None:
    source = drawn.pick()
    scalars = [drawn.add("Squeeze", [one]) for one in (drawn.constant(0), drawn.size(source, 0), drawn.constant(1))]
    drawn.ranks[drawn.add("Gather", [source, drawn.add("Range", scalars)], axis=0)] = drawn.ranks[source]


def resized(drawn: Drawn) -> None:
    source = drawn.pick()
    rank = drawn.ranks[source]
    if rank < 2:
        return
    twice = drawn.add("Mul", [drawn.add("Shape", [source]), drawn.constant(*[1] * (rank - 1), 2)])
    drawn.ranks[drawn.add("Resize", [source, "", "", twice], mode="nearest")] = rank


def filled_and_masked(drawn: Drawn) -> None:
    source = drawn.pick()
    fill = make_tensor("v", TensorProto.FLOAT, [1], [0.5])
    filled = drawn.add("ConstantOfShape", [drawn.add("Shape", [source])], value=fill)
    mask = drawn.add("Greater", [source, filled])
    drawn.ranks[drawn.add("Where", [mask, source, filled])] = drawn.ranks[source]


def chosen_by_its_shape(drawn: Drawn) -> None:
    """Add an If whose condition depends on a size, and whose branches have different shapes."""
    source = drawn.pick()
    rank = drawn.ranks[source]
    condition = drawn.add("Less", [drawn.size(source, rank - 1), drawn.constant(drawn.integer(1, 8))])
    whole = make_graph([make_node("Relu", [source], ["r"])], "then", [], [value("r", None)])
    summed = make_node("ReduceSum", [source, drawn.constant(rank - 1)], ["r"], keepdims=1)
    summary = make_graph([summed], "else", [], [value("r", None)])
    drawn.ranks[drawn.add("If", [condition], then_branch=whole, else_branch=summary)] = rank


def repeated(drawn: Drawn) -> None:
    """Add a Loop with one trip per element of an axis, which outputs a slice per trip."""
    source = drawn.pick()
    trips = drawn.add("Squeeze", [drawn.size(source, 0)])
    nodes = [
        make_node("Relu", ["s"], ["next"]),
        make_node("Neg", ["s"], ["part"]),
        make_node("Identity", ["go"], ["on"]),
    ]
    inputs = [value("i", [], INT64), value("go", [], TensorProto.BOOL), value("s", None)]
    results = [value("on", [], TensorProto.BOOL), value("next", None), value("part", None)]
    body = make_graph(nodes, "body", inputs, results)
    last, parts = (f"t{next(drawn.numbers)}" for _ in range(2))
    drawn.nodes.append(make_node("Loop", [trips, "", source], [last, parts], body=body))
    drawn.ranks |= {last: drawn.ranks[source], parts: drawn.ranks[source] + 1}


STEPS = (
    elementwise, reshaped_by_its_own_shape, expanded, sliced_to_a_half, padded_by_its_size, gathered_by_a_range,
    resized, filled_and_masked, chosen_by_its_shape, repeated,
)  # fmt: skip


@settings(max_examples=80)
@given(st.data())
def test_every_shape_is_that_of_a_run(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    drawn = Drawn(data)
    rank = data.draw(st.integers(1, 3))
    symbols = data.draw(st.lists(st.sampled_from(SYMBOLS), min_size=rank, max_size=rank))
    sizes = {symbol: data.draw(st.integers(1, 5)) for symbol in ("batch", "time")}
    shape = tuple(data.draw(st.integers(1, 5)) if symbol is None else sizes[symbol] for symbol in symbols)
    drawn.ranks["x"] = rank
    elementwise(drawn)
    for step in data.draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=6)):
        step(drawn)
    written = [name for node in drawn.nodes for name in node.output]
    network = model(drawn.nodes, [value("x", symbols)], written, drawn.constants, opset=18)
    path = tmp_path_factory.getbasetemp() / "random.onnx"
    path.write_bytes(network.SerializeToString())

    found = shapes_as_read(path, Bindings(shapes={"x": shape}))
    for name, run_shape in zip(written, shapes_as_run(path, shape, written), strict=True):
        assert found[name] == run_shape, name


def shapes_as_read(path: Path, bindings: Bindings) -> dict[str, tuple[int, ...]]:
    network = load_model(path)
    assert not bind(network.graph, bindings)
    types = unfold(network).types
    assert not types.bounded
    return {name: types.shape_and_element_type(name)[0] for name in types.static}


def shapes_as_run(path: Path, shape: tuple[int, ...], written: list[str]) -> list[tuple[int, ...]]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    image = numpy_helper.to_array(make_tensor("x", TensorProto.FLOAT, shape, np.linspace(-1, 1, int(np.prod(shape)))))
    return [result.shape for result in session.run(written, {"x": image})]
