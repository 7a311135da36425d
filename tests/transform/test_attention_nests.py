"""Attention as loop nests: executed product by product they give ONNX's values, with shared heads and caches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.helper import make_node
from onnx.reference import ReferenceEvaluator

from onchip.answer.document import Reading
from onchip.answer.schedule import ScheduledStack
from onchip.api.networks import read_network
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.layers_of import Precision, layers_of
from onchip.transform.groups.tiled import tile_graph
from onchip.transform.rewrite.attention_apart import APPENDED, HEAD_PRODUCTS, AttentionApart
from onchip.verify.schedule.nests import NestDerivation
from oracles.loop_nest import PlainNest
from support.onnx_networks import model, value

Values = npt.NDArray[np.float64]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    batch: int
    heads: int
    group: int
    rows: int
    keys: int
    cached: int
    width: int
    value_width: int
    is_flat: bool

    @property
    def shapes(self) -> dict[str, Shape]:
        sizes = {
            "q": (self.heads * self.group, self.rows, self.width),
            "k": (self.heads, self.keys, self.width),
            "v": (self.heads, self.keys, self.value_width),
        }
        found: dict[str, Shape] = {
            name: (self.batch, rows, heads * width) if self.is_flat else (self.batch, heads, rows, width)
            for name, (heads, rows, width) in sizes.items()
        }
        if self.cached:
            found["past_k"] = (self.batch, self.heads, self.cached, self.width)
            found["past_v"] = (self.batch, self.heads, self.cached, self.value_width)
        return found

    def model(self) -> onnx.ModelProto:
        attributes: dict[str, Any] = {}
        if self.is_flat:
            attributes = {"q_num_heads": self.heads * self.group, "kv_num_heads": self.heads}
        inputs = ["q", "k", "v", *(["", "past_k", "past_v"] if self.cached else [])]
        outputs = ["y", *(["all_k", "all_v"] if self.cached else [])]
        node = make_node("Attention", inputs, outputs, name="attend", **attributes)
        fed = [value(name, shape) for name, shape in self.shapes.items()]
        return model([node], fed, outputs, opset=23)

    def values(self, seed: int) -> dict[str, Values]:
        random = np.random.default_rng(seed)
        return {name: random.normal(size=shape).astype(np.float32).astype(float) for name, shape in self.shapes.items()}


def network_of(made: onnx.ModelProto) -> Graph:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "attention.onnx"
        path.write_bytes(made.SerializeToString())
        return read_network(str(path), Reading())


def executed(case: Case, scores: Layer, values: Layer, given_values: dict[str, Values], nest: PlainNest) -> Values:
    """Return the output [batch, heads of queries, rows, width]; heads of queries in a group are rows of one product."""

    def in_heads(name: str) -> Values:
        array = given_values[name]
        if array.ndim == 4:
            return array
        count = case.heads * (case.group if name == "q" else 1)
        return array.reshape(case.batch, array.shape[1], count, -1).transpose(0, 2, 1, 3)

    def cached(name: str) -> Values:
        new = in_heads(name)
        return np.concatenate([given_values[f"past_{name}"], new], axis=2) if case.cached else new

    sides = case.batch * case.heads
    rows = in_heads("q").reshape(sides, case.group * case.rows, case.width)
    keys, weighted = (cached(name).reshape(sides, case.cached + case.keys, -1) for name in ("k", "v"))
    made = nest.product(scores, rows, keys.transpose(0, 2, 1)) / np.sqrt(case.width)
    shares = np.exp(made - made.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    return nest.product(values, shares, weighted).reshape(case.batch, case.heads * case.group, case.rows, -1)


sizes = st.integers(1, 3)
cases = st.builds(Case, sizes, sizes, sizes, sizes, sizes, st.integers(0, 2), sizes, sizes, st.booleans())


@given(cases, st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_the_nests_compute_what_onnx_defines(case: Case, seed: int) -> None:
    made, given_values, nest = case.model(), case.values(seed), PlainNest()
    layers = layers_of(network_of(made)).layers
    found = executed(case, layers["attend (scores)"], layers["attend (values)"], given_values, nest)
    fed = {name: array.astype(np.float32) for name, array in given_values.items()}
    expected, *_ = list(ReferenceEvaluator(made).run(None, fed))
    if case.is_flat:
        found = found.transpose(0, 2, 1, 3).reshape(case.batch, case.rows, -1)

    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert nest.multiplied == sum(layer.macs for layer in layers.values())
    keys = case.cached + case.keys
    per_query = keys * case.width + keys * case.value_width
    assert nest.multiplied == case.batch * case.heads * case.group * case.rows * per_query


@given(cases)
@settings(max_examples=40, deadline=None)
def test_taken_apart_it_has_the_same_nests_and_the_verifier_derives_them(case: Case) -> None:
    network = network_of(case.model())
    apart = AttentionApart()(network)
    assert list(layers_of(apart).layers.values()) == list(layers_of(network).layers.values())
    assert {tensor.name for tensor in network.with_role(Role.OUTPUT)} == {
        tensor.name for tensor in apart.with_role(Role.OUTPUT)
    }
    tiles = tile_graph(apart, [ScheduledStack((one.name,)) for one in apart.operators], Precision(None))
    derivation = NestDerivation(apart, Precision(None).sum_bits)
    for operator in apart.operators:
        nests = derivation.of(operator)
        assert (nests.layers if nests else ()) == tiles.operators[operator.name].nests
        if nests is None or nests.weight is None:
            continue
        (layer,) = nests.layers
        sizes = {name: tensor.size_bytes * 8 for name, tensor in apart.tensor.items()}
        assert layer.elements("input") * layer.input_bits == sizes[nests.input]
        assert layer.elements("weight") * layer.weight_bits == sizes[nests.weight]
        assert layer.elements("output") * layer.output_bits == sizes[operator.outputs[0]]


def test_a_cache_is_appended_to_before() -> None:
    case = Case(1, 2, 2, 1, 1, 7, 4, 4, is_flat=True)
    apart = AttentionApart()(network_of(case.model()))

    assert [(one.name, one.kind, one.inputs, one.outputs) for one in apart.operators] == [
        ("attend (keys)", APPENDED, ("past_k", "k"), ("all_k",)),
        ("attend (cached values)", APPENDED, ("past_v", "v"), ("all_v",)),
        ("attend (scores)", HEAD_PRODUCTS, ("q", "all_k"), ("attend (scores)",)),
        ("attend (softmax)", "Softmax", ("attend (scores)",), ("attend (softmax)",)),
        ("attend", HEAD_PRODUCTS, ("attend (softmax)", "all_v"), ("y",)),
    ]
    assert apart.tensor["attend (scores)"].shape == (4, 1, 8)


def graph_of(
    kind: str, inputs: list[Shape], parameters: list[Shape], outputs: list[Shape], **attributes: AttributeValue
) -> Graph:
    """Return a graph of one operator named `attend`."""
    names = {f"x{at}": shape for at, shape in enumerate(inputs)}
    kept = {f"w{at}": shape for at, shape in enumerate(parameters)}
    written = {f"y{at}": shape for at, shape in enumerate(outputs)}
    tensors = [Tensor.of_shape(name, shape, 8, Role.INPUT) for name, shape in names.items()]
    tensors += [Tensor.of_shape(name, shape, 8, Role.PARAMETER) for name, shape in kept.items()]
    tensors += [Tensor.of_shape(name, shape, 8, Role.OUTPUT) for name, shape in written.items()]
    return Graph("one", tuple(tensors), (Operator("attend", kind, (*names,), (*written,), (*kept,), attributes),))


def test_a_mask_is_read_by_the_softmax() -> None:
    graph = graph_of("Attention", [(1, 2, 4, 8)] * 3 + [(4, 4)], [], [(1, 2, 4, 8)])
    apart = AttentionApart()(graph)
    assert apart.operator["attend (softmax)"].inputs == ("attend (scores)", "x3")


def test_a_cache_that_is_as_long_as_it_gets_is_met_whole() -> None:
    """GroupQueryAttention writes its new keys into the cache: the number of keys is the cache's length."""
    cache = [(1, 2, 32, 16)] * 2
    graph = graph_of(
        "com.microsoft::GroupQueryAttention",
        [(1, 1, 128), (1, 1, 32), (1, 1, 32), *cache, (1,)],
        [],
        [(1, 1, 128), *cache],
        num_heads=8,
        kv_num_heads=2,
    )
    assert layers_of(graph).layers == {
        "attend (scores)": Layer(n=4, k=32, c=16, g=2),
        "attend (values)": Layer(n=4, k=16, c=32, g=2),
    }


