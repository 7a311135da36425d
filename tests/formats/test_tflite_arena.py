"""Arenas of TFLite Micro: live ranges by hand, scratch buffers, and models with another plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import flatbuffers
import numpy as np
import pytest
import tflite

from onchip.answer.packing import Buffer
from onchip.errors import InputError
from onchip.formats.networks import network_of_file
from onchip.formats.tflite.arena import (
    METADATA,
    arena_contents,
    arena_lives,
    arena_plan_of,
    has_known_scratch,
    plan_content,
    scratch_bytes,
    with_arena_plan,
)
from onchip.formats.tflite.file import ModelFile, model_file
from onchip.formats.tflite.graph import ReadNetwork
from support.micro_models import branches, int8, random_model
from support.micro_runtime import Untyped
from support.series import in_one_test
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


MODELS = Path(__file__).parents[1] / "data" / "tflite"


def planned(content: bytes, offsets: Sequence[int] | None = None, order: Sequence[int] | None = None) -> bytes:
    file = model_file(content)
    main = file.subgraphs[0]
    return with_arena_plan(
        file,
        [16 * at for at in range(len(main.tensors))] if offsets is None else offsets,
        range(len(main.operators)) if order is None else order,
    )


def buffers_of(content: bytes) -> list[bytes]:
    model = tflite.Model.GetRootAs(content)
    tables = [model.Buffers(at) for at in range(model.BuffersLength())]
    return [b"" if one.DataIsNone() else bytes(one.DataAsNumpy()) for one in tables]


def tables_of(file: ModelFile, order: Sequence[int]) -> list[object]:
    """Return all tables of a file without positions; its operators are in `order`."""
    main = file.subgraphs[0]
    tensors = [replace(tensor, content=None, place=0) for tensor in main.tensors]
    operators = [main.operators[at] for at in order]
    return [main.name, main.inputs, main.outputs, tensors, operators, [_options(one.table) for one in operators]]


def _options(table: Untyped) -> tuple[int, int, bytes]:
    custom = b"" if table.CustomOptionsIsNone() else bytes(table.CustomOptionsAsNumpy())
    return table.OpcodeIndex(), table.BuiltinOptionsType(), custom


def metadata_of(content: bytes) -> list[tuple[str, bytes]]:
    file, buffers = model_file(content), buffers_of(content)
    entries = [file.table.Metadata(at) for at in range(file.table.MetadataLength())]
    return [(entry.Name().decode(), buffers[entry.Buffer()]) for entry in entries]


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.tflite")), ids=lambda path: path.stem)
def test_all_but_the_plan_is_the_same_bytes_behind_a_new_root(path: Path) -> None:
    content = path.read_bytes()
    again = planned(content)
    old, new = model_file(content), model_file(again)
    moved = len(again) - len(content) - (-len(content) % 16)
    assert moved % 16 == 0
    assert again[moved : moved + len(content)] == content
    count = len(old.subgraphs[0].operators)
    assert tables_of(new, range(count)) == tables_of(old, range(count))
    assert buffers_of(again)[: len(buffers_of(content))] == buffers_of(content)
    assert metadata_of(again)[:-1] == metadata_of(content)
    for name in ("Version", "Description", "OperatorCodesLength", "SignatureDefsLength", "MetadataBufferLength"):
        assert getattr(new.table, name)() == getattr(old.table, name)()


def test_offsets_are_read_back_and_lie_where_the_runtime_may_read_numbers() -> None:
    content = branches().content()
    again = planned(content)
    file = model_file(again)
    assert again[4:8] == b"TFL3"
    (start,) = [place.start for name, place in file.metadata if name == METADATA and place is not None]
    assert start % 16 == 0
    offsets = [16 * at for at in range(len(file.subgraphs[0].tensors))]
    assert dict(metadata_of(again))[METADATA] == plan_content(offsets)
    assert arena_plan_of(network_of_file(file, "main")).listed == len(offsets)


@in_one_test("seed", range(20))
def test_operators_stand_in_the_order_asked_for(seed: int) -> None:
    random = Random(seed)
    content = random_model(random).content()
    order = list(range(len(model_file(content).subgraphs[0].operators)))
    random.shuffle(order)
    again = planned(content, order=order)
    assert tables_of(model_file(again), range(len(order))) == tables_of(model_file(content), order)
    assert buffers_of(again)[:-1] == buffers_of(content)


def refused(content: bytes, order: Sequence[int] | None = None) -> str:
    with pytest.raises(InputError) as caught:
        planned(content, order=order)
    return str(caught.value)


def test_what_means_something_else_behind_a_new_root_is_refused() -> None:
    model = branches()
    turned = range(len(model.subgraphs[0].operators) - 1, -1, -1)
    model.metadata = {"model_control_dependencies": b"\1"}
    assert "orders operators by their places" in refused(model.content(), turned)
    planned(model.content())
    model.metadata = {"COMPRESSION_METADATA": b"\1"}
    assert "its tensors are compressed" in refused(model.content())
    again = TfliteModel([branches().subgraphs[0], branches().subgraphs[0]])
    assert "has 2 subgraphs, whose lives overlap" in refused(again.content())


class _Copy:
    """A model behind a new root, with an extra field of eight bytes in one table."""

    def __init__(self, content: bytes, table: str, slot: int) -> None:
        self.builder: Any = flatbuffers.Builder(0)
        self.builder.Bytes, self.builder.head = bytearray(content + bytes(-len(content) % 16)), 0
        self.size, self.table, self.slot = len(self.builder.Bytes), table, slot
        self.model = tflite.Model.GetRootAs(content)

    def content(self) -> bytes:
        main = self.model.Subgraphs(0)
        others = [self.size - main.Operators(at)._tab.Pos for at in range(1, main.OperatorsLength())]
        operators = self._vector([self._table(main.Operators(0), "Operator", range(1, 3), {}), *others])
        graph = self._table(main, "SubGraph", range(5), {3: operators})
        graphs = self._vector([graph])
        self.builder.Finish(self._table(self.model, "Model", range(1, 8), {2: graphs}), file_identifier=b"TFL3")
        return bytes(self.builder.Output())

    def _table(self, of: Untyped, name: str, slots: range, changed: dict[int, int]) -> int:
        self.builder.StartObject(max(slots.stop, self.slot + 1))
        for at in slots:
            place = of._tab.Offset(4 + 2 * at)
            target = self.size - of._tab.Indirect(of._tab.Pos + place) if place else 0
            self.builder.PrependUOffsetTRelativeSlot(at, changed.get(at, target), 0)
        if name == self.table:
            self.builder.PrependUint64Slot(self.slot, 64, 0)
        return int(self.builder.EndObject())

    def _vector(self, tables: Sequence[int]) -> int:
        self.builder.StartVector(4, len(tables), 4)
        for each in reversed(tables):
            self.builder.PrependUOffsetTRelative(each)
        return int(self.builder.EndVector())


@pytest.mark.parametrize(
    ("table", "slot", "line"),
    [
        ("Model", 8, "its Model has fields that were not there when this was written"),
        ("SubGraph", 6, "its SubGraph has fields that were not there when this was written"),
        ("Operator", 9, "some of its bytes lie behind the flatbuffer"),
        ("Operator", 10, "some of its bytes lie behind the flatbuffer"),
    ],
)
def test_fields_that_cannot_be_carried_over_are_refused(table: str, slot: int, line: str) -> None:
    tensors = [TfliteTensor("x", [4]), TfliteTensor("y", [4]), TfliteTensor("z", [4])]
    operators = [TfliteOperator("RELU", "x", "y"), TfliteOperator("RELU", "x", "z")]
    content = _Copy(network(tensors, operators, "x", "yz").content(), table, slot).content()
    assert line in refused(content, order=[1, 0])


def test_damaged_bytes_end_in_a_model_or_in_one_line() -> None:
    random = Random(0)
    content, lines = branches().content(), []
    for _ in range(300):
        changed = bytearray(content)
        for _ in range(random.randint(1, 4)):
            changed[random.randrange(len(changed) // 8)] = random.randrange(256)
        try:
            again = planned(bytes(changed))
        except InputError as error:
            lines.append(str(error))
        else:
            assert again[4:8] == b"TFL3"
    assert lines
    assert not any("\n" in line for line in lines)
