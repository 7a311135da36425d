from __future__ import annotations

from math import prod

import pytest

from onchip.answer.document import Reading
from onchip.api.networks import layers_named
from onchip.errors import InputError, UsageError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import bundled_networks, layer_table, layer_tables
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.layers_of import NetworkLayers, Precision, layers_of
from onchip.verify.schedule.nests import NestDerivation

Shape = tuple[int, ...]


def graph_of(
    kind: str,
    inputs: list[Shape],
    parameters: list[Shape],
    output: Shape,
    attributes: dict[str, AttributeValue] | None = None,
) -> Graph:
    """Return a graph of one operator named `op`."""
    names = [f"x{i}" for i in range(len(inputs))], [f"w{i}" for i in range(len(parameters))]
    tensors = [Tensor.of_shape(n, s, 8, Role.INPUT) for n, s in zip(names[0], inputs, strict=True)]
    tensors += [Tensor.of_shape(n, s, 8, Role.PARAMETER) for n, s in zip(names[1], parameters, strict=True)]
    tensors.append(Tensor.of_shape("y", output, 8, Role.OUTPUT))
    operator = Operator("op", kind, tuple(names[0]), ("y",), tuple(names[1]), attributes or {})
    return Graph("one", tuple(tensors), (operator,))


def layer_of(
    kind: str,
    inputs: list[Shape],
    parameters: list[Shape],
    output: Shape,
    attributes: dict[str, AttributeValue] | None = None,
) -> Layer:
    (layer,) = layers_of(graph_of(kind, inputs, parameters, output, attributes)).layers.values()
    return layer


def why_not(kind: str, inputs: list[Shape], parameters: list[Shape], output: Shape) -> str:
    """Return why the operator is left out, in a graph with a Neg that is a layer."""
    graph = graph_of(kind, inputs, parameters, output)
    more = (Tensor.of_shape("a", (4,), 8, Role.INPUT), Tensor.of_shape("b", (4,), 8, Role.OUTPUT))
    operators = (*graph.operators, Operator("neg", "Neg", ("a",), ("b",)))
    found = layers_of(Graph("two", (*graph.tensors, *more), operators))
    assert list(found.layers) == ["neg"]
    (left_out,) = found.left_out
    assert (left_out.operator, left_out.kind) == ("op", kind)
    return left_out.why


def test_a_convolution_has_its_attributes() -> None:
    attributes: dict[str, AttributeValue] = {
        "kernel_shape": [3, 5], "strides": [2, 1], "dilations": [1, 2], "pads": [1, 0, 1, 0], "group": 2,
    }  # fmt: skip
    layer = layer_of("Conv", [(2, 8, 9, 20)], [(6, 4, 3, 5)], (2, 6, 5, 12), attributes)
    assert layer == Layer(2, 3, 4, 5, 12, 3, 5, 2, (2, 1), (1, 2), (1, 0, 1, 0))
    assert [axis.size for axis in layer.axes] == [9, 20]


def test_zeros_that_no_window_reaches_are_no_padding() -> None:
    """The windows are 7x7 of stride 2 over 224: the last one ends two behind the image, which has three zeros there."""
    attributes: dict[str, AttributeValue] = {"kernel_shape": [7, 7], "strides": [2, 2], "pads": [3, 3, 3, 3]}
    layer = layer_of("Conv", [(1, 3, 224, 224)], [(64, 3, 7, 7)], (1, 64, 112, 112), attributes)
    assert layer.padding == (3, 3, 2, 2)
    assert layer.elements("input") == 3 * 224 * 224


def test_a_depthwise_convolution_is_as_many_groups_as_channels() -> None:
    layer = layer_of("Conv", [(1, 32, 8, 8)], [(32, 1, 3, 3)], (1, 32, 6, 6), {"group": 32})
    assert (layer.k, layer.c, layer.g, layer.macs) == (1, 1, 32, 32 * 36 * 9)


