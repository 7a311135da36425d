"""C projects of tiled plans: equal outputs, and the arena that the plan has."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from random import Random

import numpy as np
import pytest

import onchip.backends.c.tflite_model as tflite_model
from onchip.answer.document import Reading
from onchip.answer.operator_tiles import OperatorTiles, TilesOption
from onchip.answer.problem import Objective
from onchip.api.networks import network_to_plan
from onchip.api.plan import Request
from onchip.api.target import Target
from onchip.backends.c.calls import BYTES, KernelCall, Table, TensorOperand, move_call, table, walk
from onchip.backends.c.tflite_model import FixedPoint, LiteModel, divide_by_power, upper_half
from onchip.backends.c.tiles import TensorParts, calls_of_region
from onchip.ops.entries import geometry_of
from onchip.search.budget.limits import Limits
from onchip.simulate.kernels.tflite_kernels import TfliteKernels
from support.c_projects import ROOM, array_sizes, built, needs_a_compiler, planned, refusal
from support.diamond import Program
from support.micro_models import Maps, random_maps
from support.series import series

LIMITS = Limits(time_limit_seconds=5)


@pytest.fixture(autouse=True)
def a_runtime_is_there() -> None:
    pytest.importorskip("ai_edge_litert")


def tiled(network: Path, sram: int) -> Request:
    target = Target(sram=sram, alignment_bytes=16)
    return Request(str(network), Reading(), target, Objective.TRAFFIC, tiles=TilesOption.AUTO, limits=LIMITS)


@needs_a_compiler
@pytest.mark.parametrize(("seed", "sram"), series([(8, 7_000), (4, 2_200), (17, 16_320), (0, 8_544), (14, 960)], 2))
def test_a_plan_in_tiles_gives_equal_bits_in_its_arena(seed: int, sram: int, tmp_path: Path) -> None:
    project = built(random_maps(Random(seed)).write(tmp_path / "model.tflite"), tiled(tmp_path / "model.tflite", sram))
    assert project.is_right, project.said
    assert "banded_" in (project.folder / "network.c").read_text()
    assert array_sizes(project.folder)["arena_sram"] == project.project.arenas["sram"] <= sram


@needs_a_compiler
@pytest.mark.parametrize("axis", [1, 2, 3])
def test_every_operator_runs_in_tiles_along_any_axis(axis: int, tmp_path: Path) -> None:
    maps = Maps(Random(5), 12, channels=4)
    maps.convolution(8, 3, 2)
    maps.pool("MAX_POOL_2D")
    maps.residual()
    maps.padded_depthwise(2)
    maps.add("RELU6", [maps.last], maps.shape)
    maps.dense()
    model = maps.classified().write(tmp_path / "model.tflite")
    graph = network_to_plan(str(model), Reading())
    tiles = {}
    for operator in graph.operators:
        geometry = geometry_of(operator, graph, is_model=True)
        if geometry is not None and len(geometry.axes) > axis and geometry.axes[axis].size > 2:
            tiles[operator.name] = OperatorTiles(axis, (1, geometry.axes[axis].size - 1, geometry.axes[axis].size))
    assert len(tiles) > 5
    project = built(model, Request(str(model), Reading(tiles=tiles), Target(sram=2**20, alignment_bytes=16)))
    assert project.is_right, project.said


@needs_a_compiler
@pytest.mark.parametrize("mode", ["recompute", "h-cached"])
def test_a_fused_graph_runs_on_the_weights_of_its_model(mode: str, onchip: Program, tmp_path: Path) -> None:
    maps = Maps(Random(5), 20, channels=4)
    maps.convolution(8, 3, 2)
    maps.residual()
    maps.padded_depthwise(2)
    maps.convolution(4, 1)
    model, graph = maps.network().write(tmp_path / "model.tflite"), tmp_path / "tiled.json"
    fused = "--accelerator", "edge-tpu-like", "--method", "loma", "--groups", "one", "--tile", "3x2", "--mode", mode
    assert onchip("fuse", model, *fused, "--emit-graph", graph).code == 0
    project = built(graph, Request(str(graph), Reading(), ROOM, Objective.PEAK, limits=LIMITS))
    assert "banded_" in (project.folder / "network.c").read_text()
    assert project.is_right, project.said
    assert array_sizes(project.folder)["arena_sram"] == project.project.arenas["sram"]
    ended = onchip("run", tmp_path / "tiled.plan.json", graph, "--json")
    assert (ended.code, ended.json["kernels"], ended.json["run"]["relative_difference"]) == (0, "ai-edge-litert", 0)
    model.write_bytes(model.read_bytes() + b"!")
    assert "has changed" in onchip("run", tmp_path / "tiled.plan.json", graph).err


def test_parts_of_a_pad_are_filled_by_one_call() -> None:
    call = KernelCall("fill", (4 * 5 * 3, 1, table("zero", [7], "int8"), TensorOperand("y", BYTES)))
    (cut,) = calls_of_region(call, "op", ((4, 5, 3), 1), ((1, 4), (0, 4), (0, 3)))
    assert cut.function == "move"
    assert cut.arguments[0] == walk((3, 12), (15, 1), (0, 0))
    assert cut.written == TensorOperand("y", BYTES, 15)


def test_parts_of_a_tensor_are_found_by_their_indices_in_the_whole() -> None:
    regions = (((0, 2), (0, 5)), ((1, 4), (0, 2)), ((2, 4), (2, 5)))
    parts = TensorParts((4, 5), 2, tuple((region, "arena", 100 * at) for at, region in enumerate(regions)))
    bands = parts.bands(0)
    for row, column in product(range(4), range(5)):
        cell = 0
        for index, (_, edges) in zip((row, column), bands.axes, strict=True):
            cell = cell * (len(edges) - 1) + sum(edge <= index for edge in edges[1:])
        part = bands.parts[cell]
        address = part.offset + sum(index * step for index, step in zip((row, column), part.steps, strict=True))
        expected = {
            100 * at + 2 * ((row - top) * (right - left) + column - left)
            for at, ((top, bottom), (left, right)) in enumerate(regions)
            if top <= row < bottom and left <= column < right
        }
        assert address in expected


def test_a_constant_that_moves_is_cut_by_its_elements() -> None:
    constant = table("constant", range(12), "float32")
    call = move_call((3, 4), (TensorOperand("y", BYTES), (4, 1)), (constant, (4, 1)), 4)
    (cut,) = calls_of_region(call, "op", ((3, 4), 4), ((1, 3), (0, 4)))
    assert cut.written == TensorOperand("y", BYTES, 16)
    assert [one.first for one in cut.arguments if isinstance(one, Table)] == [4]


@needs_a_compiler
def test_tiles_that_an_operator_cannot_have_are_refused(tmp_path: Path) -> None:
    model = random_maps(Random(8)).write(tmp_path / "model.tflite")
    plan = planned(model, tiled(model, 7_000))
    plan.write_text(plan.read_text().replace('"axis": 2', '"axis": 9', 1))
    assert "not cut along axis 9" in refusal(model, plan)


@pytest.mark.parametrize("factor", [0.3, 0.0017, 1.4, 2e-7])
def test_sums_are_rounded_twice(factor: float) -> None:
    fixed = FixedPoint.of(factor)
    sums = np.random.default_rng(3).integers(-(2**20), 2**20, 500)
    left, right = max(fixed.shift, 0), max(-fixed.shift, 0)
    expected = [divide_by_power(upper_half(int(one) << left, fixed.multiplier), right) for one in sums]
    assert fixed.of_sums(sums).tolist() == expected


@pytest.mark.parametrize("seed", series(range(4), 2))
def test_expected_outputs_without_tflite_micro_are_its_own(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tflite_micro")
    maps = Maps(Random(seed), 4, channels=16)
    maps.add("RESHAPE", [maps.last, maps.numbers([1, 256], 2)], (1, 256))
    for _ in range(3):
        operands = [maps.last, maps.weights(256, 256), maps.bias(256)]
        maps.add("FULLY_CONNECTED", operands, (1, 256), ("FullyConnectedOptions", {}))
    file = maps.network().write(tmp_path / "model.tflite")
    graph = network_to_plan(str(file), Reading())
    model = LiteModel(TfliteKernels(graph, file))
    inputs = model.inputs(graph, {})
    (expected,) = model.outputs(graph, inputs, 1).values()
    monkeypatch.setattr(tflite_model, "micro_outputs", lambda *_: None)
    (found,) = model.outputs(graph, inputs, 1).values()
    assert found.tolist() == expected.tolist()
