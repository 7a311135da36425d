"""Kernels of ONNX models: in tiles, of every kind, and seeded ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.case.test_case import TestCase
from onnx.helper import make_node

from onchip.answer.bindings import Bindings
from onchip.answer.document import Granularity, Reading
from onchip.answer.problem import Count, Problem
from onchip.api.networks import read_network
from onchip.api.plan import plan_problem
from onchip.arch.memory import Memory
from onchip.errors import GraphError, InputError
from onchip.formats.onnx.program import aligned
from onchip.formats.own.graph_json import bundled_networks
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.capacity.bounds import greatest_need
from onchip.search.budget.limits import Limits
from onchip.simulate.kernel_protocol import Bytes, SeededKernels
from onchip.simulate.kernels.onnx_kernels import OnnxKernels, OnnxTileKernels, relative_difference
from onchip.simulate.machine import run_in_given_order, run_plan_on_machine
from onchip.transform.rewrite.key_slices import with_key_slices
from onchip.verify.verifier import verify
from support.diamond import Program
from support.onnx_networks import LIGHT_MODELS, integers, model, value
from support.onnx_runs import run_model, saved
from support.runs import run_seeded
from support.series import in_one_test, series
from support.small_schedules import schedule_check_and_run
from support.tflite_models import (
    TfliteModel,
    a_network_of_many_kinds,
    a_network_of_what_moves_elements,
    bytes_side_by_side,
)
from support.tiled import tiled_to_fit

# ONNX operators run by onnxruntime: views, constants, several outputs, quantised weights, copies


LIGHT = {path.stem.removeprefix("light_"): path for path in LIGHT_MODELS}


def constant(name: str, shape: Sequence[int], dtype: str = "float32", seed: int = 0) -> TensorProto:
    generator = np.random.default_rng(seed)
    array = generator.standard_normal(shape) if dtype == "float32" else generator.integers(-9, 9, shape)
    return numpy_helper.from_array(array.astype(dtype), name)


WAYS = [(granularity, count) for granularity in Granularity for count in Count]


@pytest.mark.parametrize("random_weights", [None, 1])
@pytest.mark.parametrize(("granularity", "count"), WAYS)
def test_squeezenet_gives_the_right_values(granularity: Granularity, count: Count, random_weights: int | None) -> None:
    ran = run_model(LIGHT["squeezenet"], Reading(granularity=granularity, count=count), random_weights)
    assert ran.machine.difference is None
    assert ran.relative_difference <= 1e-5
    assert ran.machine.compared == sum(count is Count.ALL or t.role is not Role.PARAMETER for t in ran.graph.tensors)
    (output,) = ran.machine.outputs.values()
    assert (len(np.unique(output.view(np.float32))) > 500) is (random_weights is not None)


@pytest.mark.parametrize("name", series(["shufflenet", "resnet50", "inception_v1"], 1))
def test_a_light_model_gives_the_recorded_output_for_the_recorded_input(name: str) -> None:
    """The input is that of onnx's own backend test: element i of n is i / n."""
    path = LIGHT[name]
    graph = read_network(str(path))
    kernels = OnnxKernels(graph, path, Bindings())
    (tensor,) = graph.with_role(Role.INPUT)
    shape = tensor.shape or ()
    ramp = (np.arange(np.prod(shape)).reshape(shape) / np.prod(shape)).astype(np.float32)
    problem = Problem(graph, (Memory("sram", 2**24),))
    plan = plan_problem(problem).answer
    assert plan is not None
    inputs = {tensor.name: kernels.given_input(tensor, ramp)}
    run = run_plan_on_machine(problem, plan, kernels, inputs, run_in_given_order(problem, kernels, inputs))
    recorded = numpy_helper.to_array(
        onnx.TensorProto.FromString(path.with_name(f"{path.stem}_output_0.pb").read_bytes())
    )
    (output,) = run.outputs.values()
    assert run.difference is None
    np.testing.assert_allclose(output.view(np.float32), recorded.reshape(-1), rtol=1e-3, atol=1e-7)


