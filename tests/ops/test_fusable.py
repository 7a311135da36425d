"""Networks as fusable layers, and networks in which only some layers are fusable."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.arch.memory import Operand
from onchip.errors import InputError
from onchip.formats.own.graph_json import load_network
from onchip.ir.graph import Graph
from onchip.ir.layer import WEIGHT, Layer
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.window import Window
from onchip.ops.fusable import FeatureMap, FusableLayer, FusableNetwork, Layout, Read
from onchip.ops.fusable_reading import PartlyFusable, fusable_of, partly_fusable_of
from onchip.ops.layers_of import Precision, layers_of
from onchip.transform.rewrite.activations import fuse
from support.stacks import legal_spans
from support.tiled import Network

Shape = tuple[int, ...]
Step = tuple[str, str, tuple[str, ...], Shape, Shape | None, dict[str, AttributeValue]]
PIXEL = Window(1, 1, 1, 0)
CONVOLUTION: dict[str, AttributeValue] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
FUSABLE_NETWORKS = (
    *("resnet50", "resnext50_32x4d", "lenet5", "minerva", "vgg_cifar", "elu_cifar100", "large_elu"),
    *("dmcnn-vd", "mc-cnn", "mobilenetv1", "resnet18"),
    *("dmcnn-vd-defines", "fsrcnn-defines", "mc-cnn-defines", "mobilenetv1-defines", "resnet18-defines"),
)


def step(
    name: str,
    kind: str,
    inputs: str,
    output: Shape,
    weight: Shape | None = None,
    attributes: dict[str, AttributeValue] | None = None,
) -> Step:
    """Return an operator that reads the operators that `inputs` names, or the network's input x."""
    return name, kind, tuple(inputs.split()), output, weight, attributes or {}


def graph_of(image: Shape, *steps: Step, second: Shape | None = None) -> Graph:
    """Return a graph in which each operator writes a tensor of its name; the network has the input x, and perhaps y."""
    tensors = [Tensor.of_shape("x", image, 8, Role.INPUT)]
    if second is not None:
        tensors.append(Tensor.of_shape("y", second, 8, Role.INPUT))
    operators = []
    read = {name for one in steps for name in one[2]}
    for name, kind, inputs, output, weight, attributes in steps:
        role = Role.ACTIVATION if name in read else Role.OUTPUT
        tensors.append(Tensor.of_shape(name, output, 8, role))
        parameters: tuple[str, ...] = ()
        if weight is not None:
            parameters = (f"{name}.weight",)
            tensors.append(Tensor.of_shape(parameters[0], weight, 8, Role.PARAMETER))
        operators.append(Operator(name, kind, inputs, (name,), parameters, attributes))
    return Graph("made", tuple(tensors), tuple(operators))


def last(graph: Graph) -> FusableLayer:
    return fusable_of(graph).layers[-1]


def pixels(window: Window, output: int, size: int) -> set[int]:
    """Return the map's pixels that an output pixel reads."""
    first = output * window.stride - window.pad
    return {first + tap * window.dilation for tap in range(window.kernel)} & set(range(size))


def sizes(network: FusableNetwork, read: Read) -> tuple[tuple[Window, int], tuple[Window, int]]:
    source = network.maps[read.source]
    return (read.rows, source.rows), (read.columns, source.columns)


@pytest.mark.parametrize("name", FUSABLE_NETWORKS)
def test_a_layers_windows_over_what_it_reads_give_the_size_of_its_output(name: str) -> None:
    network = fusable_of(fuse(load_network(name)))
    for layer in network.layers:
        output = layer.output
        top, left, bottom, right = layer.layer.padding
        for read in layer.reads:
            outputs, pads = (output.rows, output.columns), ((top, bottom), (left, right))
            for (window, size), count, (_, behind) in zip(sizes(network, read), outputs, pads, strict=True):
                reached = (count - 1) * window.stride - window.pad + window.reach
                cropped = max(-window.pad, 0)  # equal to the leading crop, or less than a stride
                assert reached - behind <= size < reached + window.stride + cropped, layer.name


