"""ONNX operators run by onnxruntime: views, constants, several outputs, quantised weights, copies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx.helper import make_node

from onchip.answer.bindings import Bindings
from onchip.answer.document import Granularity, Reading
from onchip.answer.problem import Count, Problem
from onchip.api.networks import read_network
from onchip.api.plan import plan_problem
from onchip.arch.memory import Memory
from onchip.errors import GraphError, InputError
from onchip.formats.onnx.program import aligned
from onchip.ir.tensor import Role
from onchip.simulate.kernels.onnx_kernels import OnnxKernels, relative_difference
from onchip.simulate.machine import run_in_given_order, run_plan_on_machine
from support.onnx_networks import LIGHT_MODELS, integers, model, value
from support.onnx_runs import run_model, saved
from support.series import in_one_test, series

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