def test_onnxruntimes_attention_has_a_projection() -> None:
    graph = graph_of("com.microsoft::Attention", [(2, 5, 12)], [(12, 36), (36,)], [(2, 5, 12)], num_heads=3)
    assert layers_of(graph).layers == {
        "attend (projection)": Layer(n=10, c=12, k=36),
        "attend (scores)": Layer(n=5, k=5, c=4, g=6),
        "attend (values)": Layer(n=5, k=4, c=5, g=6),
    }
    assert AttentionApart()(graph) == graph


@pytest.mark.parametrize(
    ("inputs", "attributes", "why"),
    [
        ([(1, 3, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8)], {}, "share keys or values unevenly"),
        ([(1, 2, 4, 8), (1, 2, 4, 7), (1, 2, 4, 8)], {}, "do not fit each other"),
        ([(1, 4, 10)] * 3, {"num_heads": 3}, "does not make 3 heads"),
        ([(4, 8)] * 3, {}, "nothing says"),
    ],
)
def test_what_does_not_fit_is_said(inputs: list[Shape], attributes: dict[str, AttributeValue], why: str) -> None:
    graph = graph_of("com.microsoft::MultiHeadAttention", inputs, [], [inputs[0]], **attributes)
    (left_out,) = layers_of(graph).left_out
    assert why in left_out.why
    assert AttentionApart()(graph) == graph
