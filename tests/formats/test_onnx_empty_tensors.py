"""Tensors without elements take no memory and no transfers, and change no value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper
from onnx.helper import make_node, make_opsetid

from onchip.answer.document import Reading
from onchip.api.networks import read_network
from onchip.formats.onnx.runtime_kinds import RUNTIME_DOMAIN
from support.onnx_networks import model, value
from support.onnx_runs import AS_IT_IS, run_model, saved

ROWS, COLUMNS = 4, 6


@dataclass
class Drawn:
    """A network that grows: every tensor in `names` has four rows, and six columns or none."""

    random: Random
    names: list[str] = field(default_factory=lambda: ["x", "none"])
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[TensorProto] = field(default_factory=list)

    def pick(self) -> str:
        return self.random.choice(self.names)

    def add(self, kind: str, operands: list[str], outputs: int = 1, **attributes: Any) -> list[str]:  # noqa: ANN401
        made = [f"t{len(self.nodes)}.{at}" for at in range(outputs)]
        self.nodes.append(make_node(kind, operands, made, **attributes))
        return made

    def constant(self, array: object, dtype: type = np.int64) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(array, dtype), name))
        return name


def split_and_joined(drawn: Drawn) -> None:
    cut = drawn.random.choice((0, 2, COLUMNS))
    whole = drawn.add("Concat", [drawn.pick(), "x"], axis=1)
    wide = drawn.add("Slice", [*whole, drawn.constant([0]), drawn.constant([COLUMNS]), drawn.constant([1])])
    parts = drawn.add("Split", [*wide, drawn.constant([cut, COLUMNS - cut])], 2, axis=1)
    drawn.names += drawn.add("Concat", parts, axis=1)


def sliced(drawn: Drawn) -> None:
    start, step = drawn.random.choice(((COLUMNS, 1), (0, 1), (-1, -1)))
    end = -(2**62) if step < 0 else 2**62
    bounds = [drawn.constant([number]) for number in (start, end, 1, step)]
    drawn.names += drawn.add("Slice", [drawn.pick(), *bounds])


def elementwise(drawn: Drawn) -> None:
    source = drawn.pick()
    drawn.names += drawn.add("Mul", [source, *drawn.add("Sigmoid", [source])])


def summed(drawn: Drawn) -> None:
    """Add a sum over no elements, which is zero."""
    sums = drawn.add("ReduceSum", [drawn.pick(), drawn.constant([1])], keepdims=1)
    drawn.names += drawn.add("Add", [*sums, "x"])


def product(drawn: Drawn) -> None:
    """Add a product over no elements, which is zero; its third operand stays."""
    source = drawn.pick()
    squared = drawn.add("Gemm", [source, source, *drawn.add("MatMul", ["x", "tall"])], transB=1)
    drawn.names += drawn.add("MatMul", [*squared, "x"])


def scattered(drawn: Drawn) -> None:
    indices = drawn.constant(np.zeros((0, 1)))
    updates = drawn.constant(np.zeros((0, COLUMNS)), np.float32)
    drawn.names += drawn.add("ScatterND", ["x", indices, updates])


def viewed(drawn: Drawn) -> None:
    flat = drawn.add("Unsqueeze", [drawn.pick(), drawn.constant([0])])
    drawn.names += drawn.add("Squeeze", [*drawn.add("Relu", flat), drawn.constant([0])])


def padded(drawn: Drawn) -> None:
    nothing = drawn.add("Slice", [drawn.pick(), drawn.constant([0]), drawn.constant([0]), drawn.constant([1])])
    wide = drawn.add("Pad", [*nothing, drawn.constant([0, COLUMNS, 0, 0])])
    drawn.names += drawn.add("Sub", ["x", *wide])


STEPS: tuple[Callable[[Drawn], None], ...] = (
    split_and_joined, sliced, elementwise, summed, scattered, viewed, padded, product,
)  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_a_network_with_empty_tensors_runs_as_onnxruntime_runs_it(seed: int, tmp_path: Path) -> None:
    drawn = Drawn(Random(seed))
    for step in drawn.random.choices(STEPS, k=7):
        step(drawn)
    last = drawn.add("Concat", drawn.names[-3:], axis=1)
    tall = np.random.default_rng(seed).standard_normal((COLUMNS, ROWS)).astype(np.float32)
    drawn.constants.append(numpy_helper.from_array(tall, "tall"))
    written = [*drawn.names[2:], *last]
    inputs = [value("x", [ROWS, COLUMNS]), value("none", [ROWS, 0])]
    path = saved(model(drawn.nodes, inputs, written, drawn.constants, opset=17), tmp_path)
    ran = run_model(path, AS_IT_IS, None)
    assert ran.relative_difference == 0
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    given = {"x": np.ones((ROWS, COLUMNS), np.float32), "none": np.ones((ROWS, 0), np.float32)}
    made = {name: array.shape for name, array in zip(written, session.run(written, given), strict=True)}
    for tensor in ran.graph.tensors:
        assert tensor.size_bytes > 0
        assert made.get(tensor.name, tensor.shape) == tensor.shape
    kept = {name.removesuffix(".output") for tensor in ran.graph.tensors for name in (tensor.name, *tensor.aliases)}
    assert kept.issuperset(name for name, shape in made.items() if 0 not in shape)


def cached_attention(past: int | str) -> onnx.ModelProto:
    cache = [1, 2, past, 4]
    inputs = [value(name, [1, 5, 8]) for name in "qkv"] + [value("keys", cache), value("values", cache)]
    operands = ["q", "k", "v", "", "", "", "keys", "values"]
    node = make_node("MultiHeadAttention", operands, ["y", "pk", "pv"], num_heads=2, domain=RUNTIME_DOMAIN)
    network = model([node], inputs, ["y", "pk", "pv"], opset=17)
    network.opset_import.append(make_opsetid(RUNTIME_DOMAIN, 1))
    return network


@pytest.mark.parametrize(
    "options", [{"dims": {"past": 0}}, {"shapes": dict.fromkeys(("keys", "values"), (1, 2, 0, 4))}]
)
def test_a_cache_may_be_empty(options: dict[str, Any], tmp_path: Path) -> None:
    path = saved(cached_attention("past"), tmp_path)
    reading = Reading(**options)
    graph = read_network(str(path), reading)
    assert graph.operators[0].inputs == ("q", "k", "v")
    assert graph.tensor["pk"].shape == (1, 2, 5, 4)
    assert run_model(path, reading, None).relative_difference == 0


def test_a_declared_size_of_zero_may_be_replaced(tmp_path: Path) -> None:
    path = saved(cached_attention(0), tmp_path)
    assert read_network(str(path)).tensor["pk"].shape == (1, 2, 5, 4)
    shapes = {"keys": (1, 2, 3, 4), "values": (1, 2, 3, 4)}
    assert read_network(str(path), Reading(shapes=shapes)).tensor["pk"].shape == (1, 2, 8, 4)


def test_an_operator_whose_first_operand_is_empty_has_a_kind_of_its_own(tmp_path: Path) -> None:
    """The bias must not be taken for the matrix."""
    inputs = [value("a", [4, 0]), value("b", [0, 6]), value("c", [4, 6])]
    path = saved(model([make_node("Gemm", ["a", "b", "c"], ["y"])], inputs, ["y"]), tmp_path)
    (operator,) = read_network(str(path)).operators
    assert (operator.kind, operator.inputs) == ("EmptyGemm", ("c",))
    assert run_model(path, AS_IT_IS, None).relative_difference == 0