def check(network: onnx.ModelProto, folder: Path) -> None:
    """Check the plan's values in every way of reading, on the model's weights and on random ones."""
    path = saved(network, folder)
    for granularity, count in WAYS:
        for random_weights in (None, 1):
            ran = run_model(path, Reading(granularity=granularity, count=count), random_weights)
            assert ran.machine.difference is None
            assert ran.relative_difference <= 1e-6


def test_views_between_operators_and_inside_fused_ones_are_applied_again(tmp_path: Path) -> None:
    nodes = [
        make_node("Unsqueeze", ["x", "axes"], ["x4"]),
        make_node("Conv", ["x4", "w"], ["c"], kernel_shape=[3, 3]),
        make_node("Reshape", ["c", "flat"], ["r"]),
        make_node("Relu", ["r"], ["relu"]),
        make_node("Dropout", ["relu"], ["d"]),
        make_node("Gemm", ["d", "v"], ["y"]),
        make_node("Reshape", ["y", "column"], ["z"]),
    ]
    parameters = [
        integers("axes", [0]),
        constant("w", [4, 2, 3, 3]),
        integers("flat", [1, -1]),
        constant("v", [144, 5]),
        integers("column", [5, 1]),
    ]
    check(model(nodes, [value("x", [2, 8, 8])], ["z"], parameters), tmp_path)


@pytest.mark.parametrize("is_first", [False, True])
def test_a_softmax_in_slices_of_its_keys_divides_by_the_same_operand(is_first: bool, tmp_path: Path) -> None:
    nodes = [
        make_node("MatMul", ["q", "k"], ["s"]),
        make_node("Div", ["one", "s"] if is_first else ["s", "one"], ["t"]),
        make_node("Softmax", ["t"], ["p"]),
        make_node("MatMul", ["p", "v"], ["o"]),
    ]
    inputs = [value("q", [1, 2, 3]), value("k", [1, 3, 5]), value("v", [1, 5, 3])]
    path = saved(model(nodes, inputs, ["o"], [constant("one", [1])]), tmp_path)
    sliced = with_key_slices(read_network(str(path)), 2)
    assert "o (0)" in sliced.operator
    kernels, problem = OnnxKernels(sliced, path, Bindings()), Problem(sliced, (Memory("unused", 1),), count=Count.ALL)
    given = {tensor.name: kernels.network_input(tensor) for tensor in sliced.with_role(Role.INPUT)}
    outputs = run_in_given_order(problem, kernels, given).outputs
    assert kernels.difference_from_whole_model(given, outputs) < 1e-5


def test_an_operator_of_several_outputs_and_one_read_twice(tmp_path: Path) -> None:
    nodes = [
        make_node("Split", ["x", "parts"], ["a", "b", "c"], axis=1),
        make_node("Mul", ["a", "a"], ["aa"]),
        make_node("Concat", ["aa", "c", "aa"], ["y"], axis=1),
    ]
    check(model(nodes, [value("x", [2, 9])], ["y", "b"], [integers("parts", [2, 4, 3])]), tmp_path)


def test_constants_that_are_computed_and_viewed(tmp_path: Path) -> None:
    nodes = [
        make_node("ConstantOfShape", ["shape"], ["half"], value=numpy_helper.from_array(np.array([0.5], np.float32))),
        make_node("Unsqueeze", ["half", "axes"], ["column"]),
        make_node("Mul", ["x", "column"], ["a"]),
        make_node("Transpose", ["w"], ["wt"], perm=[1, 0]),
        make_node("MatMul", ["a", "wt"], ["m"]),
        make_node("Shape", ["x"], ["s"]),
        make_node("Expand", ["one", "s"], ["ones"]),
        make_node("Constant", [], ["k"], value=constant("", [4, 6], seed=3)),
        make_node("Add", ["m", "k"], ["y"]),
        make_node("Add", ["x", "ones"], ["z"]),
    ]
    parameters = [
        integers("shape", [4]),
        integers("axes", [1]),
        constant("w", [6, 5]),
        numpy_helper.from_array(np.ones((1, 1), np.float32), "one"),
    ]
    check(model(nodes, [value("x", [4, 5])], ["y", "z"], parameters), tmp_path)