def test_a_convolution_along_one_dimension_has_no_height() -> None:
    layer = layer_of("Conv", [(1, 4, 10)], [(8, 4, 3)], (1, 8, 8))
    assert (layer.p, layer.q, layer.r, layer.s) == (1, 8, 1, 3)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [((1, 3, 3), (2 * 4, 6, 6, 3, 3)), ((3, 1, 1), (2, 2, 64, 3, 1)), ((1, 1, 1), (2, 4 * 8, 8, 1, 1))],
)
def test_dimensions_along_which_nothing_slides_are_a_batch(kernel: Shape, expected: Shape) -> None:
    output = (2, 5, *(size - taps + 1 for size, taps in zip((4, 8, 8), kernel, strict=True)))
    layer = layer_of("Conv", [(2, 3, 4, 8, 8)], [(5, 3, *kernel)], output)
    assert (layer.n, layer.p, layer.q, layer.r, layer.s) == expected
    assert layer.macs == prod(output) * 3 * prod(kernel)


def test_a_window_along_four_dimensions_is_left_out() -> None:
    why = why_not("Conv", [(1, 3, 4, 8, 8, 8)], [(5, 3, 3, 3, 3, 3)], (1, 5, 2, 6, 6, 6))
    assert "more than three dimensions" in why


def test_padding_that_follows_from_the_output_is_not_taken_for_none() -> None:
    """ONNX computes the padding itself if `output_shape` is given: here one element at each end."""
    attributes: dict[str, AttributeValue] = {"strides": [2], "kernel_shape": [4], "output_shape": [8]}
    graph = graph_of("ConvTranspose", [(1, 2, 4)], [(2, 3, 4)], (1, 3, 8), attributes)
    (left_out,) = layers_of(graph).left_out
    assert "its padding is not written out" in left_out.why
    assert NestDerivation(graph, 24).of(graph.operators[0]) is None


def test_phases_of_a_transposed_convolution_have_names() -> None:
    attributes: dict[str, AttributeValue] = {"strides": [2, 2], "kernel_shape": [2, 2]}
    found = layers_of(graph_of("ConvTranspose", [(1, 2, 4, 4)], [(2, 3, 2, 2)], (1, 3, 8, 8), attributes))
    assert list(found.layers) == ["op (0, 0)", "op (0, 1)", "op (1, 0)", "op (1, 1)"]
    assert len(found.distinct) == 1


def test_a_pool_has_no_weights() -> None:
    attributes: dict[str, AttributeValue] = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    layer = layer_of("MaxPool", [(1, 64, 112, 112)], [], (1, 64, 56, 56), attributes)
    assert layer == Layer(p=56, q=56, r=3, s=3, g=64, stride=(2, 2), padding=(1, 1, 0, 0), has_weight=False)
    whole = layer_of("GlobalAveragePool", [(1, 64, 7, 5)], [], (1, 64, 1, 1))
    assert whole == Layer(r=7, s=5, g=64, has_weight=False)


@pytest.mark.parametrize(
    ("first", "second", "output", "expected"),
    [
        ((4, 8), (8, 6), (4, 6), Layer(n=4, c=8, k=6)),
        ((2, 4, 8), (8, 6), (2, 4, 6), Layer(n=8, c=8, k=6)),
        ((2, 3, 4, 8), (2, 3, 8, 6), (2, 3, 4, 6), Layer(n=4, c=8, k=6, g=6)),
        ((4, 8), (3, 8, 6), (3, 4, 6), Layer(n=18, c=8, k=4)),
        ((8,), (8, 6), (6,), Layer(n=1, c=8, k=6)),
        ((4, 8), (8,), (4,), Layer(n=4, c=8, k=1)),
    ],
)
def test_a_product_of_matrices(first: Shape, second: Shape, output: Shape, expected: Layer) -> None:
    layer = layer_of("MatMul", [first, second], [], output)
    assert layer == expected
    assert layer.macs == prod(output) * first[-1]
    assert {layer.elements("input"), layer.elements("weight")} == {prod(first), prod(second)}


def test_products_that_share_a_part_of_their_batch_have_the_rest_as_rows_and_columns() -> None:
    layer = layer_of("MatMul", [(2, 1, 5, 4, 8), (1, 3, 5, 8, 6)], [], (2, 3, 5, 4, 6))
    assert layer == Layer(n=2 * 4, c=8, k=3 * 6, g=5)
    assert "do not spread" in why_not("MatMul", [(2, 4, 8), (3, 8, 6)], [], (6, 4, 6))


def test_a_gemm_reads_flat_inputs() -> None:
    assert layer_of("Gemm", [(2, 16, 2, 2)], [(10, 64), (10,)], (2, 10)) == Layer(n=2, c=64, k=10)