@pytest.mark.parametrize("name", FUSABLE_NETWORKS)
def test_whole_layers_have_the_macs_of_layers_of(name: str) -> None:
    graph = fuse(load_network(name))
    network = fusable_of(graph)
    assert {one.name: one.layer.macs for one in network.layers} == {
        name: layer.macs for name, layer in layers_of(graph).layers.items()
    }


@pytest.mark.parametrize("name", FUSABLE_NETWORKS)
def test_layers_have_the_weights_of_their_operators_and_read_what_was_made_before(name: str) -> None:
    graph = fuse(load_network(name))
    network = fusable_of(graph)
    made = {one.name for one in network.inputs}
    for layer in network.layers:
        shapes = [graph.tensor[each].shape or () for each in graph.operator[layer.name].parameters]
        assert layer.weight_bits == 8 * sum(prod(shape) for shape in shapes if len(shape) in (2, 4))
        assert {read.source for read in layer.reads} <= made
        made.add(layer.output.name)


@given(
    size=st.integers(7, 20),
    kernel=st.integers(1, 4),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
    pads=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    groups=st.sampled_from([1, 2, 4]),
)
def test_a_convolution_sees_the_pixels_that_its_attributes_say(
    size: int, kernel: int, stride: int, dilation: int, pads: tuple[int, int], groups: int
) -> None:
    """Rows slide; columns are read one by one."""
    count = (size + sum(pads) - dilation * (kernel - 1) - 1) // stride + 1
    attributes: dict[str, AttributeValue] = {
        "kernel_shape": [kernel, 1],
        "strides": [stride, 1],
        "dilations": [dilation, 1],
        "pads": [pads[0], 0, pads[1], 0],
        "group": groups,
    }
    graph = graph_of(
        (1, 4, size, 5), step("conv", "Conv", "x", (1, 8, count, 5), (8, 4 // groups, kernel, 1), attributes)
    )
    (layer,) = fusable_of(graph).layers
    (read,) = layer.reads
    assert read.columns == PIXEL
    assert (layer.layer.g, layer.layer.c, layer.layer.k) == (groups, 4 // groups, 8 // groups)
    for output in range(count):
        seen = {output * stride - pads[0] + tap * dilation for tap in range(kernel)}
        assert pixels(read.rows, output, size) == {pixel for pixel in seen if 0 <= pixel < size}


@given(
    size=st.integers(2, 8),
    pad=st.integers(0, 4),
    stride=st.integers(1, 4),
    more=st.integers(0, 3),
    depth=st.integers(1, 3),
)
def test_a_transposed_convolution_sees_what_its_outputs_over_an_input_are_made_of(
    size: int, pad: int, stride: int, more: int, depth: int
) -> None:
    """Input i adds to the outputs i * stride + tap - pad; a window of fewer taps would be wrong for a large map."""
    more %= stride
    kernel = 2 * pad + stride - more
    attributes: dict[str, AttributeValue] = {
        "kernel_shape": [kernel, kernel],
        "strides": [stride, stride],
        "pads": [pad] * 4,
        "output_padding": [more, more],
    }
    large = size * stride
    up = step("up", "ConvTranspose", "x", (1, 2, large, large), (depth, 2, kernel, kernel), attributes)
    (layer,) = fusable_of(graph_of((1, depth, size, size), up)).layers
    assert layer.output == FeatureMap("up", 2 * stride * stride, size, size)
    assert (layer.layer.k, layer.layer.c) == (2 * stride * stride, depth)
    offsets = set()
    for square in range(size):
        made_of = {i for i in range(size) for tap in range(kernel) if (i * stride + tap - pad) // stride == square}
        assert made_of <= pixels(layer.reads[0].rows, square, size)
        offsets |= {i - square for i in made_of}
    window = layer.reads[0].rows
    assert layer.layer.macs == size**2 * layer.layer.k * depth * window.kernel**2
    if size > kernel:
        assert offsets == set(range(-window.pad, window.kernel - window.pad))


def test_an_addition_reads_two_maps_and_has_no_weights() -> None:
    layer = last(graph_of((1, 4, 5, 6), step("add", "Add", "x y", (1, 4, 5, 6)), second=(1, 4, 5, 6)))
    assert layer.reads == (Read("x", PIXEL, PIXEL), Read("y", PIXEL, PIXEL))
    assert (layer.layer, layer.weight_bits) == (Layer(g=120), 0)


def test_a_scale_of_each_channel_is_a_weight() -> None:
    layer = last(graph_of((1, 4, 5, 6), step("scale", "Mul", "x", (1, 4, 5, 6), (1, 4, 1, 1))))
    assert (layer.layer, layer.weight_bits) == (Layer(g=4, p=5, q=6), 32)
    assert layer.reads == (Read("x", PIXEL, PIXEL),)


@given(start=st.integers(0, 3), step_=st.integers(1, 3), count=st.integers(1, 3), again=st.integers(0, 1))
def test_an_addition_sees_the_pixels_that_slices_leave(start: int, step_: int, count: int, again: int) -> None:
    """Rows are cut twice: every `step`th from `start` on, then `again` fewer in front."""
    rows = start + step_ * (count + again)
    whole = list(range(rows))
    kept = whole[start::step_][again : again + count]
    first: dict[str, AttributeValue] = {"starts": [start], "ends": [rows], "axes": [2], "steps": [step_]}
    then: dict[str, AttributeValue] = {"starts": [again], "ends": [again + count], "axes": [-2]}
    graph = graph_of(
        (1, 4, rows, 6),
        step("once", "Slice", "x", (1, 4, len(whole[start::step_]), 6), attributes=first),
        step("twice", "Slice", "once", (1, 4, count, 6), attributes=then),
        step("add", "Add", "twice y", (1, 4, count, 6)),
        second=(1, 4, count, 6),
    )
    (layer,) = fusable_of(graph).layers
    cut = layer.reads[0]
    assert (cut.source, cut.columns) == ("x", PIXEL)
    assert [pixels(cut.rows, output, rows) for output in range(count)] == [{pixel} for pixel in kept]
    assert layer.reads[1] == Read("y", PIXEL, PIXEL)


def test_a_slice_from_the_end_crops_too() -> None:
    cut: dict[str, AttributeValue] = {"starts": [-4, -3], "ends": [-1, 9], "axes": [2, 3]}
    graph = graph_of(
        (1, 4, 9, 9), step("cut", "Slice", "x", (1, 4, 3, 3), attributes=cut), step("neg", "Neg", "cut", (1, 4, 3, 3))
    )
    assert last(graph).reads == (Read("x", Window(1, 1, 1, -5), Window(1, 1, 1, -6)),)


@pytest.mark.parametrize("pads", [[0, 1, 2, 0], [2, 2, 0, 3], [0, 0, 1, 1]])
def test_zeros_around_a_map_are_those_of_the_windows_that_slide_over_it(pads: list[int]) -> None:
    """Explicit zeros and the padding of the convolution look the same to the nest: neither is stored or moved."""
    top, left, bottom, right = pads
    rows, columns = 7 + top + bottom, 6 + left + right
    after = ((rows + 2 - 3) // 2 + 1, (columns + 2 - 3) // 2 + 1)
    own: dict[str, AttributeValue] = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    together: dict[str, AttributeValue] = {**own, "pads": [top + 1, left + 1, bottom + 1, right + 1]}
    weight = (5, 4, 3, 3)
    wide = step("wide", "Pad", "x", (1, 4, rows, columns), attributes={"pads": [0, 0, top, left, 0, 0, bottom, right]})
    apart = graph_of((1, 4, 7, 6), wide, step("op", "Conv", "wide", (1, 5, *after), weight, own))
    at_once = graph_of((1, 4, 7, 6), step("op", "Conv", "x", (1, 5, *after), weight, together))
    assert fusable_of(apart).layers == fusable_of(at_once).layers


def test_zeros_beside_the_channels_are_not_read() -> None:
    graph = graph_of(
        (1, 2, 5, 5),
        step("pad", "Pad", "x", (1, 4, 5, 5), attributes={"pads": [0, 0, 0, 0, 0, 2, 0, 0]}),
        step("add", "Add", "pad y", (1, 4, 5, 5)),
        second=(1, 4, 5, 5),
    )
    network = fusable_of(graph)
    assert network.maps["x"].channels == 2
    assert network.layers[0].reads[0].source == "x"


@pytest.mark.parametrize("flattened", [False, True])
def test_a_fully_connected_layer_is_a_convolution_to_one_pixel(flattened: bool) -> None:
    product = step("fc", "Gemm", "flat" if flattened else "x", (1, 10), (10, 4 * 5 * 6))
    flat = [step("flat", "Flatten", "x", (1, 120))] if flattened else []
    layer = last(graph_of((1, 4, 5, 6), *flat, product))
    assert layer.layer == Layer(k=10, c=4, r=5, s=6)
    assert layer.reads == (Read("x", Window(5, 1, 1, 0), Window(6, 1, 1, 0)),)
    assert (layer.output, layer.weight_bits) == (FeatureMap("fc", 10, 1, 1), 8 * 1200)


def test_products_of_rows_follow_each_other() -> None:
    graph = graph_of(
        (3, 20), step("first", "Gemm", "x", (3, 30), (30, 20)), step("then", "MatMul", "first", (3, 5), (30, 5))
    )
    first, then = fusable_of(graph).layers
    assert first.layer == Layer(p=3, k=30, c=20)
    assert then.layer == Layer(p=3, k=5, c=30)
    assert first.output == FeatureMap("first", 30, 3, 1, layout=Layout.MATRIX)


def test_a_mean_over_all_pixels_is_a_global_pool() -> None:
    mean = last(graph_of((1, 4, 5, 6), step("mean", "ReduceMean", "x", (1, 4), attributes={"axes": [2, 3]})))
    pool = last(graph_of((1, 4, 5, 6), step("mean", "GlobalAveragePool", "x", (1, 4, 1, 1))))
    assert mean == pool
    assert mean.layer == Layer(g=4, r=5, s=6, has_weight=False)


def test_what_leaves_the_graph_are_outputs_and_the_maps_that_views_show() -> None:
    """A vector of all elements of `neg` leaves, and a crop of `twice`."""
    cut: dict[str, AttributeValue] = {"starts": [1], "ends": [4], "axes": [2]}
    graph = graph_of(
        (1, 4, 5, 6),
        step("neg", "Neg", "x", (1, 4, 5, 6)),
        step("flat", "Flatten", "neg", (1, 120)),
        step("twice", "Add", "neg neg", (1, 4, 5, 6)),
        step("cut", "Slice", "twice", (1, 4, 3, 6), attributes=cut),
        step("inner", "Add", "twice neg", (1, 4, 5, 6)),
        step("last", "Neg", "inner", (1, 4, 5, 6)),
    )
    assert fusable_of(graph).outputs == ("neg", "twice", "last")
    tensors = tuple(replace(one, role=Role.OUTPUT) if one.name == "inner" else one for one in graph.tensors)
    assert fusable_of(replace(graph, tensors=tensors)).outputs == ("neg", "twice", "inner", "last")


def test_fused_activations_cost_nothing() -> None:
    graph = graph_of(
        (1, 4, 5, 6),
        step("conv", "Conv", "x", (1, 4, 5, 6), (4, 4, 3, 3), CONVOLUTION),
        step("relu", "Relu", "conv", (1, 4, 5, 6)),
    )
    (fused,) = fusable_of(fuse(graph)).layers
    convolution, relu = fusable_of(graph).layers
    assert fused.layer == convolution.layer
    assert (fused.output.name, relu.reads) == ("relu", (Read("conv", PIXEL, PIXEL),))


def test_bits_are_as_asked() -> None:
    network = fusable_of(load_network("lenet5"), Precision(16, 40))
    assert {one.bits for one in network.maps.values()} == {16}
    for layer in network.layers:
        nest = layer.layer
        assert (nest.input_bits, nest.weight_bits, nest.output_bits, nest.partial_bits) == (16, 16, 16, 40)
        assert layer.weight_bits == 16 * nest.elements(WEIGHT)
    assert {one.layer.partial_bits for one in fusable_of(load_network("lenet5")).layers} == {24}


HALF: dict[str, AttributeValue] = {"starts": [1], "ends": [4], "axes": [2]}
TWICE: dict[str, AttributeValue] = {"kernel_shape": [2, 2], "strides": [2, 2]}
IMAGE = (1, 4, 6, 6)
REFUSED = {
    "Concat 'op' cannot be fused: it joins other than whole maps": [step("op", "Concat", "x x", (1, 8, 6, 6))],
    "Softmax 'op' cannot be fused: its kind is no loop nest": [
        step("op", "Softmax", "x", IMAGE, attributes={"axis": 1})
    ],
    "Sum 'op' cannot be fused: its operands are not one or two": [step("op", "Sum", "x x x", IMAGE)],
    "Mul 'op' cannot be fused: its parameter is neither one element nor 4": [
        step("op", "Mul", "x", IMAGE, (1, 1, 1, 6))
    ],
    "Conv 'op' cannot be fused: it reads 4 x 3 x 6 of 'x'": [
        step("cut", "Slice", "x", (1, 4, 3, 6), attributes=HALF),
        step("op", "Conv", "cut", (1, 4, 3, 6), (4, 4, 3, 3), CONVOLUTION),
    ],
    "Slice 'op' cannot be fused: it leaves out some of the channels between others, or reverses": [
        step("op", "Slice", "x", (1, 2, 6, 6), attributes={"starts": [0], "ends": [4], "axes": [1], "steps": [2]})
    ],
    "Slice 'op' cannot be fused: it leaves a part of the channels that zeros were put behind": [
        step("wide", "Pad", "x", (1, 6, 6, 6), attributes={"pads": [0, 0, 0, 0, 0, 2, 0, 0]}),
        step("op", "Slice", "wide", (1, 2, 6, 6), attributes={"starts": [0], "ends": [2], "axes": [1]}),
    ],
    "Slice 'op' cannot be fused: its attributes do not say what": [step("op", "Slice", "x", (1, 4, 3, 6))],
    "Pad 'op' cannot be fused: it pads more than zeros": [
        step("op", "Pad", "x", (2, 4, 6, 6), attributes={"pads": [1, 0, 0, 0, 0, 0, 0, 0]})
    ],
    "Neg 'op' cannot be fused: it reads 4 x 8 x 6": [
        step("wide", "Pad", "x", (1, 4, 8, 6), attributes={"pads": [0, 0, 1, 0, 0, 0, 1, 0]}),
        step("op", "Neg", "wide", (1, 4, 8, 6)),
    ],
    "Reshape 'op' cannot be fused: it makes [1, 4, 4, 9] of 4 x 6 x 6": [step("op", "Reshape", "x", (1, 4, 4, 9))],
    "ReduceMean 'op' cannot be fused: it does not leave one pixel": [
        step("op", "ReduceMean", "x", (1, 1, 6, 6), attributes={"axes": [1]})
    ],
    "ConvTranspose 'op' cannot be fused: Relu 'relu' reads it": [
        step("op", "ConvTranspose", "x", (1, 2, 12, 12), (4, 2, 2, 2), TWICE),
        step("relu", "Relu", "op", (1, 2, 12, 12)),
    ],
    "ConvTranspose 'op' cannot be fused: its output is not 2 x 2 times": [
        step("op", "ConvTranspose", "x", (1, 2, 13, 13), (4, 2, 3, 3), {"kernel_shape": [3, 3], "strides": [2, 2]})
    ],
    "ConvTranspose 'op' cannot be fused: it is transposed and dilated": [
        step("op", "ConvTranspose", "x", (1, 2, 12, 12), (4, 2, 2, 2), {**TWICE, "dilations": [2, 2]})
    ],
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_fused_is_refused_by_name_with_what_can(message: str) -> None:
    with pytest.raises(InputError) as refused:
        fusable_of(graph_of(IMAGE, step("neg", "Neg", "x", IMAGE), *REFUSED[message]))
    text = str(refused.value)
    assert text.startswith(f"made: {message}")
    assert "expected convolutions, pools, one or two maps of one size" in text
    assert "\n" not in text


def test_a_map_of_three_dimensions_is_a_matrix_unless_others_have_four() -> None:
    (layer,) = fusable_of(graph_of((2, 4, 36), step("op", "Neg", "x", (2, 4, 36)))).layers
    assert layer.output == FeatureMap("op", 72, 4, 1, layout=Layout.MATRIX)
    with pytest.raises(InputError, match=r"Neg 'then' cannot be fused: 'x' is \[1, 4, 36\], not batch, channels, rows"):
        fusable_of(
            graph_of((1, 4, 36), step("then", "Neg", "x", (1, 4, 36)), step("op", "Reshape", "then", (1, 4, 6, 6)))
        )


@pytest.mark.parametrize(
    ("operator", "why"),
    [
        (step("op", "Reshape", "x", (20, 3)), "it changes the shape of a matrix"),
        (step("op", "MatMul", "x", (3, 20), (20, 20), attributes={"transA": 1}), "is no product of rows"),
        (step("op", "Softmax", "x", (3, 20), attributes={"axis": 0}), "its kind is no loop nest"),
    ],
)
def test_what_does_not_run_row_by_row_is_refused(operator: Step, why: str) -> None:
    with pytest.raises(InputError, match=why):
        fusable_of(graph_of((3, 20), operator))


def test_a_network_without_layers_is_refused() -> None:
    with pytest.raises(InputError, match="made: Softmax 'op' cannot be fused: its kind is no loop nest"):
        fusable_of(graph_of(IMAGE, step("op", "Softmax", "x", IMAGE, attributes={"axis": 1})))
    with pytest.raises(InputError, match="made: no operator is a layer"):
        fusable_of(graph_of(IMAGE, step("op", "Identity", "x", IMAGE)))


def test_operands_of_different_sizes_are_refused() -> None:
    graph = graph_of(IMAGE, step("op", "Mul", "x y", IMAGE), second=(1, 4, 1, 6))
    with pytest.raises(InputError, match="Mul 'op' cannot be fused: it reads 4 x 1 x 6 and writes 4 x 6 x 6"):
        fusable_of(graph)


def test_weights_that_are_made_by_the_network_are_refused() -> None:
    graph = graph_of(IMAGE, step("op", "Conv", "x y", IMAGE, attributes=CONVOLUTION), second=(4, 4, 3, 3))
    with pytest.raises(InputError, match="Conv 'op' cannot be fused: it reads 2 maps"):
        fusable_of(graph)


def test_an_operator_of_several_outputs_is_refused() -> None:
    names = ("a", "b")
    tensors = [Tensor.of_shape(name, (1, 2, 6, 6), 8, Role.OUTPUT) for name in names]
    image = Tensor.of_shape("x", IMAGE, 8, Role.INPUT)
    split = Operator("op", "TopK", ("x",), names, attributes={"axis": 1})
    add = Operator("neg", "Neg", ("x",), ("c",))
    graph = Graph("made", (image, *tensors, Tensor.of_shape("c", IMAGE, 8, Role.OUTPUT)), (add, split))
    with pytest.raises(InputError, match="TopK 'op' cannot be fused: it writes 2 tensors"):
        fusable_of(graph)


def test_with_each_tensor_s_own_bits_maps_and_loop_nests_have_those() -> None:
    found = fusable_of(of_bits({"x": 8, "w": 16, "y": 32}), Precision(None, 20))
    (layer,) = found.layers
    assert (found.inputs[0].bits, layer.output.bits) == (8, 32)
    assert (layer.layer.input_bits, layer.layer.weight_bits, layer.layer.output_bits) == (8, 16, 32)
    assert layer.layer.partial_bits == 32
    assert layer.weight_bits == 2 * 3 * 16


def test_a_view_of_other_bits_than_what_it_shows_is_not_fused() -> None:
    bits = {"x": 8, "w": 16, "y": 32, "flat": 16}
    assert fusable_of(of_bits({**bits, "flat": 32}), Precision(None)).maps
    with pytest.raises(InputError, match="has other bits than 'y', which it shows"):
        fusable_of(of_bits(bits), Precision(None))


def of_bits(bits: dict[str, int]) -> Graph:
    """Return a convolution of 1 x 1 and, if `flat` is named, a view of its output."""
    shapes = {"x": (1, 3, 4, 4), "w": (2, 3, 1, 1), "y": (1, 2, 4, 4), "flat": (1, 32)}
    roles = {"x": Role.INPUT, "w": Role.PARAMETER, "y": Role.OUTPUT, "flat": Role.OUTPUT}
    if "flat" in bits:
        roles["y"] = Role.ACTIVATION
    tensors = tuple(Tensor.of_shape(name, shapes[name], size, roles[name]) for name, size in bits.items())
    operators = [Operator("conv", "Conv", ("x",), ("y",), ("w",))]
    if "flat" in bits:
        operators.append(Operator("flatten", "Flatten", ("y",), ("flat",)))
    return Graph("tiny", tensors, tuple(operators))


SHAPE = (1, 4, 6, 6)


def chain(*kinds: str, outputs: str = "", more: tuple[Operator, ...] = ()) -> Graph:
    """Return operators a, b, c, ... in a chain that begins with the network's input x; then `more`."""
    names = [chr(ord("a") + at) for at in range(len(kinds))]
    operators = [
        Operator(name, kind, (before,), (name,))
        for name, kind, before in zip(names, kinds, ["x", *names[:-1]], strict=True)
    ]
    operators += more
    read = {name for operator in operators for name in operator.inputs}
    tensors = [Tensor.of_shape("x", SHAPE, 8, Role.INPUT)]
    for operator in operators:
        is_output = operator.name not in read or operator.name in outputs.split()
        tensors.append(Tensor.of_shape(operator.name, SHAPE, 8, Role.OUTPUT if is_output else Role.ACTIVATION))
    return Graph("chain", tuple(tensors), tuple(operators))


def spans(found: PartlyFusable) -> set[tuple[str, ...]]:
    """Return the legal stacks, by the names of their layers."""
    layers = found.network.layers
    return {tuple(one.name for one in layers[span.start : span.stop]) for span in legal_spans(found.network)}


def test_what_can_be_fused_whole_has_nothing_outside() -> None:
    graph = fuse(load_network("resnet50"))
    found = partly_fusable_of(graph)
    assert (found.network, found.outside) == (fusable_of(graph), ())


def test_no_stack_holds_both_sides_of_an_operator_outside() -> None:
    found = partly_fusable_of(chain("Exp", "Neg", "Softmax", "Abs", "Log"))
    (outside,) = found.outside
    assert (outside.operator, outside.kind) == ("c", "Softmax")
    assert "no loop nest" in outside.why
    assert [one.name for one in found.network.inputs] == ["x", "c"]
    assert found.network.outputs == ("e", "b")
    assert spans(found) == {("a",), ("b",), ("a", "b"), ("d",), ("e",), ("d", "e")}


def test_a_map_that_goes_around_an_operator_outside_ends_its_stack() -> None:
    """An addition bypasses the softmax of b: a stack of b and d would have to run c inside."""
    found = partly_fusable_of(chain("Exp", "Neg", "Softmax", more=(Operator("d", "Add", ("b", "c"), ("d",)),)))
    assert [one.operator for one in found.outside] == ["c"]
    assert spans(found) == {("a",), ("b",), ("a", "b"), ("d",)}


def test_operators_outside_may_stand_beside_a_stack() -> None:
    """The softmax of x runs before any stack."""
    beside = (Operator("s", "Softmax", ("x",), ("s",)), Operator("d", "Add", ("b", "s"), ("d",)))
    found = partly_fusable_of(chain("Exp", "Neg", more=beside))
    assert ("a", "b", "d") in spans(found)
    assert found.network.outputs == ("d", "x")


def test_of_a_network_of_which_nothing_can_be_fused_all_is_outside() -> None:
    found = partly_fusable_of(chain("CumSum", "CumSum"))
    assert [one.operator for one in found.outside] == ["a", "b"]
    assert found.network.layers == ()
    with pytest.raises(InputError, match="CumSum 'a' cannot be fused"):
        fusable_of(chain("CumSum", "CumSum"))


@pytest.mark.parametrize("kind", ["Flatten", "Identity"])
def test_a_view_that_shows_an_input_as_an_output_is_moved(kind: str) -> None:
    """The view is the only operator that writes a view of an input; a layer writes the views of its result."""
    found = partly_fusable_of(
        chain("Exp", more=(Operator("v", kind, ("x",), ("v",)), Operator("u", kind, ("a",), ("u",))))
    )
    assert [one.operator for one in found.outside] == ["v"]
    assert [one.name for one in found.network.layers] == ["a"]
    alone = partly_fusable_of(chain(kind))
    assert ([one.operator for one in alone.outside], alone.network.layers) == (["a"], ())


def test_what_is_outside_moves_each_tensor_once_in_elements_of_the_bits_asked_for() -> None:
    weight, outputs = Tensor.of_shape("w", (3, 3), 8, Role.PARAMETER), ("s", "t")
    tensors = [Tensor.of_shape(name, SHAPE, 32, Role.OUTPUT) for name in outputs]
    operator = Operator("s", "Twins", ("x", "x"), outputs, ("w", "w"))
    graph = Graph("twins", (Tensor.of_shape("x", SHAPE, 8, Role.INPUT), weight, *tensors), (operator,))
    elements = 4 * 6 * 6
    for bits, own, wide in ((4, 4, 4), (None, 8, 32)):
        (moved,) = partly_fusable_of(graph, Precision(bits)).network.moved
        assert moved.name == "s"
        assert moved.operands == (
            (Operand.INPUT, elements * own),
            (Operand.WEIGHT, -(-9 * own // 8) * 8),
            (Operand.OUTPUT, elements * wide),
            (Operand.OUTPUT, elements * wide),
        )


def test_what_reads_no_map_is_outside() -> None:
    """A sum of constants that no reader folds is such an operator."""
    network = Network(8)
    constant = network.add("Add", [], (1, 4, 6, 6), [network.parameter(1, 4, 6, 6), network.parameter(1, 4, 6, 6)])
    network.add("Mul", [network.input(1, 4, 6, 6), constant], (1, 4, 6, 6))
    found = partly_fusable_of(network.graph())
    assert [one.kind for one in found.outside] == ["Add"]
    assert len(found.network.layers) == 1


def test_a_transposed_convolution_by_a_computed_filter_runs_alone() -> None:
    tensors = (
        Tensor.of_shape("x", (1, 2, 4, 4), 8, Role.INPUT),
        Tensor.of_shape("w", (2, 3, 2, 2), 8, Role.INPUT),
        Tensor.of_shape("b", (3,), 8, Role.PARAMETER),
        Tensor.of_shape("y", (1, 3, 8, 8), 8, Role.OUTPUT),
    )
    operator = Operator("up", "ConvTranspose", ("x", "w"), ("y",), ("b",), {"strides": [2, 2]})
    (layer,) = partly_fusable_of(Graph("up", tensors, (operator,))).network.layers
    assert layer.runs_alone
    assert layer.layer.macs == 4 * 4 * 2 * 3 * 2 * 2
