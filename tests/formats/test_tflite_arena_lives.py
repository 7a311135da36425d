"""Live ranges of the runtime's arena, by hand; tests/published/test_tflm_obeys.py tests against the runtime itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from onchip.answer.packing import Buffer
from onchip.formats.networks import network_of_file
from onchip.formats.tflite.arena import arena_contents, arena_lives, has_known_scratch, scratch_bytes
from onchip.formats.tflite.file import model_file
from onchip.formats.tflite.graph import ReadNetwork
from support.micro_models import int8
from support.tflite_models import TfliteModel, TfliteOperator, TfliteTensor, network


def read(model: TfliteModel) -> ReadNetwork:
    return network_of_file(model_file(model.content()), "main")


def lives(model: TfliteModel, order: Sequence[int]) -> dict[str, tuple[int, int]]:
    found = read(model)
    return {found.network.tensors[at].name: life for at, life in arena_lives(found, order).items()}


def branching() -> TfliteModel:
    """Return a network: two operators read x, a third reads their outputs; y is an output too; `idle` is unused."""
    operators = [
        TfliteOperator("RELU", ["x"], ["a"]),
        TfliteOperator("RELU", ["x"], ["y"]),
        TfliteOperator("ADD", ["a", "y"], ["z"]),
    ]
    tensors = [int8(name, 1, 64) for name in ("x", "unread", "a", "y", "z", "idle")]
    tensors += [int8("empty", 1, 0), TfliteTensor("kept", [1, 64], "INT8", is_variable=True)]
    tensors.append(TfliteTensor("known", [2], "INT8", np.array([1, 2], np.int8)))
    return network(tensors, operators, ["x", "unread"], ["y", "z"])


def test_inputs_live_from_the_start_and_outputs_to_the_end() -> None:
    assert lives(branching(), [0, 1, 2]) == {
        "x": (0, 3),
        "unread": (0, 1),
        "a": (1, 4),
        "y": (2, 4),
        "z": (3, 4),
        "idle": (4, 5),
    }


def test_a_view_is_one_buffer_with_its_source_over_both_lives() -> None:
    operators = [TfliteOperator("RESHAPE", ["x"], ["v"]), TfliteOperator("RELU", ["v"], ["y"])]
    found = read(network([int8("x", 1, 64), int8("v", 64, 1), int8("y", 64, 1)], operators, ["x"], ["y"]))
    together = arena_contents(found, [0, 1])
    assert together.groups == ((0, 1), (2,))
    assert together.buffers == (Buffer(0, 3, 64), Buffer(2, 3, 64))
    apart = arena_contents(found, [0, 1], views_apart=True)
    assert apart.groups == ((0,), (1,), (2,))
    assert apart.buffers[:2] == (Buffer(0, 2, 64), Buffer(1, 3, 64))


def test_half_a_byte_is_a_whole_one_in_the_arena() -> None:
    operators = [TfliteOperator("RELU", ["x"], ["y"])]
    tensors = [TfliteTensor(name, [1, 9], "INT4", scale=0.5) for name in "xy"]
    assert [one.size_bytes for one in arena_contents(read(network(tensors, operators, ["x"], ["y"])), [0]).buffers] == [
        9,
        9,
    ]


def constant(name: str, kind: str, *shape: int, scale: float | None = 0.1) -> TfliteTensor:
    bits = {"INT4": 4, "INT8": 8, "INT16": 16, "FLOAT32": 32}[kind]
    return TfliteTensor(name, shape, kind, scale=scale, raw=bytes(-(-int(np.prod(shape)) * bits // 8)))


X, ROW, OUT = int8("x", 1, 4, 4, 8), int8("x", 1, 16), int8("y", 1, 8, 8, 6)
AXES = TfliteTensor("axes", [2], "INT32", np.array([1, 2], np.int32))
FLOATS = (TfliteTensor("x", [1, 4, 4, 8]), TfliteTensor("y", [1, 8]))
HALVES = (TfliteTensor("x", [1, 4, 4, 8], "INT16"), TfliteTensor("y", [1, 8], "INT16"))
STATE = TfliteTensor("state", [1, 40], "INT8", is_variable=True)
CASES: dict[str, tuple[str, list[TfliteTensor], TfliteTensor, list[int]]] = {
    "filters of 4 bits are unpacked": ("CONV_2D", [X, constant("w", "INT4", 6, 1, 1, 8)], OUT, [48]),
    "filters of 8 bits are not": ("CONV_2D", [X, constant("w", "INT8", 6, 1, 1, 8)], OUT, []),
    "a sum of many has pointers": ("ADD_N", [X, X, X], int8("y", 1, 4, 4, 8), [24]),
    "mirrored edges have two indices": ("MIRROR_PAD", [X, AXES], OUT, [16, 16]),
    "a mean of integers has sums": ("MEAN", [X, AXES], int8("y", 1, 8), [32, 16, 8]),
    "one of 16 bits as well": ("SUM", [HALVES[0], AXES], HALVES[1], [32, 16, 8]),
    "one of floats has none": ("MEAN", [FLOATS[0], AXES], FLOATS[1], [16, 8]),
    "a maximum has none": ("REDUCE_MAX", [X, AXES], int8("y", 1, 8), [16, 8]),
    "transposed convolutions sum up": ("TRANSPOSE_CONV", [AXES, constant("w", "INT8", 6, 3, 3, 8), X], OUT, [1536]),
    "in 64 bits for 16": ("TRANSPOSE_CONV", [AXES, constant("w", "INT8", 6, 3, 3, 8), HALVES[0]], OUT, [3072]),
    "and convert a bias of 16": (
        "TRANSPOSE_CONV",
        [AXES, constant("w", "INT8", 6, 3, 3, 8), HALVES[0], constant("b", "INT16", 6)],
        OUT,
        [48, 3072],
    ),
    "a filter over time has its features": (
        "SVDF",
        [ROW, constant("f", "INT8", 8, 16), constant("t", "INT8", 8, 5), constant("b", "INT8", 4), STATE],
        int8("y", 1, 4),
        [32, 16],
    ),
    "anything else has none": ("RELU", [X], int8("y", 1, 4, 4, 8), []),
}


@pytest.mark.parametrize("case", CASES)
def test_scratch_buffers_are_those_that_the_kernels_ask_for(case: str) -> None:
    kind, operands, output, sizes = CASES[case]
    tensors = list({tensor.name: tensor for tensor in (*operands, output)}.values())
    operator = TfliteOperator(kind, [tensor.name for tensor in operands], ["y"])
    found = read(network(tensors, [operator], ["x"], ["y"])).network
    assert list(scratch_bytes(found.operators[0], found.tensors)) == sizes


def test_an_lstm_has_four_gates() -> None:
    """The states are operands 18 and 19: the output's has 8 bits, the cell's 16."""
    states = [
        TfliteTensor("state", [1, 20], "INT8", is_variable=True),
        TfliteTensor("cell", [1, 20], "INT16", is_variable=True),
    ]
    operator = TfliteOperator("UNIDIRECTIONAL_SEQUENCE_LSTM", ["x", *[""] * 17, "state", "cell"], ["y"])
    found = read(network([int8("x", 1, 3, 4), *states, int8("y", 1, 3, 20)], [operator], ["x"], ["y"])).network
    assert scratch_bytes(found.operators[0], found.tensors) == (40, 40, 40, 40)


@pytest.mark.parametrize(("name", "is_known"), [("SignalRfft", True), ("SignalWindow", True), ("mine", False)])
def test_of_custom_operators_the_runtimes_own_are_known(name: str, is_known: bool) -> None:
    samples, spectrum = TfliteTensor("x", [1, 500], "INT16"), TfliteTensor("y", [1, 514], "INT16")
    operator = TfliteOperator("CUSTOM", ["x"], ["y"], custom=name)
    found = read(network([samples, spectrum], [operator], ["x"], ["y"])).network
    assert has_known_scratch(found.operators[0]) is is_known
    assert scratch_bytes(found.operators[0], found.tensors) == ((1024,) if name == "SignalRfft" else ())
