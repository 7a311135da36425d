"""Quantised networks, folded, give onnxruntime's values integer for integer; the plan has no map in floating point."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from onchip.answer.document import Granularity, Reading
from onchip.answer.problem import Problem
from onchip.api.networks import read_network
from onchip.api.plan import plan_problem
from onchip.arch.memory import Memory
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.model.capacity.bounds import greatest_need
from onchip.ops.layers_of import layers_and_left_out, nest_operands
from onchip.simulate.kernels.onnx_kernels import OnnxKernels
from onchip.simulate.machine import run_in_given_order, run_plan_on_machine
from onchip.verify.schedule.nests import NestDerivation
from support.onnx_networks import make_node, model, value
from support.quantised import CHANNELS, PIXELS, random_quantised
from support.series import series

RAW = Reading(granularity=Granularity.RAW)
pytest.importorskip("onnxruntime", reason="onnxruntime runs the models: pip install 'onchip[run]'")


def saved(network: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "network.onnx"
    path.write_bytes(network.SerializeToString())
    return path


def difference(path: Path, reading: Reading) -> float:
    """Return the difference between the planned network, run on bytes, and the file as onnxruntime runs it."""
    graph = read_network(str(path), reading)
    need = greatest_need(Problem(graph, (Memory("sram", 2**40),))).need_bytes
    problem = Problem(graph, (Memory("sram", need),))
    plan = plan_problem(problem).answer
    assert plan is not None
    kernels = OnnxKernels(graph, path, reading.bindings)
    inputs = {tensor.name: kernels.network_input(tensor) for tensor in graph.with_role(Role.INPUT)}
    reference = run_in_given_order(problem, kernels, inputs)
    machine = run_plan_on_machine(problem, plan, kernels, inputs, reference)
    return kernels.difference_from_whole_model(inputs, machine.outputs)


def between_operators(graph: Graph) -> set[int | None]:
    """Return the bit widths of all maps between operators."""
    return {tensor.bits for tensor in graph.with_role(Role.ACTIVATION)}


@pytest.mark.parametrize("seed", series(range(40), 13))
def test_random_networks_give_the_values_of_the_file(seed: int, tmp_path: Path) -> None:
    path = saved(random_quantised(seed), tmp_path)
    folded = read_network(str(path))
    assert between_operators(folded) == {8}
    assert between_operators(read_network(str(path), RAW)) == {8, 32}
    assert [one.kind for one in folded.operators].count("DequantizeLinear") == 1
    assert difference(path, Reading()) == 0.0


@pytest.mark.parametrize("seed", range(40, 60))
def test_both_readings_of_their_loop_nests_agree(seed: int, tmp_path: Path) -> None:
    """The verifier and the mapper's reading derive the same nests for an operator with scales and zero points."""
    graph = read_network(str(saved(random_quantised(seed), tmp_path)))
    layers, left_out = layers_and_left_out(graph)
    assert not left_out
    for operator in graph.operators:
        derived = NestDerivation(graph, 32).of(operator)
        read = nest_operands(graph, operator)
        assert derived is not None
        assert (derived.input, derived.weight) == (read.input, read.weight)
        (layer,) = derived.layers
        assert (layer.bounds, layer.stride) == (layers[operator.name].bounds, layers[operator.name].stride)


def test_weights_of_four_bits_lie_two_in_a_byte(tmp_path: Path) -> None:
    stored = onnx.helper.make_tensor("wq", onnx.TensorProto.INT4, [CHANNELS, CHANNELS, 1, 1], [1, -2, 3, -4] * 4)
    scale = onnx.helper.make_tensor("ws", onnx.TensorProto.FLOAT, [], [0.5])
    nodes = [make_node("DequantizeLinear", ["wq", "ws"], ["w"]), make_node("Conv", ["x", "w"], ["y"])]
    network = model(nodes, [value("x", [1, CHANNELS, PIXELS, PIXELS])], ["y"], [stored, scale])
    path = saved(network, tmp_path)
    assert read_network(str(path)).tensor["wq"].size_bytes == CHANNELS * CHANNELS // 2
    assert difference(path, Reading()) == 0.0
