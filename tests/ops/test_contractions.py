"""Products over any axes, behind views and over three axes: their loop nests compute the values of numpy."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnx.helper import make_node

from onchip.answer.document import Reading
from onchip.api.map import moved_operators
from onchip.api.networks import read_network
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.timeline.mac_count import MacCount
from onchip.ops.layers_of import Precision, layers_and_left_out, layers_of, nest_operands
from onchip.reports.mapping.outcome import coverage
from onchip.verify.schedule.nests import NestDerivation
from oracles.loop_nest import PlainNest
from support.onnx_networks import model, read, value
from support.tflite_models import TfliteOperator, TfliteTensor
from support.tflite_models import network as tflite_network

Values = npt.NDArray[np.float64]
Shape = tuple[int, ...]


def graph_of(
    kind: str, inputs: Sequence[Shape], output: Shape, attributes: dict[str, AttributeValue] | None = None,
    parameters: Sequence[Shape] = (),
) -> Graph:  # fmt: skip
    """Return a graph of one operator named `op`."""
    read = {f"x{at}": shape for at, shape in enumerate(inputs)}
    kept = {f"w{at}": shape for at, shape in enumerate(parameters)}
    tensors = [Tensor.of_shape(name, shape, 8, Role.INPUT) for name, shape in read.items()]
    tensors += [Tensor.of_shape(name, shape, 8, Role.PARAMETER) for name, shape in kept.items()]
    operator = Operator("op", kind, tuple(read), ("y",), tuple(kept), attributes or {})
    return Graph("one", (*tensors, Tensor.of_shape("y", output, 8, Role.OUTPUT)), (operator,))


def layer_of(graph: Graph) -> Layer | None:
    """Return the operator's one nest, or None; check that the verifier derives the same over the same operands."""
    layers, _ = layers_and_left_out(graph)
    derived = NestDerivation(graph, 24).of(graph.operators[0])
    assert (derived.layers if derived else ()) == tuple(layers.values())
    if derived is None:
        return None
    operands = nest_operands(graph, graph.operators[0])
    assert (derived.input, derived.weight) == (operands.input, operands.weight)
    return next(iter(layers.values()))


def of_letters(values: Values, letters: str, groups: Sequence[str], sizes: dict[str, int]) -> Values:
    """Return the array with the letters of each group as one axis."""
    order = "".join(letter for group in groups for letter in group)
    moved = np.transpose(values, [letters.index(letter) for letter in order])
    return moved.reshape([prod(sizes[letter] for letter in group) for group in groups])


def executed(layer: Layer, terms: Sequence[str], arrays: Sequence[Values], written: str, nest: PlainNest) -> Values:
    """Return the product computed by the layer, with the axes of the output."""
    sizes = {
        letter: size
        for term, array in zip(terms, arrays, strict=True)
        for letter, size in zip(term, array.shape, strict=True)
    }
    first, second = terms
    shared = [letter for letter in first if letter in second]
    g, c = ("".join(one for one in shared if (one in written) is kept) for kept in (True, False))
    n, k = ("".join(one for one in term if one not in shared) for term in (first, second))
    rows = of_letters(arrays[0], first, (g, n, c), sizes)
    matrices = of_letters(arrays[1], second, (g, c, k), sizes)
    made = nest.product(layer, rows, matrices).reshape([sizes[letter] for letter in g + n + k])
    return np.transpose(made, [(g + n + k).index(letter) for letter in written])


@st.composite
def equations(draw: st.DrawFn) -> tuple[list[str], str, dict[str, int]]:
    """Draw two terms over few letters, and their output."""
    letters = "abcdef"[: draw(st.integers(1, 6))]
    owners = [draw(st.sampled_from(("first", "second", "both"))) for _ in letters]
    terms = []
    for own in ("first", "second"):
        mine = [letter for letter, owner in zip(letters, owners, strict=True) if owner in (own, "both")]
        terms.append("".join(draw(st.permutations(mine))))
    kept = [letter for letter, owner in zip(letters, owners, strict=True) if owner != "both" or draw(st.booleans())]
    return terms, "".join(draw(st.permutations(kept))), {letter: draw(st.integers(1, 3)) for letter in letters}


