"""Layers that cannot run in tiles, one map that gates another, views that prevent fusion, maps of other ranks."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.window import Window
from onchip.ops.fusable import AxisName, FeatureMap, FusableLayer, Stack, back_calculation
from onchip.ops.fusable_reading import PartlyFusable, fusable_of, partly_fusable_of
from onchip.ops.nests import layer_of_tile
from onchip.transform.groups.stacks import greedy_stacks, one_stack
from support.stacks import legal_spans

Shape = tuple[int, ...]
Step = tuple[str, str, str, Shape, Mapping[str, Shape], Mapping[str, AttributeValue]]


def graph_of(inputs: Mapping[str, Shape], *steps: Step) -> Graph:
    """Return a graph of steps (name, kind, inputs, output, parameters, attributes); unread tensors are outputs."""
    tensors = [Tensor.of_shape(name, shape, 8, Role.INPUT) for name, shape in inputs.items()]
    read = {name for one in steps for name in one[2].split()}
    operators = []
    for name, kind, sources, output, parameters, attributes in steps:
        tensors.append(Tensor.of_shape(name, output, 8, Role.ACTIVATION if name in read else Role.OUTPUT))
        tensors += [Tensor.of_shape(one, shape, 8, Role.PARAMETER) for one, shape in parameters.items()]
        operators.append(Operator(name, kind, tuple(sources.split()), (name,), tuple(parameters), dict(attributes)))
    return Graph("made", tuple(tensors), tuple(operators))


def step(name: str, kind: str, sources: str, output: Shape, **parameters: Shape) -> Step:
    return name, kind, sources, output, parameters, {}


def layer_named(found: PartlyFusable, name: str) -> FusableLayer:
    return next(layer for layer in found.network.layers if layer.name == name)


def spans(found: PartlyFusable) -> set[tuple[str, ...]]:
    """Return the legal stacks, by the names of their layers."""
    layers = found.network.layers
    return {tuple(one.name for one in layers[span.start : span.stop]) for span in legal_spans(found.network)}


def test_a_map_of_one_row_that_multiplies_all_rows_runs_alone() -> None:
    graph = graph_of({"x": (1, 3, 4, 5), "y": (1, 3, 1, 5)}, step("m", "Mul", "y x", (1, 3, 4, 5)))
    found = partly_fusable_of(graph)
    layer = layer_named(found, "m")
    assert layer.runs_alone
    assert [(read.source, read.rows, read.columns) for read in layer.reads] == [
        ("x", Window(4, 0, 1, 0), Window(5, 0, 1, 0)),
        ("y", Window(1, 0, 1, 0), Window(5, 0, 1, 0)),
    ]
    assert (layer.layer.macs, layer.weight_bits) == (60, 0)
    assert [(one.operator, one.why) for one in found.alone] == [("m", "it reads 3 x 1 x 5 and writes 3 x 4 x 5")]
    with pytest.raises(InputError, match="Mul 'm' cannot be fused"):
        fusable_of(graph)


def test_a_product_of_two_maps_runs_alone_and_its_second_stands_for_weights() -> None:
    graph = graph_of({"a": (2, 4, 3), "b": (2, 3, 5)}, step("m", "MatMul", "a b", (2, 4, 5)))
    (layer,) = partly_fusable_of(graph).network.layers
    assert layer.runs_alone
    assert [read.source for read in layer.reads] == ["a", "b"]
    assert layer.layer.macs == 2 * 4 * 3 * 5
    assert layer.output == FeatureMap("m", 8, 1, 5)


def test_what_reads_a_part_of_a_map_or_a_parameter_as_its_input_stays_outside() -> None:
    scaled = step("m", "Mul", "y", (1, 3, 4, 5), p=(1, 3, 4, 5))
    found = partly_fusable_of(graph_of({"y": (1, 1, 4, 5)}, scaled))
    assert ([one.operator for one in found.outside], found.alone) == (["m"], ())


def test_a_layer_that_runs_alone_is_in_no_stack_of_several() -> None:
    shape = (1, 3, 4, 4)
    graph = graph_of(
        {"x": shape, "y": (1, 3, 1, 4)},
        step("a", "Exp", "x", shape),
        step("m", "Mul", "a y", shape),
        step("b", "Neg", "m", shape),
        step("c", "Abs", "b", shape),
    )
    found = partly_fusable_of(graph)
    assert spans(found) == {("a",), ("m",), ("b",), ("c",), ("b", "c")}
    assert [(one.start, one.stop) for one in greedy_stacks(found.network, 1000)] == [(0, 1), (1, 2), (2, 4)]
    with pytest.raises(InputError, match="layer 'm' cannot run in tiles"):
        one_stack(found.network)


KINDS = ("Exp", "Softmax", "Mul")


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=6))
def test_layers_alone_run_as_soon_as_they_can_and_cut_no_stack(steps: list[tuple[str, int, int]]) -> None:
    """A product with a map of one row runs alone; with a softmax outside instead, the other stacks are the same."""
    shape, maps, made, other = (1, 2, 3, 3), ["x"], list[Step](), list[Step]()
    for at, (kind, source, back) in enumerate(steps):
        read, name = maps[max(len(maps) - 1 - back, 0) if source else -1], f"t{at}"
        made.append(step(name, kind, f"{read} y" if kind == "Mul" else read, shape))
        other.append(step(name, "Softmax" if kind == "Mul" else kind, read, shape))
        maps.append(name)
    inputs = {"x": shape, "y": (1, 2, 1, 3)}
    found, without = (partly_fusable_of(graph_of(inputs, *each)) for each in (made, other))
    alone = {one.operator for one in found.alone}
    assert alone == {f"t{at}" for at, (kind, _, _) in enumerate(steps) if kind == "Mul"}
    assert spans(found) == spans(without) | {(name,) for name in alone}
    place = {layer.name: at for at, layer in enumerate(found.network.layers)}
    behind = {name: {name} if name in place else set[str]() for name in maps}
    for one in made:
        waits = set[str]().union(*(behind.get(name, set()) for name in one[2].split()))
        behind[one[0]] |= waits
        assert all(place[name] < place[one[0]] for name in waits if one[0] in place)


@pytest.mark.parametrize("sources", ["x g", "g x"])
def test_a_map_of_one_pixel_gates_all_pixels(sources: str) -> None:
    """A squeeze-and-excite tile reads all of the gate, and the map's pixels at its place."""
    shape = (1, 3, 6, 4)
    graph = graph_of({"x": shape, "g": (3, 1, 1)}, step("m", "Mul", sources, shape))
    found = partly_fusable_of(graph)
    (layer,) = found.network.layers
    assert (found.alone, layer.runs_alone) == ((), False)
    assert [read.source for read in layer.reads] == ["x", "g"]
    assert (layer.layer.g, layer.layer.p, layer.layer.q, layer.layer.n) == (3, 6, 4, 1)
    stack = Stack(found.network.inputs, found.network.layers)
    for cached in (False, True):
        seen = back_calculation(stack, AxisName.ROWS, 2, cached=cached).reads[0]
        assert [(one.seen.starts.tolist(), one.seen.stops.tolist()) for one in seen] == [
            ([0, 2, 4], [2, 4, 6]),
            ([0, 0, 0], [1, 1, 1]),
        ]