def test_attention_is_two_products_for_each_head() -> None:
    found = layers_of(graph_of("Attention", [(2, 4, 10, 8), (2, 4, 12, 8), (2, 4, 12, 6)], [], (2, 4, 10, 6)))
    assert dict(found.layers) == {
        "op (scores)": Layer(n=10, k=12, c=8, g=8),
        "op (values)": Layer(n=10, k=6, c=12, g=8),
    }


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ([(1, 8, 4, 5), (1, 8, 4, 5)], Layer(g=160)),
        ([(1, 8, 4, 5), (8, 1, 1)], Layer(n=20, g=8)),
        ([(1, 8, 1, 1), (1, 8, 4, 5)], Layer(n=20, g=8)),
        ([(1, 8, 4, 5)], Layer(p=4, q=5, g=8, has_weight=False)),
    ],
)
def test_element_by_element(shapes: list[Shape], expected: Layer) -> None:
    layer = layer_of("Mul" if len(shapes) > 1 else "Relu", shapes, [], (1, 8, 4, 5))
    assert layer == expected
    read = {layer.elements("input"), layer.elements("weight")} - {0}
    assert read == {prod(shape) for shape in shapes}


def test_two_single_elements_are_two_operands() -> None:
    layer = layer_of("Add", [(1, 1, 1, 1), (1, 1, 1, 1)], [], (1, 1, 1, 1))

    assert layer == Layer()
    assert layer.elements("input") == layer.elements("weight") == 1


def test_a_single_element_that_meets_many_is_a_constant() -> None:
    assert not layer_of("Mul", [(1, 8, 4, 5), (1,)], [], (1, 8, 4, 5)).has_weight


def test_what_is_no_loop_nest_is_left_out() -> None:
    assert "no loop nest" in why_not("Concat", [(1, 2), (1, 2)], [], (1, 4))
    assert "reads nothing" in why_not("Relu", [], [], (1, 4))
    assert "fit its output" in why_not("Conv", [(1, 2, 1, 1)], [(3, 2)], (1, 3, 1, 1))
    assert "another shape" in why_not("Conv", [(1, 2, 9)], [(3, 2, 1, 1)], (1, 3, 1, 1))
    assert "does not spread" in why_not("Mul", [(1, 8), (3,)], [], (1, 8))


@pytest.mark.parametrize(
    ("kind", "why"), [("Transpose", "moves elements"), ("Softmax", "row-wise reduction"), ("Where", "chooses elements")]
)
def test_the_reason_is_that_of_the_kind(kind: str, why: str) -> None:
    assert why in why_not(kind, [(2, 3)], [], (2, 3))


def test_kinds_that_onnxruntime_fuses_are_the_nests_of_their_products() -> None:
    turned: dict[str, AttributeValue] = {"transA": 1, "transB": 1}
    expected = layer_of("MatMul", [(4, 8)], [(8, 6)], (4, 6))
    assert layer_of("com.microsoft::FusedMatMul", [(8, 4)], [(6, 8)], (4, 6), turned) == expected
    assert layer_of("com.microsoft::FusedGemm", [(8, 4)], [(6, 8)], (4, 6), turned) == expected
    pads: dict[str, AttributeValue] = {"pads": [1, 1, 1, 1]}
    conv = layer_of("Conv", [(1, 6, 4, 4)], [(8, 6, 3, 3)], (1, 8, 4, 4), pads)
    assert layer_of("com.microsoft::FusedConv", [(1, 6, 4, 4)], [(8, 6, 3, 3)], (1, 8, 4, 4), pads) == conv


def test_packed_weights_have_the_sizes_that_are_said() -> None:
    """The operator has 64 x 24 weights of 4 bits in blocks of 32, two in a byte."""
    attributes: dict[str, AttributeValue] = {"K": 64, "N": 24, "bits": 4, "block_size": 32}
    layer = layer_of("com.microsoft::MatMulNBits", [(2, 5, 64)], [(24, 2, 16), (48,)], (2, 5, 24), attributes)
    assert layer == Layer(n=10, c=64, k=24)
    assert layer.macs == sum(64 for _row in range(2 * 5) for _column in range(24))