@pytest.mark.slow
@given(equations(), st.integers(0, 100))
@settings(max_examples=120, deadline=None)
def test_an_einsum_is_its_nest(drawn: tuple[list[str], str, dict[str, int]], seed: int) -> None:
    terms, written, sizes = drawn
    assume(all(terms) and written)
    random, nest = np.random.default_rng(seed), PlainNest()
    arrays = [random.normal(size=[sizes[letter] for letter in term]) for term in terms]
    equation = f"{','.join(terms)}->{written}"
    expected = np.einsum(equation, *arrays)
    layer = layer_of(graph_of("Einsum", [one.shape for one in arrays], expected.shape, {"equation": equation}))

    assert layer is not None
    np.testing.assert_allclose(executed(layer, terms, arrays, written, nest), expected)
    assert nest.multiplied == layer.macs == prod(sizes.values())


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from(("both", "first", "second"))), min_size=1, max_size=4))
@settings(max_examples=120, deadline=None)
def test_what_spreads_over_each_other_is_its_nest(axes: list[tuple[int, str]]) -> None:
    """The values are numpy's; each product of two elements is one multiply-accumulate."""
    shapes = [tuple(size if owner in ("both", own) else 1 for size, owner in axes) for own in ("first", "second")]
    random, nest = np.random.default_rng(1), PlainNest()
    arrays = [random.normal(size=shape) for shape in shapes]
    expected = arrays[0] * arrays[1]
    graph = graph_of("Mul", shapes, expected.shape)
    layer = layer_of(graph)

    assert layer is not None
    assert layer.macs == expected.size
    operands = nest_operands(graph, graph.operators[0])
    if operands.weight is None:
        return
    named = {"x0": arrays[0], "x1": arrays[1]}
    letters = "abcd"[: len(axes)]
    pair = [named[operands.input], named[operands.weight]]
    terms = [
        "".join(
            letter for letter, size in zip(letters, one.shape, strict=True) if size > 1 or prod(expected.shape) == 1
        )
        for one in pair
    ]
    squeezed = [one.squeeze() if expected.size > 1 else one for one in pair]
    written = "".join(
        letter for letter, size in zip(letters, expected.shape, strict=True) if size > 1 or expected.size == 1
    )
    made = executed(layer, terms, squeezed, written, nest).reshape(expected.shape)
    np.testing.assert_allclose(made, expected)
    assert nest.multiplied == expected.size


