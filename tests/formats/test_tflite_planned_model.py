from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import flatbuffers
import pytest
import tflite

from onchip.errors import InputError
from onchip.formats.networks import network_of_file
from onchip.formats.tflite.arena import METADATA, arena_plan_of, plan_content, with_arena_plan
from onchip.formats.tflite.file import ModelFile, model_file
from support.micro_models import branches, random_model
from support.micro_runtime import Untyped
from support.series import in_one_test
from support.tflite_models import TfliteModel, TfliteOperator, TfliteTensor, network

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