@pytest.mark.parametrize("with_bias", [False, True])
def test_a_folded_batch_norm_runs_as_the_file_says(tmp_path: Path, with_bias: bool) -> None:
    norm = ["scale", "shift", "mean", "variance"]
    conv_reads = ["x", "w", *(["b"] if with_bias else [])]
    nodes = [
        make_node("Conv", conv_reads, ["c"], kernel_shape=[1, 1]),
        make_node("BatchNormalization", ["c", *norm], ["n"], epsilon=0.01),
        make_node("LeakyRelu", ["n"], ["y"], alpha=0.1),
        # A second norm has the same parameters, so the first fold cannot name its bias after the shift.
        make_node("Conv", ["y", "v"], ["d"], kernel_shape=[1, 1]),
        make_node("BatchNormalization", ["d", *norm], ["z"]),
        make_node("Sub", ["z", "shift4"], ["out"]),
        make_node("Reshape", ["shift", "shape4"], ["shift4"]),
    ]
    nodes = [*nodes[:5], nodes[6], nodes[5]]
    positive = numpy_helper.from_array(np.array([0.5, 1, 2], np.float32), "variance")
    parameters = [
        constant("w", [3, 2, 1, 1]),
        constant("v", [3, 3, 1, 1]),
        constant("b", [3]),
        constant("scale", [3]),
        constant("shift", [3], seed=2),
        constant("mean", [3]),
        positive,
        integers("shape4", [1, 3, 1, 1]),
    ]
    check(model(nodes, [value("x", [1, 2, 5, 5])], ["out"], parameters), tmp_path)


@pytest.mark.parametrize("element_type", [TensorProto.INT8, TensorProto.INT4])
def test_quantised_weights_are_dequantised_on_the_way(tmp_path: Path, element_type: int) -> None:
    nodes = [
        make_node("DequantizeLinear", ["q", "scale", "zero"], ["dq"], axis=0),
        make_node("Transpose", ["dq"], ["t"], perm=[1, 0]),
        make_node("MatMul", ["x", "t"], ["y"]),
    ]
    values = np.random.default_rng(0).integers(-8, 8, 24)
    parameters = [
        onnx.helper.make_tensor("q", element_type, [4, 6], values),
        onnx.helper.make_tensor("zero", element_type, [4], [1, 2, 3, 4]),
        numpy_helper.from_array(np.array([0.5, 0.25, 1, 2], np.float32), "scale"),
    ]
    check(model(nodes, [value("x", [3, 6])], ["y"], parameters), tmp_path)


def test_outputs_that_are_inputs_parameters_or_views_of_them(tmp_path: Path) -> None:
    nodes = [
        make_node("Reshape", ["x", "shape"], ["viewed"]),
        make_node("Relu", ["x"], ["y"]),
        make_node("Identity", ["y"], ["alias"]),
        make_node("Reshape", ["w", "shape"], ["weight_viewed"]),
    ]
    outputs = ["y", "alias", "viewed", "x", "w", "weight_viewed"]
    check(model(nodes, [value("x", [2, 3])], outputs, [integers("shape", [3, 2]), constant("w", [2, 3])]), tmp_path)


def test_symbolic_dimensions_are_those_of_the_plan(tmp_path: Path) -> None:
    path = saved(model([make_node("Relu", ["x"], ["y"])], [value("x", ["batch", 3])], ["y"]), tmp_path)
    assert run_model(path, Reading(dims={"batch": 2})).machine.outputs["y"].size == 24