@pytest.mark.parametrize(
    ("shape", "gate"), [((1, 3, 6, 4), (1, 1, 6, 4)), ((2, 3, 6, 4), (1, 3, 6, 4)), ((1, 24, 6, 4), (1, 1, 6, 4))]
)
def test_a_map_of_fewer_channels_spreads_over_the_others_at_the_same_pixels(shape: Shape, gate: Shape) -> None:
    """The gate's elements are the groups of the nest, and a tile has the groups of its pixels."""
    graph = graph_of({"x": shape, "g": gate}, step("m", "Mul", "g x", shape))
    found = partly_fusable_of(graph)
    (layer,) = found.network.layers
    point = Window(1, 1, 1, 0)
    assert (found.alone, layer.runs_alone, layer.weight_is_a_map) == ((), False, True)
    assert [(read.source, read.rows, read.columns) for read in layer.reads] == [
        ("x", point, point),
        ("g", point, point),
    ]
    assert (layer.layer.n, layer.layer.g) == (prod(shape) // prod(gate), prod(gate))
    rows, columns = layer.output.rows, layer.output.columns
    tile = layer_of_tile(layer.layer, (rows, columns), (2, 3), (0, 0, 0, 0))
    assert (tile.n, tile.g) == (layer.layer.n, prod(gate) // (rows * columns) * 6)


def test_a_vector_along_the_columns_is_no_gate() -> None:
    """The vector has one element per channel, but ONNX broadcasts it along the last axis."""
    found = partly_fusable_of(graph_of({"x": (1, 4, 2, 4), "g": (4,)}, step("m", "Mul", "x g", (1, 4, 2, 4))))
    assert [one.operator for one in found.alone] == ["m"]


def test_a_view_through_which_a_convolution_cannot_look_is_outside() -> None:
    attributes: dict[str, AttributeValue] = {"axes": [2, 3], "starts": [1, 1], "ends": [5, 5]}
    shape, cropped = (1, 2, 6, 6), (1, 2, 4, 4)
    graph = graph_of(
        {"x": shape},
        step("a", "Exp", "x", shape),
        ("s", "Slice", "a", cropped, {}, attributes),
        ("c", "Conv", "s", cropped, {"w": (2, 2, 3, 3)}, {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}),
        step("b", "Neg", "c", cropped),
    )
    found = partly_fusable_of(graph)
    assert [(one.operator, one.why) for one in found.outside] == [
        ("s", "a layer that reads it cannot be fused through it, or it shows an input as an output")
    ]
    assert [one.name for one in found.network.inputs] == ["x", "s"]
    assert spans(found) == {("a",), ("c",), ("b",), ("c", "b")}


@pytest.mark.parametrize(
    ("shape", "pixels"), [((4,), (1, 1)), ((2, 4), (1, 1)), ((2, 4, 5), (1, 5)), ((2, 3, 4, 5, 6), (5, 6))]
)
def test_the_last_two_dimensions_behind_the_channels_are_rows_and_columns(shape: Shape, pixels: Shape) -> None:
    found = partly_fusable_of(graph_of({"x": shape}, step("a", "Exp", "x", shape), step("b", "Neg", "a", shape)))
    assert ("a", "b") in spans(found)
    for layer in found.network.layers:
        assert (layer.output.rows, layer.output.columns) == pixels
        assert layer.layer.macs == layer.output.elements == prod(shape)


def test_a_convolution_along_one_axis_sees_one_row() -> None:
    steps: list[Step] = [
        (name, "Conv", source, (1, 3, 8), {f"{name}.w": (3, 3, 3)}, {"pads": [1, 1], "kernel_shape": [3]})
        for source, name in pairwise("xab")
    ]
    found = partly_fusable_of(graph_of({"x": (1, 3, 8)}, *steps))
    assert spans(found) == {("a",), ("b",), ("a", "b")}
    (read,) = layer_named(found, "b").reads
    assert (read.rows, read.columns) == (Window(1, 1, 1, 0), Window(3, 1, 1, 1))


def joining(*more: Step, axis: int = 1, kind: str = "Neg") -> Graph:
    """Return maps of one and two channels, `a` and `b`, joined to `j`, which a 2 x 2 pool reads as `p`."""
    shape, wide = (1, 2, 4, 4), (1, 3, 4, 4) if axis in (1, -3) else (1, 1, 8, 4)
    pool: dict[str, AttributeValue] = {"kernel_shape": [2, 2], "strides": [2, 2]}
    other = shape if axis in (1, -3) else (1, 1, 4, 4)
    return graph_of(
        {"x": (1, 1, 4, 4), "y": other},
        step("a", "Exp", "x", (1, 1, 4, 4)),
        step("b", kind, "y", other),
        ("j", "Concat", "a b", wide, {}, {"axis": axis}),
        ("p", "MaxPool", "j", (1, wide[1], wide[2] // 2, 2), {}, pool),
        *more,
    )


@pytest.mark.parametrize("axis", [1, -3])
def test_a_layer_sees_the_maps_that_are_joined_for_it(axis: int) -> None:
    found = partly_fusable_of(joining(axis=axis))
    layer = layer_named(found, "p")
    window = Window(2, 2, 1, 0)
    assert [(one.source, one.rows, one.columns) for one in layer.reads] == [
        ("a", window, window),
        ("b", window, window),
    ]
    assert (layer.joins, layer.weight_is_a_map, layer.layer.g) == (True, False, 3)
    assert (found.outside, ("a", "b", "p") in spans(found)) == ((), True)


def test_maps_are_joined_outside_where_somebody_else_reads_them_as_one() -> None:
    softmax = step("s", "Softmax", "j", (1, 3, 4, 4))
    beside = step("s", "Add", "j z", (1, 3, 4, 4))
    view: Step = ("v", "Slice", "j", (1, 3, 2, 4), {}, {"axes": [2], "starts": [1], "ends": [3]})
    shown = (view, step("s", "Softmax", "v", (1, 3, 2, 4)))
    for more in ((softmax,), (beside, step("z", "Neg", "j", (1, 3, 4, 4)))[::-1], shown, (view,)):
        found = partly_fusable_of(joining(*more))
        assert "j" in [one.operator for one in found.outside]
        assert [read.source for read in layer_named(found, "p").reads] == ["j"]


def test_what_joins_rows_or_views_is_outside() -> None:
    assert [one.operator for one in partly_fusable_of(joining(axis=2)).outside] == ["j"]
    view = partly_fusable_of(joining(kind="Identity"))
    assert [one.operator for one in view.outside] == ["j"]