def test_views_are_read_as_the_operator_sees_them() -> None:
    """A channel shuffle keeps its groups separate; a per-channel scale may have lost its dimensions of one."""
    seen = layer_of("Conv", [(1, 2, 3, 4, 4)], [(8, 6, 3, 3)], (1, 8, 4, 4), {"pads": [1, 1, 1, 1]})
    assert seen == layer_of("Conv", [(1, 6, 4, 4)], [(8, 6, 3, 3)], (1, 8, 4, 4), {"pads": [1, 1, 1, 1]})
    strided: dict[str, AttributeValue] = {"strides": [2, 2], "pads": [1, 1, 1, 1]}
    seen = layer_of("Conv", [(1, 2, 3, 8, 8)], [(8, 6, 3, 3)], (1, 8, 4, 4), strided)
    assert seen == layer_of("Conv", [(1, 6, 8, 8)], [(8, 6, 3, 3)], (1, 8, 4, 4), strided)
    assert layer_of("Mul", [(1, 8, 4, 5), (8,)], [], (1, 8, 4, 5)) == Layer(n=20, g=8)
    assert layer_of("Gemm", [(2, 64, 1, 1)], [(10, 64, 1, 1)], (2, 10)) == Layer(n=2, c=64, k=10)


@pytest.mark.parametrize("name", bundled_networks())
def test_every_bundled_network_has_layers(name: str) -> None:
    found, is_one_layer = layers_named(name, Reading(), Precision())
    assert not is_one_layer
    kinds = {one.kind for one in found.left_out}
    assert not kinds & {"Gemm", "MatMul", "Attention", "Add", "Mul"}
    assert sum(map(len, found.distinct.values())) == len(found.layers)


def test_the_convolutions_of_resnet50_are_those_of_the_table() -> None:
    """The 24 distinct layers have the published 4.09 billion multiply-accumulates."""
    found, _ = layers_named("resnet50", Reading(), Precision())
    products = {layer for layer in found.layers.values() if layer.has_weight and layer.c > 1}
    assert sum(layer.macs for layer in found.layers.values() if layer in products) == pytest.approx(4.089e9, rel=1e-3)
    assert {layer.macs for layer in products} == {layer.macs for layer in layer_table("resnet50").values()}


@pytest.mark.parametrize("name", layer_tables())
def test_layer_tables_are_networks(name: str) -> None:
    found, is_one_layer = layers_named(f"cosa:{name}", Reading(), Precision())
    assert not is_one_layer
    assert dict(found.layers) == dict(layer_table(name))


def test_a_layer_of_a_network() -> None:
    found, is_one_layer = layers_named("resnet50:layer1.0.conv2", Reading(), Precision(16))
    assert is_one_layer
    (layer,) = found.layers.values()
    assert (layer.r, layer.input_bits, layer.partial_bits) == (3, 16, 32)
    (named,) = layers_named("cosa:resnet50:_outputs_input.2", Reading(), Precision())[0].layers
    assert named == "_outputs_input.2"


def test_elements_of_a_network_have_its_widths_without_a_number_of_bits() -> None:
    (layer,) = layers_named("resnet50:layer1.0.conv2", Reading(), Precision(None))[0].layers.values()
    assert (layer.input_bits, layer.weight_bits, layer.output_bits, layer.partial_bits) == (32, 32, 32, 32)
    (step, *_) = layers_named("lstm", Reading(), Precision(None))[0].layers.values()
    assert (step.input_bits, step.weight_bits, step.output_bits) == (16, 16, 16)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("pool:n1k2", "unknown layer or network"),
        ("conv:n1x2", "gives no sizes"),
        ("resnet50:nothing", "no layer 'nothing'"),
        ("cosa:nothing", "no layer table 'nothing'"),
        ("s3d:nothing", "expected one of its layers"),
    ],
)
def test_unknown_layers_are_refused(source: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        layers_named(source, Reading(), Precision())


def test_what_was_left_out_says_why_when_asked_for() -> None:
    with pytest.raises(UsageError, match="is no layer: its kind"):
        layers_named("transformer:" + left_out_of("transformer"), Reading(), Precision())


def left_out_of(network: str) -> str:
    return layers_named(network, Reading(), Precision())[0].left_out[0].operator


def test_a_network_without_layers_is_refused() -> None:
    with pytest.raises(InputError, match="has no layers"):
        NetworkLayers("empty", {})


def test_sums_are_as_wide_as_every_memory_of_outputs_has_room_for() -> None:
    assert Precision(8).on(load_accelerator("meta-prototype")).of(Layer()).partial_bits == 16
    assert Precision(8).on(load_accelerator("simba")).of(Layer()).partial_bits == 24
    assert Precision(8, 20).on(load_accelerator("meta-prototype")).of(Layer()).partial_bits == 20