@given(
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from(("both", "first", "second"))), max_size=3),
    st.tuples(*[st.integers(1, 3)] * 3),
)
@settings(max_examples=120, deadline=None)
def test_a_product_of_batches_multiplies_what_its_definition_does(
    axes: list[tuple[int, str]], sizes: tuple[int, int, int]
) -> None:
    rows, depth, columns = sizes
    batches = [tuple(size if owner in ("both", own) else 1 for size, owner in axes) for own in ("first", "second")]
    shapes = [(*batches[0], rows, depth), (*batches[1], depth, columns)]
    output = (np.ones(shapes[0]) @ np.ones(shapes[1])).shape
    layer = layer_of(graph_of("MatMul", shapes, output))

    assert layer is not None
    assert layer.macs == prod(output) * depth
    assert {layer.elements("input"), layer.elements("weight")} == {prod(shape) for shape in shapes}


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("channels", [1, 3, 6])
def test_a_response_normalisation_adds_up_squares_of_channels(size: int, channels: int) -> None:
    """The onnx specification sums `size` channels, with one more after than before if `size` is even."""
    shape = (2, channels, 2, 3)
    values = np.random.default_rng(0).normal(size=shape)
    layer, nest = layer_of(graph_of("LRN", [shape], shape, {"size": size})), PlainNest()
    expected = np.zeros(shape)
    for channel in range(channels):
        around = range(max(0, channel - (size - 1) // 2), min(channels - 1, channel + -(-(size - 1) // 2)) + 1)
        expected[:, channel] = sum(values[:, other] ** 2 for other in around)

    assert layer is not None
    sums = nest.run(layer, (values**2).reshape(2, 1, 1, channels, 6)).reshape(shape)
    np.testing.assert_allclose(sums, expected)
    assert nest.multiplied == prod(shape) * size


@pytest.mark.parametrize("kind", ["ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceProd", "ReduceLogSum", "ReduceMax"])
def test_a_reduction_meets_every_element_once(kind: str) -> None:
    layer = layer_of(graph_of(kind, [(2, 3, 4)], (2, 1, 4)))
    assert layer == Layer(g=8, c=3, has_weight=False)


def test_a_normalisation_of_channels_meets_their_scales() -> None:
    layer = layer_of(graph_of("BatchNormalization", [(2, 3, 4, 5)], (2, 3, 4, 5), parameters=[(3,)] * 4))
    assert layer == Layer(n=2 * 20, g=3)


def test_the_slope_of_an_activation_in_an_addition_is_not_met() -> None:
    """A PRelu is fused into an addition of two maps: 4 slopes."""
    layer = layer_of(graph_of("Add", [(1, 4, 5, 5), (1, 4, 5, 5)], (1, 4, 5, 5), parameters=[(1, 4, 1, 1)]))
    assert layer == Layer(g=100)


def constant(name: str, shape: Shape) -> TensorProto:
    return numpy_helper.from_array(np.ones(shape, np.float32), name)


def behind_a_view(random: Random, name: str, shape: Shape) -> tuple[Shape, list[NodeProto], list[TensorProto]]:
    """Return the shape of an input, and the nodes that make `name` of it through one view."""
    views = ["Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"]
    match random.choice(views):
        case "Flatten" if len(shape) == 2:
            rows = next((size for size in (2, 3) if shape[1] % size == 0), 1)
            return (shape[0], rows, shape[1] // rows), [helper.make_node("Flatten", ["x"], [name])], []
        case "Squeeze":
            axes = helper.make_tensor("axes", TensorProto.INT64, [1], [1])
            return (shape[0], 1, *shape[1:]), [helper.make_node("Squeeze", ["x", "axes"], [name])], [axes]
        case "Unsqueeze" if shape[0] == 1:
            axes = helper.make_tensor("axes", TensorProto.INT64, [1], [0])
            return shape[1:], [helper.make_node("Unsqueeze", ["x", "axes"], [name])], [axes]
        case "Transpose":
            order = list(range(len(shape)))
            random.shuffle(order)
            stored = tuple(shape[order.index(axis)] for axis in range(len(shape)))
            return stored, [helper.make_node("Transpose", ["x"], [name], perm=order)], []
    sizes = helper.make_tensor("sizes", TensorProto.INT64, [len(shape)], shape)
    stored = (prod(shape),) if random.random() < 0.3 else (shape[-1], *shape[:-1])
    return stored, [helper.make_node("Reshape", ["x", "sizes"], [name])], [sizes]


def contraction(random: Random) -> tuple[str, list[Shape], Shape, dict[str, Any], int]:
    """Return a kind, the shapes of its two factors and of its output, its attributes and its multiply-accumulates."""
    m, k, n, batch = (random.choice((1, 2, 3, 4, 6)) for _ in range(4))
    match random.choice(("MatMul", "batched", "shared", "Gemm", "transposed", "Einsum", "Conv", "ConvTranspose")):
        case "MatMul":
            return "MatMul", [(m, k), (k, n)], (m, n), {}, m * k * n
        case "batched":
            return "MatMul", [(batch, m, k), (batch, k, n)], (batch, m, n), {}, batch * m * k * n
        case "shared":
            return "MatMul", [(batch, 2, m, k), (k, n)], (batch, 2, m, n), {}, 2 * batch * m * k * n
        case "Gemm":
            return "Gemm", [(m, k), (k, n)], (m, n), {}, m * k * n
        case "transposed":
            return "Gemm", [(m, k), (n, k)], (m, n), {"transB": 1}, m * k * n
        case "Einsum":
            equation = {"equation": "bik,bkj->bij"}
            return "Einsum", [(batch, m, k), (batch, k, n)], (batch, m, n), equation, batch * m * k * n
        case "Conv":
            return "Conv", [(batch, k, 5, 4), (n, k, 3, 2)], (batch, n, 3, 3), {}, batch * n * k * 9 * 6
    return "ConvTranspose", [(batch, k, 3, 2), (k, n, 2, 2)], (batch, n, 4, 3), {}, batch * n * k * 12 * 4


@pytest.mark.parametrize("seed", range(60))
def test_a_contraction_behind_a_view_has_a_nest_of_all_its_multiply_accumulates(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    kind, (left, right), output, attributes, macs = contraction(random)
    viewed = random.randrange(2) if not kind.startswith("Conv") else 0
    other = (left, right)[1 - viewed]
    stored, nodes, constants = behind_a_view(random, "seen", (left, right)[viewed])
    names = ["seen", "other"] if viewed == 0 else ["other", "seen"]
    inputs = [value("x", stored)]
    if random.random() < 0.6 or kind.startswith("Conv"):
        constants.append(constant("other", other))
    else:
        inputs.append(value("other", other))
    nodes.append(helper.make_node(kind, names, ["y"], name="product", **attributes))
    graph = read(model(nodes, inputs, [value("y", output)], constants), tmp_path)

    found = layers_of(graph)
    nests = {name: layer for name, layer in found.layers.items() if name.startswith("product")}
    assert "product" not in {one.operator for one in found.left_out}
    assert sum(layer.macs for layer in nests.values()) == macs
    derived = NestDerivation(graph, 32).of(graph.operator["product"])
    assert derived is not None
    operands = nest_operands(graph, graph.operator["product"])
    assert (derived.input, derived.weight) == (operands.input, operands.weight)
    assert [one.bounds for one in derived.layers] == [one.bounds for one in nests.values()]
    if kind != "ConvTranspose":
        assert MacCount(graph).macs(graph.operator["product"]) == macs


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("is_constant", [False, True])
@pytest.mark.parametrize("side", [0, 1])
def test_a_product_of_tflite_behind_a_reshape_has_a_nest(
    side: int, tmp_path: Path, *, is_turned: bool, is_constant: bool
) -> None:
    shapes = [(2, 3, 4), (2, 5, 4) if is_turned else (2, 4, 5)]
    other = TfliteTensor("w", shapes[1 - side], data=np.ones(shapes[1 - side], np.float32) if is_constant else None)
    tensors = [TfliteTensor("x", (prod(shapes[side]) // 2, 2)), TfliteTensor("seen", shapes[side]), other]
    tensors.append(TfliteTensor("y", (2, 3, 5)))
    names = ("seen", "w") if side == 0 else ("w", "seen")
    operators = [
        TfliteOperator("RESHAPE", ("x",), ("seen",)),
        TfliteOperator("BATCH_MATMUL", names, ("y",), ("BatchMatMulOptions", {"AdjY": is_turned})),
    ]
    inputs = ["x"] if is_constant else ["x", "w"]
    path = tflite_network(tensors, operators, inputs, ["y"]).write(tmp_path / "network.tflite")
    graph = read_network(str(path))

    (layer,) = layers_of(graph).layers.values()
    assert layer.macs == 2 * 3 * 4 * 5
    (operator,) = graph.operators
    derived = NestDerivation(graph, 32).of(operator)
    assert derived is not None
    assert derived.layers[0].bounds == layer.bounds
    assert MacCount(graph).macs(operator) == layer.macs


@pytest.mark.parametrize(
    ("factors", "stored_weight", "is_weight_left"),
    [([[3, 8], [8, 5]], (5, 8), False), ([[3, 8], [8, 5]], (8, 5), False), ([[3, 8], [8, 5]], (8, 3), True)],
)
def test_a_product_of_torch_with_a_turned_parameter_has_a_nest(
    factors: list[AttributeValue], stored_weight: Shape, *, is_weight_left: bool
) -> None:
    """The export lists the shapes of left and right, in any storage order of a parameter."""
    tensors = (
        Tensor.of_shape("x", (8, 5) if is_weight_left else (3, 8), 8, Role.INPUT),
        Tensor.of_shape("w", stored_weight, 8, Role.PARAMETER),
        Tensor.of_shape("y", (3, 5), 8, Role.OUTPUT),
    )
    operator = Operator("product", "MatMul", ("x",), ("y",), ("w",), {"input_shapes": factors})
    graph = Graph("one", tensors, (operator,))

    (layer,) = layers_of(graph).layers.values()
    assert layer.macs == MacCount(graph).macs(operator) == 3 * 8 * 5
    derived = NestDerivation(graph, 32).of(operator)
    assert derived is not None
    assert derived.layers[0].bounds == layer.bounds


@pytest.mark.parametrize(
    ("names", "parameters", "expected"),
    [
        ("bias a b", "", ("a", "b")),
        ("a b", "bias", ("a", "b")),
        ("bias a", "b", ("a", "b")),
        ("b", "bias a", ("b", "a")),
    ],
)
def test_a_product_added_to_a_map_has_the_nest_of_the_product(
    names: str, parameters: str, expected: tuple[str, str]
) -> None:
    shapes = {"bias": (2, 3, 5), "a": (2, 3, 4), "b": (2, 4, 5), "y": (2, 3, 5)}
    roles = {name: Role.PARAMETER if name in parameters.split() else Role.INPUT for name in shapes} | {"y": Role.OUTPUT}
    tensors = tuple(Tensor.of_shape(name, shape, 8, roles[name]) for name, shape in shapes.items())
    attributes: dict[str, AttributeValue] = {"input_shapes": [[2, 3, 4], [2, 4, 5]]}
    reads = tuple(names.split()), ("y",), tuple(parameters.split())
    graph = Graph("one", tensors, (Operator("product", "Gemm", *reads, attributes),))
    (layer,) = layers_of(graph).layers.values()
    assert layer.macs == MacCount(graph).macs(graph.operators[0]) == 2 * 3 * 4 * 5
    derived, operands = NestDerivation(graph, 32).of(graph.operators[0]), nest_operands(graph, graph.operators[0])
    assert derived is not None
    assert derived.layers[0].bounds == layer.bounds
    assert (derived.input, derived.weight) == (operands.input, operands.weight)
    assert {operands.input, operands.weight} == {*expected}


def test_a_product_whose_factors_and_addend_have_one_shape_has_no_nest() -> None:
    names = ("bias", "a", "b")
    tensors = [Tensor.of_shape(name, (2, 3, 3), 8, Role.INPUT) for name in names]
    operator = Operator("product", "Gemm", names, ("y",), (), {"input_shapes": [[2, 3, 3], [2, 3, 3]]})
    graph = Graph("one", (*tensors, Tensor.of_shape("y", (2, 3, 3), 8, Role.OUTPUT)), (operator,))
    assert [one.operator for one in layers_of(graph).left_out] == ["product"]
    assert NestDerivation(graph, 32).of(operator) is None


def test_a_product_added_to_an_input_multiplies_by_the_parameter() -> None:
    shapes = {"x": ((1, 90), Role.INPUT), "c": ((1, 2), Role.INPUT), "w": ((90, 2), Role.PARAMETER)}
    tensors = [Tensor.of_shape(name, shape, 8, role) for name, (shape, role) in shapes.items()]
    operator = Operator("product", "Gemm", ("x", "c"), ("y",), ("w",))
    graph = Graph("one", (*tensors, Tensor.of_shape("y", (1, 2), 8, Role.OUTPUT)), (operator,))
    (layer,) = layers_of(graph).layers.values()
    assert layer.macs == MacCount(graph).macs(operator) == 180
    derived = NestDerivation(graph, 32).of(operator)
    assert derived is not None
    assert (derived.layers[0].bounds, derived.weight) == (layer.bounds, nest_operands(graph, operator).weight)


def test_operations_of_a_contraction_without_a_nest_are_its_multiply_accumulates() -> None:
    tensors = (
        Tensor.of_shape("x", (2, 3, 4), 8, Role.INPUT),
        Tensor.of_shape("w", (3, 5), 8, Role.INPUT),
        Tensor.of_shape("v", (4, 6), 8, Role.INPUT),
        Tensor.of_shape("y", (2, 5, 6), 8, Role.OUTPUT),
    )
    operator = Operator("product", "Einsum", ("x", "w", "v"), ("y",), (), {"equation": "bij,ik,jl->bkl"})
    layers = layers_of(Graph("one", tensors, (operator,)))

    nests, moved = coverage(layers, moved_operators(layers, load_accelerator("simba")))
    assert (nests.share, moved.operations) == (0, 2 * 3 * 4 * 5 * 6)


Sizes = tuple[int, int, int]

three = st.tuples(*[st.integers(1, 3)] * 3)


def slice_of_input(layer: Layer, source: Values, begin: int, dilation: int, taps: range, groups: int) -> Values:
    """Return the input slices that an output slice reads, stacked as channels and cropped to the pixels read."""
    seen = np.stack([source[:, :, begin + tap * dilation] for tap in taps], axis=2)
    batch, channels, *_ = source.shape
    height, width = layer.input_pixels
    return seen.reshape(batch, groups, channels // groups * len(taps), *seen.shape[-2:])[..., :height, :width]


@given(three, three, three, three, three, st.integers(1, 2), st.sampled_from(["Conv", "MaxPool"]))
@settings(max_examples=60, deadline=None)
def test_the_slices_compute_what_the_runtime_computes(
    extra: Sizes, kernel: Sizes, strides: Sizes, dilations: Sizes, pads: Sizes, groups: int, kind: str
) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (extra `onnxruntime`)")
    before = tuple(min(pad - 1, size - 1) for pad, size in zip(pads, kernel, strict=True))
    reach = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)]
    sizes = [max(one + more - 1 - 2 * pad, 1) for one, more, pad in zip(reach, extra, before, strict=True)]
    assume(all(size + 2 * pad >= one for size, pad, one in zip(sizes, before, reach, strict=True)))
    attributes: dict[str, Any] = {
        "kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": (*before, *before),
    }  # fmt: skip
    random = np.random.default_rng(0)
    source, weight = random.normal(size=(1, 2 * groups, *sizes)), random.normal(size=(2 * groups, 2, *kernel))
    is_pool = kind == "MaxPool"
    kept = [] if is_pool else [numpy_helper.from_array(weight.astype(np.float32), "w")]
    if not is_pool:
        attributes["group"] = groups
    node = make_node(kind, ["x"] if is_pool else ["x", "w"], ["y"], name="op", **attributes)
    made = model([node], [value("x", source.shape)], ["y"], kept)
    (expected,) = runtime.InferenceSession(made.SerializeToString()).run(None, {"x": source.astype(np.float32)})
    with TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        path.write_bytes(made.SerializeToString())
        graph = read_network(str(path), Reading(bits=8))
    layers = layers_of(graph).layers
    derived = NestDerivation(graph, Precision().sum_bits).of(graph.operators[0])
    assert (derived.layers if derived else ()) == tuple(layers.values())
    if not layers:
        return
    if list(layers) == ["op"]:
        return
    assert set(layers) <= {f"op ({output})" for output in range(expected.shape[2])}
    nest, products, ways = PlainNest(), 0, (2 * groups if is_pool else groups)
    for output in range(expected.shape[2]):
        begin = output * strides[0] - before[0]
        taps = [tap for tap in range(kernel[0]) if 0 <= begin + tap * dilations[0] < sizes[0]]
        if not taps:
            continue
        layer, seen = layers[f"op ({output})"], range(taps[0], taps[-1] + 1)
        arrays = [slice_of_input(layer, source, begin, dilations[0], seen, ways)]
        if not is_pool:
            used = weight.reshape(groups, 2, 2, *kernel)[:, :, :, taps[0] : taps[-1] + 1]
            arrays.append(used.reshape(groups, 2, 2 * len(taps), *kernel[1:]))
        found = nest.run(layer, *arrays, largest=is_pool)
        here = expected[:, :, output]
        least = np.finfo(np.float32).min  # the runtime's value of a window over padding alone
        np.testing.assert_allclose(np.maximum(found, least).reshape(here.shape), here, rtol=1e-4, atol=1e-4)
        products += here.size * len(taps) * prod(kernel[1:]) * (1 if is_pool else 2)
    assert nest.multiplied == products == sum(layer.macs for layer in layers.values())
