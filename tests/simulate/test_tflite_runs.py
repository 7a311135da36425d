"""A plan of a TFLite file runs with the values of TFLite's own interpreter, whole and in tiles."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from onchip.answer.document import Granularity, Reading
from onchip.answer.problem import Count
from onchip.api.plan import Request, plan_network
from onchip.api.run import RunValues, run_plan
from onchip.api.target import CapacityBudget, Target
from onchip.errors import GraphError, InputError
from onchip.formats.networks import read_tflite
from onchip.formats.own.plan_json import write_plan
from onchip.reports.execution import Execution
from onchip.search.budget.limits import Limits
from onchip.simulate.kernels.tflite_kernels import TfliteKernels
from support.series import with_slow
from support.tflite_models import (
    TfliteLayers,
    TfliteOperator,
    TfliteTensor,
    a_network_of_many_kinds,
    a_network_of_what_moves_elements,
    network,
)

MODELS = sorted((Path(__file__).parents[1] / "data" / "tflite").glob("*.tflite"))
pytestmark = [
    pytest.mark.filterwarnings("ignore::onchip.errors.NetworkWarning"),
    pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed (extra `tflite`)"),
]


READ = Reading()


def executed(
    path: Path,
    folder: Path,
    reading: Reading = READ,
    sram: int | CapacityBudget = CapacityBudget.M_R,
    values: RunValues | None = None,
) -> Execution:
    limits = Limits(time_limit_seconds=2)
    document = plan_network(Request(str(path), reading, Target(sram), limits=limits, tiles=None)).document
    assert document is not None
    plan = folder / "plan.json"
    write_plan(document, plan)
    return run_plan(plan, str(path), values or RunValues())


def tensor(name: str, *shape: int) -> TfliteTensor:
    return TfliteTensor(name, shape)


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
@pytest.mark.parametrize("granularity", list(Granularity))
def test_models_of_tflite_micro_run_with_equal_values(path: Path, granularity: Granularity, tmp_path: Path) -> None:
    execution = executed(path, tmp_path, Reading(granularity=granularity))
    assert execution.is_right
    assert execution.relative_difference == 0


def test_what_is_dequantised_has_the_values_that_the_interpreter_has(tmp_path: Path) -> None:
    integers = [TfliteTensor(name, [1, 8], "INT8", scale=0.1) for name in "xzy"]
    operators = [
        TfliteOperator("QUANTIZE", "x", "z"),
        TfliteOperator("DEQUANTIZE", "z", "a"),
        TfliteOperator("ADD", "aa", "b"),
        TfliteOperator("QUANTIZE", "b", "y"),
    ]
    model = network([*integers, tensor("a", 1, 8), tensor("b", 1, 8)], operators, "x", "y")
    execution = executed(model.write(tmp_path / "quantised.tflite"), tmp_path)
    assert execution.is_right
    assert execution.relative_difference == 0


@pytest.mark.parametrize("count", list(Count))
def test_every_operator_computes_what_the_interpreter_does(count: Count, tmp_path: Path) -> None:
    path = a_network_of_many_kinds().write(tmp_path / "m.tflite")
    kinds = {operator.kind for operator in read_tflite(path).operators}
    assert {"Conv", "ConvTranspose", "MaxPool", "Concat", "Pad", "Slice", "Softmax", "Transpose", "Gemm"} <= kinds
    execution = executed(path, tmp_path, Reading(count=count))
    assert execution.is_right
    assert execution.relative_difference == 0


def test_every_operator_that_moves_elements_moves_them_as_the_interpreter_does(tmp_path: Path) -> None:
    path = a_network_of_what_moves_elements().write(tmp_path / "m.tflite")
    kinds = {operator.kind for operator in read_tflite(path).operators}
    assert {"AveragePool", "Slice", "Pad", "SpaceToDepth", "DepthToSpace", "Resize", "Split", "LogSoftmax"} <= kinds
    execution = executed(path, tmp_path)
    assert execution.is_right
    assert execution.relative_difference == 0


@pytest.mark.parametrize("count", with_slow(Count, lambda count: count is Count.ALL))
def test_tiles_give_the_values_of_the_whole(count: Count, tmp_path: Path) -> None:
    net = TfliteLayers(1, 12, 10, 3)
    window = {"Padding": 0, "StrideH": 2, "StrideW": 1}
    filters = [net.constant(8, 3, 3, 3), net.constant(8)]
    first = net.add("CONV_2D", ["x", *filters], (1, 6, 10, 8), ("Conv2DOptions", window))
    depth = {"Padding": 0, "StrideH": 1, "StrideW": 1, "DepthMultiplier": 1}
    deep = ("DepthwiseConv2DOptions", depth)
    second = net.add("DEPTHWISE_CONV_2D", [first, net.constant(1, 5, 3, 8), net.constant(8)], (1, 6, 10, 8), deep)
    scaled = net.add("MUL", [second, net.constant(8)], (1, 6, 10, 8))
    joined = net.add("CONCATENATION", [scaled, first], (1, 6, 10, 16), ("ConcatenationOptions", {"Axis": 3}))
    pool = {"Padding": 0, "StrideH": 2, "StrideW": 2, "FilterHeight": 3, "FilterWidth": 2}
    pooled = net.add("AVERAGE_POOL_2D", [joined], (1, 3, 5, 16), ("Pool2DOptions", pool))
    mean = net.add(
        "MEAN", [pooled, net.numbers(2, values=[1, 2])], (1, 1, 1, 16), ("ReducerOptions", {"KeepDims": True})
    )
    net.add("FULLY_CONNECTED", [mean, net.constant(6, 16), net.constant(6)], (1, 6))
    path = net.model().write(tmp_path / "m.tflite")
    execution = executed(path, tmp_path, Reading(count=count), sram=3000)
    assert any(operator.tile for operator in execution.check.problem.graph.operators)
    assert execution.is_right


def test_halves_behind_a_dequantisation_are_handed_in_as_they_are_stored(tmp_path: Path) -> None:
    net = TfliteLayers(1, 6, 6, 3)
    half = net.random.standard_normal((4, 3, 3, 3)).astype(np.float16)
    net.tensors += [TfliteTensor("half", [4, 3, 3, 3], "FLOAT16", half), tensor("whole", 4, 3, 3, 3)]
    net.operators.append(TfliteOperator("DEQUANTIZE", ["half"], ["whole"]))
    window = ("Conv2DOptions", {"Padding": 0, "StrideH": 1, "StrideW": 1})
    net.add("CONV_2D", ["x", "whole", net.constant(4)], (1, 6, 6, 4), window)
    path = net.model().write(tmp_path / "m.tflite")
    kernels = TfliteKernels(read_tflite(path), path)
    stored = kernels.parameter(read_tflite(path).tensor["half"])
    assert np.array_equal(stored.view(np.float16).reshape(4, 3, 3, 3), half.transpose(0, 3, 1, 2))
    assert executed(path, tmp_path, Reading(count=Count.ALL)).is_right


def test_a_value_is_handed_in_as_the_file_has_it(tmp_path: Path) -> None:
    path = a_network_of_many_kinds().write(tmp_path / "m.tflite")
    np.save(tmp_path / "x.npy", np.ones((1, 12, 10, 3), np.float32))
    assert executed(path, tmp_path, values=RunValues(given=(f"x={tmp_path / 'x.npy'}",))).is_right
    np.save(tmp_path / "x.npy", np.ones((1, 3, 12, 10), np.float32))
    with pytest.raises(InputError, match="expected"):
        executed(path, tmp_path, values=RunValues(given=(f"x={tmp_path / 'x.npy'}",)))


def test_a_custom_operator_that_the_runtime_lacks_is_named(tmp_path: Path) -> None:
    tensors = [tensor("x", 4), tensor("y", 4)]
    operators = [TfliteOperator("CUSTOM", ["x"], ["y"], custom="Mystery")]
    path = network(tensors, operators, ["x"], ["y"]).write(tmp_path / "m.tflite")
    with pytest.raises(GraphError, match=r"operator 'y': ai-edge-litert refuses it: .*Mystery"):
        executed(path, tmp_path)


def test_a_shape_that_the_interpreter_does_not_make_is_refused(tmp_path: Path) -> None:
    tensors = [tensor("x", 4), tensor("y", 5)]
    path = network(tensors, [TfliteOperator("ABS", ["x"], ["y"])], ["x"], ["y"]).write(tmp_path / "m.tflite")
    with pytest.raises(GraphError, match=r"tensor 'y': ai-edge-litert makes it \[4\]"):
        executed(path, tmp_path)


def test_other_shapes_of_inputs_run_with_the_values_of_the_whole_model(tmp_path: Path) -> None:
    net = TfliteLayers(1, 6, 6, 3)
    window = ("Conv2DOptions", {"Padding": 0, "StrideH": 2, "StrideW": 2})
    first = net.add("CONV_2D", ["x", net.constant(4, 3, 3, 3), net.constant(4)], (1, 3, 3, 4), window)
    net.add("TANH", [first], (1, 3, 3, 4))
    path = net.model().write(tmp_path / "m.tflite")
    shapes = {"x": (2, 11, 8, 3)}
    graph = read_tflite(path, shapes)
    kernels = TfliteKernels(graph, path, shapes)
    values = {"x": kernels.network_input(graph.tensor["x"])}
    for operator in graph.operators:
        values |= kernels.run(operator, {name: values[name] for name in operator.inputs})
    assert graph.tensors[-1].shape == (2, 4, 6, 4)
    assert kernels.difference_from_whole_model(values, values) == 0


@pytest.mark.parametrize("sram", [CapacityBudget.M_R, 1000])
def test_transpositions_at_the_networks_ends_move_what_the_interpreter_moves(
    sram: int | CapacityBudget, tmp_path: Path
) -> None:
    net = TfliteLayers(1, 3, 8, 6)
    last = net.add("TRANSPOSE", ["x", net.numbers(4, values=[0, 2, 3, 1])], (1, 8, 6, 3))
    window = ("Conv2DOptions", {"Padding": 0, "StrideH": 1, "StrideW": 1})
    wide = net.add("CONV_2D", [last, net.constant(4, 3, 3, 3), net.constant(4)], (1, 8, 6, 4), window)
    net.add("TRANSPOSE", [wide, net.numbers(4, values=[0, 3, 1, 2])], (1, 4, 8, 6))
    path = net.model().write(tmp_path / "m.tflite")
    execution = executed(path, tmp_path, sram=sram)
    graph = execution.check.problem.graph
    assert (graph.operators[0].tile is None) is (sram is CapacityBudget.M_R)
    assert execution.is_right
    assert execution.relative_difference == 0


def test_a_custom_operator_that_xnnpack_knows_runs_there(tmp_path: Path) -> None:
    net = TfliteLayers(1, 3, 4, 2)
    padding, stride, activation = 1, 2, 0  # TfLiteTransposeConvParams: SAME, two numbers of stride, no activation
    stated = np.array([padding, stride, stride, activation], np.int32).tobytes()
    net.add("CUSTOM", ["x", net.constant(5, 3, 3, 2), net.constant(5)], (1, 6, 8, 5))
    net.operators[-1].custom, net.operators[-1].custom_options = "Convolution2DTransposeBias", stated
    net.add("RELU", [net.last.name], (1, 6, 8, 5))
    execution = executed(net.model().write(tmp_path / "m.tflite"), tmp_path)
    assert execution.is_right
    assert execution.relative_difference == 0