def test_weights_outside_the_file_are_read_and_random_ones_need_none(tmp_path: Path) -> None:
    network = model([make_node("MatMul", ["x", "w"], ["y"])], [value("x", [2, 64])], ["y"], [constant("w", [64, 70])])
    path = tmp_path / "network.onnx"
    onnx.save_model(network, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert run_model(path, random_weights=None).relative_difference == 0
    (tmp_path / "weights.bin").unlink()
    assert run_model(path, random_weights=1).relative_difference == 0
    with pytest.raises(InputError, match=r"network\.onnx: tensor 'w': its external data cannot be read"):
        run_model(path, random_weights=None)


def test_what_onnxruntime_does_not_know_is_named(tmp_path: Path) -> None:
    node = make_node("Unheard", ["x"], ["y"], domain="custom", name="strange")
    path = saved(model([node], [value("x", [2])], [value("y", [2])]), tmp_path)
    with pytest.raises(GraphError, match="operator 'strange': onnxruntime refuses it"):
        run_model(path)


def test_an_input_handed_in_must_be_of_the_networks_type_and_shape(tmp_path: Path) -> None:
    path = saved(model([make_node("Relu", ["x"], ["y"])], [value("x", [2, 3])], ["y"]), tmp_path)
    graph = read_network(str(path))
    kernels = OnnxKernels(graph, path, Bindings())
    with pytest.raises(InputError, match=r"holds float64\[2, 3\]"):
        kernels.given_input(graph.tensor["x"], np.zeros((2, 3)))


def test_random_inputs_and_weights_follow_their_seeds(tmp_path: Path) -> None:
    network = model([make_node("MatMul", ["x", "w"], ["y"])], [value("x", [2, 4])], ["y"], [constant("w", [4, 4])])
    path = saved(network, tmp_path)
    first, again, other = (run_model(path, random_weights=seed).machine.outputs["y"] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@in_one_test("start", range(0, 64, 4))
def test_arrays_handed_to_kernels_lie_at_aligned_addresses(start: int) -> None:
    content = np.arange(256, dtype=np.uint8)[start : start + 64]
    array = aligned(content, np.dtype(np.float32), (4, 4))
    assert array.ctypes.data % 64 == 0
    assert np.array_equal(array.reshape(-1).view(np.uint8), content)


def test_large_weights_are_read_from_the_file_when_they_are_needed(tmp_path: Path) -> None:
    nodes = [make_node("MatMul", ["x", "w"], ["m"]), make_node("MatMul", ["m", "v"], ["y"])]
    parameters = [constant("w", [600, 500]), constant("v", [500, 20])]
    check(model(nodes, [value("x", [2, 600])], ["y"], parameters), tmp_path)


@pytest.mark.parametrize(
    ("found", "expected", "difference"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 2.5], [1.0, 2.0], 0.25),
        ([0.5, -4.0], [1.0, -4.0], 0.125),
        ([np.nan, 1.0], [np.nan, 1.0], 0.0),
        ([np.nan, 1.0], [0.0, 1.0], np.inf),
        ([np.inf, 1.0], [np.inf, 1.0], 0.0),
        ([0.0, 1.0], [0.0, np.inf], np.inf),
        ([1.0], [0.0], np.inf),
    ],
)
def test_a_relative_difference_is_by_the_greatest_value(
    found: list[float], expected: list[float], difference: float
) -> None:
    assert relative_difference(np.array(found), np.array(expected)) == difference


# Tiles of an ONNX model's operators, run by onnxruntime, give the values of the whole model


def constant_of_tiles(name: str, *shape: int) -> TensorProto:
    return numpy_helper.from_array(np.random.default_rng(0).standard_normal(shape).astype("float32"), name)


