"""Operators whose parts do not fit run in steps: normalisations with partial sums of statistics, and attention."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, numpy_helper

from onchip.answer.bindings import Bindings
from onchip.answer.document import Split
from onchip.answer.problem import Problem
from onchip.api.networks import read_network
from onchip.arch.memory import Memory
from onchip.errors import UnsplitError
from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, Operator, StatedCost
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import SumPart
from onchip.ops.pointwise import ATTENTION_SCORES, STATISTICS_OF, STEPS
from onchip.scheduling.candidates.in_steps import steps_of
from onchip.scheduling.candidates.split import split_operators
from onchip.simulate.kernels.onnx_kernels import OnnxKernels
from onchip.simulate.kernels.onnx_tiles import OnnxStepTileKernels, StepKernels
from onchip.simulate.machine import run_in_given_order
from onchip.transform.slices.bands import Bytes, bytes_put_together, untiled
from support.onnx_networks import integers, make_node, model, value
from support.series import with_slow
from support.tiled_values import whole_tensor_differences

pytest.importorskip("onnxruntime", reason="onnxruntime runs the models: pip install 'onchip[run]'")
Array = npt.NDArray[np.float32]
TOLERANCE = 5e-6
CHANCE = np.random.default_rng(5)


def floats(name: str, *shape: int) -> TensorProto:
    return numpy_helper.from_array(CHANCE.normal(size=shape).astype(np.float32), name)


def node(kind: str, *operands: str, **attributes: object) -> onnx.NodeProto:
    return make_node(kind, ["x", *operands], ["y"], name="op", **attributes)  # type: ignore[arg-type]


Network = tuple[Sequence[onnx.NodeProto], Mapping[str, Sequence[int]], Sequence[TensorProto]]
NETWORKS: dict[str, Network] = {
    "InstanceNormalization": (
        [node("InstanceNormalization", "s", "b")],
        {"x": [2, 3, 40, 9]},
        [floats("s", 3), floats("b", 3)],
    ),
    "InstanceNormalization and an activation": (
        [node("InstanceNormalization", "s", "b"), make_node("Relu", ["y"], ["z"], name="after")],
        {"x": [1, 3, 40, 9]},
        [floats("s", 3), floats("b", 3)],
    ),
    "InstanceNormalization of a view": (
        [
            make_node("Reshape", ["v", "shape"], ["x"], name="view"),
            node("InstanceNormalization", "s", "b"),
        ],
        {"v": [1, 12, 8, 9]},
        [integers("shape", [1, 1, 864]), floats("s", 1), floats("b", 1)],
    ),
    "GroupNormalization": (
        [node("GroupNormalization", "s", "b", num_groups=2)],
        {"x": [2, 30, 5, 3]},
        [floats("s", 30), floats("b", 30)],
    ),
    "LayerNormalization of maps": (
        [node("LayerNormalization", "s", "b", axis=1)],
        {"x": [2, 25, 4, 6]},
        [floats("s", 25, 4, 6), floats("b", 25, 4, 6)],
    ),
    "LayerNormalization of rows with a scale alone": (
        [node("LayerNormalization", "s", axis=-1, epsilon=0.1)],
        {"x": [3, 900]},
        [floats("s", 900)],
    ),
    "LayerNormalization scaled by an input": (
        [node("LayerNormalization", "s")],
        {"x": [3, 900], "s": [900]},
        [],
    ),
    "RMSNormalization": ([node("RMSNormalization", "s", axis=1)], {"x": [2, 40, 11]}, [floats("s", 40, 11)]),
    "Attention": (
        [make_node("Attention", ["q", "k", "v"], ["y"], name="op")],
        {"q": [1, 2, 30, 8], "k": [1, 2, 60, 8], "v": [1, 2, 60, 6]},
        [],
    ),
    "Attention of grouped heads with a mask": (
        [make_node("Attention", ["q", "k", "v", "m"], ["y"], name="op", scale=0.3)],
        {"q": [2, 4, 20, 8], "k": [2, 2, 60, 8], "v": [2, 2, 60, 6], "m": [2, 1, 20, 60]},
        [],
    ),
}
SLOW = {
    "InstanceNormalization and an activation",
    "LayerNormalization of rows with a scale alone",
    "Attention of grouped heads with a mask",
}


def read(name: str, folder: Path) -> tuple[Graph, Path]:
    nodes, inputs, parameters = NETWORKS[name]
    path = folder / "network.onnx"
    given = [value(each, shape) for each, shape in inputs.items()]
    network = model(nodes, given, [nodes[-1].output[0]], parameters, opset=23)
    path.write_bytes(network.SerializeToString())
    return read_network(str(path)), path


def in_steps(whole: Graph, *, is_model: bool = True, beyond: int = 64) -> Graph:
    """Split for little more room than the least in which some part of each step fits; all do in more than that."""

    def fits(size: int) -> bool:
        return _fits(whole, size, is_model=is_model)

    enough = next(size for size in (16 << at for at in range(16)) if fits(size))
    sizes = range(enough // 2 + 16, enough, 16) if enough > 16 else range(0)
    at = bisect_left(sizes, True, key=fits)
    least = sizes[at] if at < len(sizes) else enough
    return split_operators(_problem(whole, least + beyond), Split.AUTO, is_model=is_model)


def _problem(whole: Graph, capacity_bytes: int) -> Problem:
    return Problem(whole, (Memory("sram", capacity_bytes),))


def _fits(whole: Graph, capacity_bytes: int, *, is_model: bool) -> bool:
    try:
        split_operators(_problem(whole, capacity_bytes), Split.AUTO, is_model=is_model)
    except UnsplitError:
        return False
    return True


def kernels_of(tiled: Graph, whole: Graph, path: Path) -> OnnxStepTileKernels:
    steps = untiled(tiled) or tiled
    return OnnxStepTileKernels(tiled, steps, StepKernels(steps, whole, OnnxKernels(whole, path, Bindings())))


def difference(tiled: Graph, whole: Graph, path: Path) -> float:
    kernels = kernels_of(tiled, whole, path)
    inputs = {tensor.name: kernels.network_input(tensor) for tensor in tiled.with_role(Role.INPUT)}
    outputs = run_in_given_order(Problem(tiled, (Memory("sram", 2**40),)), kernels, inputs).outputs
    return kernels.difference_from_whole_model(inputs, outputs)


def values_in_steps(tiled: Graph, whole: Graph, path: Path) -> tuple[Array, Array]:
    """What is normalised and what is made of it, whole, of the one input and the one output."""
    kernels = kernels_of(tiled, whole, path)
    inputs = {tensor.name: kernels.network_input(tensor) for tensor in tiled.with_role(Role.INPUT)}
    outputs = run_in_given_order(Problem(tiled, (Memory("sram", 2**40),)), kernels, inputs).outputs
    source, written = (_put_together(whole.tensor[name], each, tiled) for name, each in (("x", inputs), ("y", outputs)))
    return source, written


def _put_together(base: Tensor, contents: Mapping[str, Bytes], tiled: Graph) -> Array:
    bands = [(tiled.tensor[name], content) for name, content in contents.items()]
    return bytes_put_together(base, bands).view(np.float32)


@pytest.mark.parametrize("name", with_slow(NETWORKS, SLOW.__contains__))
def test_steps_give_what_the_operator_gives(name: str, tmp_path: Path) -> None:
    whole, path = read(name, tmp_path)
    tiled = in_steps(whole)
    assert {one.kind for one in tiled.operators} <= STEPS.keys()
    assert difference(tiled, whole, path) < TOLERANCE


@pytest.mark.parametrize("name", with_slow(NETWORKS, SLOW.__contains__))
def test_sums_of_steps_are_taken_in_parts(name: str, tmp_path: Path) -> None:
    """But for what was fused behind a sum, each step that sums up is cut along what it sums up."""
    tiled = in_steps(read(name, tmp_path)[0])
    parts = {one.tile.part for one in tiled.operators if one.tile is not None and "mean" in one.tile.operator}
    assert "Attention" in name or {SumPart.START, SumPart.END} <= parts


@pytest.mark.parametrize("name", with_slow(NETWORKS, SLOW.__contains__))
def test_steps_in_tiles_are_the_made_up_values_of_steps(name: str, tmp_path: Path) -> None:
    whole, _ = read(name, tmp_path)
    tiled = in_steps(whole, is_model=False)
    steps = untiled(tiled)
    assert steps is not None
    assert whole_tensor_differences(tiled, steps) == ()


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(sorted(STATISTICS_OF)),
    shape=st.tuples(st.integers(1, 2), st.sampled_from((1, 2, 4, 6)), st.integers(1, 20), st.integers(2, 20)),
    groups=st.sampled_from((1, 2)),
    axis=st.integers(1, 3),
    beyond=st.integers(0, 400),
)
def test_random_normalisations_in_steps_are_those_of_numpy(
    kind: str, shape: tuple[int, ...], groups: int, axis: int, beyond: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if kind == "GroupNormalization" and shape[1] % groups:
        return
    by_channel = kind in ("InstanceNormalization", "GroupNormalization")
    scale, shift = (
        floats("s", *(shape[1:2] if by_channel else shape[axis:])),
        floats("b", *(shape[1:2] if by_channel else shape[axis:])),
    )
    attributes = {"num_groups": groups} if kind == "GroupNormalization" else {} if by_channel else {"axis": axis}
    operands = ("s",) if kind == "RMSNormalization" else ("s", "b")
    path = tmp_path_factory.mktemp("random") / "network.onnx"
    network = model(
        [node(kind, *operands, **attributes)], [value("x", shape)], ["y"], [scale, shift][: len(operands)], opset=23
    )
    path.write_bytes(network.SerializeToString())
    whole = read_network(str(path))
    tiled = in_steps(whole, beyond=beyond)
    source, found = values_in_steps(tiled, whole, path)
    given = source.reshape(shape).astype(np.float64)
    seen = given.reshape(shape[0], groups if kind == "GroupNormalization" else shape[1], -1) if by_channel else given
    reduced = tuple(range(2, seen.ndim)) if by_channel else tuple(range(axis, 4))
    mean = 0 if kind == "RMSNormalization" else seen.mean(axis=reduced, keepdims=True)
    normal = (seen - mean) / np.sqrt(np.square(seen - mean).mean(axis=reduced, keepdims=True) + 1e-5)
    ones = (1, 1) if by_channel else ()
    scales, shifts = (numpy_helper.to_array(one).reshape(*one.dims, *ones) for one in (scale, shift))
    expected = normal.reshape(shape) * scales + (shifts if len(operands) > 1 else 0)
    assert np.allclose(found.reshape(shape), expected, rtol=1e-4, atol=1e-5)


def test_what_fits_in_a_split_is_not_taken_apart(tmp_path: Path) -> None:
    whole, _ = read("InstanceNormalization", tmp_path)
    channel = 2 * 40 * 9 * 4
    tiled = split_operators(_problem(whole, channel), Split.AUTO, is_model=True)
    assert {one.kind for one in tiled.operators} == {"InstanceNormalization"}
    apart = split_operators(_problem(whole, channel - 1), Split.AUTO, is_model=True)
    assert {one.kind for one in apart.operators} == {"GroupMean", "GroupVariance", "Normalised"}


def test_an_operator_of_which_some_step_does_not_fit_is_refused_by_its_name(tmp_path: Path) -> None:
    whole, _ = read("Attention", tmp_path)
    with pytest.raises(UnsplitError) as refused:
        split_operators(_problem(whole, 2 * 60 * 4 - 1), Split.AUTO, is_model=True)
    assert refused.value.operator == "op"


def test_an_operator_of_which_a_file_says_what_it_costs_is_not_taken_apart(tmp_path: Path) -> None:
    whole, _ = read("InstanceNormalization", tmp_path)
    operator = whole.operator["op"]
    assert steps_of(operator, whole, is_model=True) is not None
    assert steps_of(replace(operator, stated=StatedCost(cycles=5)), whole, is_model=True) is None
    assert steps_of(replace(operator, workspace_bytes=8), whole, is_model=True) is None


def test_attention_that_changes_its_scores_is_not_taken_apart_in_a_model(tmp_path: Path) -> None:
    whole, _ = read("Attention", tmp_path)
    causal = replace(whole.operator["op"], attributes={"is_causal": 1})
    assert steps_of(causal, whole, is_model=True) is None
    assert steps_of(causal, whole, is_model=False) is not None


def test_operators_are_taken_apart_for_several_scratchpads_too(tmp_path: Path) -> None:
    whole, path = read("GroupNormalization", tmp_path)
    memories = (Memory("one", 600), Memory("other", 600))
    tiled = split_operators(Problem(whole, memories), Split.AUTO, is_model=True)
    assert {one.kind for one in tiled.operators} == {"GroupMean", "GroupVariance", "Normalised"}
    assert difference(tiled, whole, path) < TOLERANCE


@pytest.mark.slow
def test_a_program_in_which_attention_sees_views_is_in_tiles_of_steps() -> None:
    """Keys and values lie as rows of all heads side by side, as programs have them."""
    rows = [Tensor.of_shape(name, (1, 40, 16), 32, Role.INPUT) for name in ("q", "k", "v")]
    written = Tensor.of_shape("y", (1, 2, 40, 8), 32, Role.OUTPUT)
    seen: dict[str, AttributeValue] = {
        "seen_shapes": [[1, 2, 40, 8] for _ in rows],
        "seen_orders": [[0, 2, 1] for _ in rows],
    }
    operator = Operator("op", "Attention", ("q", "k", "v"), ("y",), attributes=seen)
    whole = Graph("program", (*rows, written), (operator,))
    tiled = in_steps(whole, is_model=False)
    steps = untiled(tiled)
    assert steps is not None
    assert any(one.kind == ATTENTION_SCORES for one in tiled.operators)
    assert whole_tensor_differences(tiled, steps) == ()