def saved_network(folder: Path) -> Path:
    """Save a convolution with an activation, a pool, an Add, a Concat and a product with a square matrix."""
    nodes = [
        make_node("Conv", ["x", "w", "b"], ["c"], "conv", pads=[1, 1, 1, 1]),
        make_node("Relu", ["c"], ["r"], "relu"),
        make_node("AveragePool", ["r"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        make_node("Sigmoid", ["p"], ["s"], "sigmoid"),
        make_node("Concat", ["p", "s"], ["j"], "concat", axis=1),
        make_node("GlobalAveragePool", ["j"], ["g"], "mean"),
        make_node("Flatten", ["g"], ["f"], "flatten"),
        make_node("Gemm", ["f", "m"], ["y"], "product"),
    ]
    weights = [constant_of_tiles("w", 16, 3, 3, 3), constant_of_tiles("b", 16), constant_of_tiles("m", 32, 32)]
    path = folder / "network.onnx"
    network = model(nodes, [value("x", [1, 3, 12, 10])], ["y"], weights)
    path.write_bytes(network.SerializeToString())
    return path


@pytest.mark.parametrize("count", Count)
@pytest.mark.parametrize("granularity", Granularity)
def test_tiles_of_a_model_give_what_the_model_gives(tmp_path: Path, count: Count, granularity: Granularity) -> None:
    path = saved_network(tmp_path)
    whole = read_network(str(path), Reading(count=count, granularity=granularity))
    problem = Problem(whole, (Memory("sram", 1000), Memory("other", 700)), count=count)
    tiled = replace(problem, graph=tiled_to_fit(problem, is_model=True))
    assert len(tiled.graph.operators) > len(whole.operators) + 5
    kernels = OnnxTileKernels(tiled.graph, whole, OnnxKernels(whole, path, Bindings()))
    inputs = {tensor.name: kernels.network_input(tensor) for tensor in tiled.graph.with_role(Role.INPUT)}
    outputs = run_in_given_order(tiled, kernels, inputs).outputs
    assert kernels.difference_from_whole_model(inputs, outputs) < 1e-6


@pytest.mark.parametrize(("operands", "tiles"), [(["x", "m"], 2), (["m", "x"], 3)])
def test_a_product_of_squares_is_cut_by_rows_only_if_its_input_stands_on_the_left(
    tmp_path: Path, operands: list[str], tiles: int
) -> None:
    path = tmp_path / "network.onnx"
    nodes = [make_node("MatMul", operands, ["y"], "product")]
    path.write_bytes(model(nodes, [value("x", [3, 4, 4])], ["y"], [constant_of_tiles("m", 4, 4)]).SerializeToString())
    whole = read_network(str(path), Reading())
    problem = Problem(whole, (Memory("sram", 192),))
    tiled = replace(problem, graph=tiled_to_fit(problem, is_model=True))
    assert len(tiled.graph.operators) == tiles
    kernels = OnnxTileKernels(tiled.graph, whole, OnnxKernels(whole, path, Bindings()))
    inputs = {tensor.name: kernels.network_input(tensor) for tensor in tiled.graph.with_role(Role.INPUT)}
    outputs = run_in_given_order(tiled, kernels, inputs).outputs
    assert kernels.difference_from_whole_model(inputs, outputs) < 1e-6


def test_a_band_of_an_input_is_a_region_of_what_is_handed_in(tmp_path: Path) -> None:
    path = saved_network(tmp_path)
    whole = read_network(str(path), Reading())
    problem = Problem(whole, (Memory("sram", 1000),))
    graph = tiled_to_fit(problem, is_model=True)
    kernels = OnnxTileKernels(graph, whole, OnnxKernels(whole, path, Bindings()))
    band = graph.with_role(Role.INPUT)[1]
    assert band.region is not None
    array = np.arange(360, dtype=np.float32).reshape(1, 3, 12, 10)
    expected = array[tuple(slice(*each) for each in band.region)].reshape(-1)
    assert np.array_equal(kernels.given_input(band, array).view(np.float32), expected)


# Schedules of a tiny network for each kind of operator: legal, and a run equals the reference


FOLDER = Path(__file__).parents[1] / "data/tflite"
PARTS: Final = 8
"""The number of parts of the test over ONNX's kinds."""


@pytest.fixture(scope="module")
def cases() -> list[tuple[str, TestCase]]:
    """Return the first of onnx's own one-node test models for each kind."""
    found: dict[str, TestCase] = {}
    with warnings.catch_warnings(action="ignore"):  # warnings about the models' values
        for case in collect_testcases(None):
            nodes = [] if case.model is None else case.model.graph.node
            if len(nodes) == 1:
                found.setdefault(nodes[0].op_type, case)
    return sorted(found.items())


def with_constants(case: TestCase) -> onnx.ModelProto:
    """Return the model with all inputs but the first as constants, if their values are tensors."""
    network = onnx.ModelProto()
    if case.model is not None:
        network.CopyFrom(case.model)
    values = case.data_sets[0][0][1:] if case.data_sets else []
    if values and all(hasattr(each, "dtype") for each in values):
        names = [one.name for one in network.graph.input[1:]]
        del network.graph.input[1:]
        network.graph.initializer.extend(map(numpy_helper.from_array, values, names))
    return network


def stated(bits: int | None) -> tuple[object, ...]:
    """Return the option for bits; without any, elements have the model's own types."""
    return () if bits is None else ("--bits", bits)


def runs_or_is_refused(onchip: Program, path: Path, folder: Path, bits: int | None) -> None:
    """Check that a network runs, or that `schedule` or `run` refuses it with exit code 2."""
    answer = folder / "schedule.json"
    ended = onchip("schedule", path, "--accelerator", "simba", *stated(bits), "--no-cache", "-o", answer)
    assert ended.code in (0, 2), (path.name, ended.err)
    if ended.code == 0:
        assert onchip("check", answer, path).code == 0, path.name
        run = onchip("run", answer, path)
        assert run.code in (0, 2), (path.name, run.out, run.err)


@pytest.mark.slow
@pytest.mark.parametrize("bits", [None, 8])
@pytest.mark.parametrize("part", range(PARTS))
def test_operators_of_onnx_are_scheduled_and_run(
    part: int, bits: int | None, cases: list[tuple[str, TestCase]], onchip: Program, tmp_path: Path
) -> None:
    for kind, case in cases[part::PARTS]:
        for name, network in (("inputs", case.model), ("constants", with_constants(case))):
            path = tmp_path / f"{kind}.{name}.onnx"
            assert network is not None
            onnx.save(network, path)
            runs_or_is_refused(onchip, path, tmp_path, bits)


@pytest.mark.parametrize("bits", series([8, None], 1))
@pytest.mark.parametrize(
    "make", series([a_network_of_what_moves_elements, bytes_side_by_side, a_network_of_many_kinds], 2)
)
def test_operators_of_tflite_are_scheduled_and_run(
    make: Callable[[], TfliteModel], bits: int | None, onchip: Program, tmp_path: Path
) -> None:
    path = make().write(tmp_path / "network.tflite")
    schedule_check_and_run(onchip, path, tmp_path, "simba", *stated(bits), "--time-limit", "2")


def test_a_transposed_convolution_that_reads_its_output_shape_runs(onchip: Program, tmp_path: Path) -> None:
    schedule_check_and_run(onchip, FOLDER / "seanet_transpose_conv2.tflite", tmp_path, "simba")


# Made-up kernels: any byte read from a wrong place shows, and every bundled network runs


SIZES = st.integers(1, 40)
QUICKLY_PLANNED = ("darts_v2", "densenet121", "lenet5", "lstm", "minerva", "mobilenetv1", "transformer", "vgg_cifar")


def graph(kind: str, read_bytes: tuple[int, ...], written_bytes: int) -> Graph:
    inputs = tuple(Tensor(f"x{index}", size, Role.INPUT) for index, size in enumerate(read_bytes))
    operator = Operator("op", kind, tuple(tensor.name for tensor in inputs), ("y",))
    return Graph("one", (*inputs, Tensor("y", written_bytes, Role.OUTPUT)), (operator,))


def run(network: Graph, operands: dict[str, Bytes], seed: int = 0) -> Bytes:
    return SeededKernels(network, seed).run(network.operators[0], operands)["y"]


def operands_of(network: Graph) -> dict[str, Bytes]:
    kernels = SeededKernels(network)
    return {tensor.name: kernels.network_input(tensor).copy() for tensor in network.with_role(Role.INPUT)}


@st.composite
def networks(draw: st.DrawFn) -> Graph:
    kind = draw(st.sampled_from(("Conv", "Add", "Concat", "Unheard")))
    sizes = draw(st.lists(SIZES, min_size=1, max_size=3))
    if kind == "Add":
        return graph(kind, tuple(sizes[:1] * len(sizes)), sizes[0])
    if kind == "Concat":
        return graph(kind, tuple(sizes), sum(sizes))
    return graph(kind, tuple(sizes), draw(st.integers(8, 40)))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(networks(), st.data())
def test_any_byte_changed_shows(network: Graph, data: st.DataObject) -> None:
    operands = operands_of(network)
    before = run(network, operands)
    name = data.draw(st.sampled_from(sorted(operands)))
    at = data.draw(st.integers(0, len(operands[name]) - 1))
    operands[name][at] ^= data.draw(st.integers(1, 255))
    if network.tensor["y"].size_bytes >= 8:  # two results with fewer bytes may well be equal
        assert not np.array_equal(before, run(network, operands))


@settings(max_examples=100, deadline=None)
@given(networks())
def test_bytes_from_one_place_on_show(network: Graph) -> None:
    assume(network.tensor["y"].size_bytes >= 8)
    operands = operands_of(network)
    shifted = {name: np.roll(content, 1) for name, content in operands.items()}
    assume(any(not np.array_equal(shifted[name], operands[name]) for name in operands))
    assert not np.array_equal(run(network, operands), run(network, shifted))


def test_the_same_seed_gives_the_same_values_and_another_seed_others() -> None:
    network = graph("Conv", (16,), 16)
    operands = operands_of(network)
    assert np.array_equal(run(network, operands), run(network, operands))
    assert not np.array_equal(run(network, operands), run(network, operands, seed=1))


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_values_are_finite_numbers_and_never_the_fill(kind: str) -> None:
    network = graph("Conv", (64,), 64 * 1024)
    written = run(network, operands_of(network))
    assert np.isfinite(written.view(kind)).all()
    assert (np.abs(written.view(kind)) < 2).all()
    assert 0xFF not in written


def test_an_input_handed_in_must_have_the_tensors_bytes() -> None:
    network = graph("Conv", (16,), 16)
    kernels = SeededKernels(network)
    assert len(kernels.given_input(network.tensor["x0"], np.zeros((2, 2), np.float32))) == 16
    with pytest.raises(InputError, match="holds 4 bytes"):
        kernels.given_input(network.tensor["x0"], np.zeros(4, np.uint8))


@pytest.mark.parametrize(
    "network",
    [pytest.param(name, marks=[] if name in QUICKLY_PLANNED else [pytest.mark.slow]) for name in bundled_networks()],
)
def test_a_plan_of_each_bundled_network_at_its_least_capacity_runs(network: str) -> None:
    plan_runs(read_network(network, Reading(bits=8)))


def plan_runs(network: Graph) -> None:
    need = greatest_need(Problem(network, (Memory("sram", 2**40),))).need_bytes
    problem = Problem(network, (Memory("sram", need),))
    plan = plan_problem(problem, limits=Limits(time_limit_seconds=2)).answer
    assert plan is not None
    machine = run_seeded(problem, plan)
    figures = verify(problem, plan).figures
    assert machine.difference is None
    assert (machine.loads, machine.write_backs) == (figures.loads, figures.write_backs)
