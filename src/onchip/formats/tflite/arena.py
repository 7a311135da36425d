"""Arena plans of TFLite Micro: lifetimes, kernel buffers, the plan that a file holds, and files with another plan.

As `micro_allocation_info.cc` defines: step 0 gives the inputs, and step k + 1 runs the operator at place k. Inputs live
from step 0, outputs until the last step. The metadata `OfflineMemoryAllocation`, version 1, are int32 numbers: 1, a
number that the runtime does not read, the number of tensors, and an offset for each tensor of the first subgraph. An
offset of -1 leaves the address to the runtime, as for constants.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Final

import numpy as np

from onchip.answer.packing import Buffer
from onchip.errors import GraphError, InputError, errors_in_file
from onchip.formats.networks import read_tflite_network
from onchip.formats.tflite.file import INT4, Accessor, ModelFile, bits_of, refused_if_damaged, type_name
from onchip.formats.tflite.graph import BUFFER_ALIGNMENT_BYTES, Front, ReadNetwork, field_place
from onchip.formats.tflite.network import FlatNetwork, NetworkOperator, NetworkTensor
from onchip.formats.tflite.storage import VIEWS
from onchip.ir.tensor import size_in_bytes

_POINTER_BYTES: Final = 8
_SUM_BYTES: Final = 4
_INDEX_BYTES: Final = 4
_UNPACKED_FILTERS: Final = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"})
_MEANS: Final = frozenset({"MEAN", "SUM"})
_REDUCTIONS: Final = _MEANS | {"REDUCE_MAX", "REDUCE_MIN", "REDUCE_ALL"}
_INTEGERS: Final = frozenset({"INT8", "INT16"})
_CUSTOM: Final = "custom."
_FOURIER: Final = "custom.SignalRfft"
_CUSTOM_WITHOUT: Final = frozenset(
    {"CIRCULAR_BUFFER", "SignalDelay", "SignalEnergy", "SignalFftAutoScale", "SignalFilterBank", "SignalFilterBankLog"}
    | {"SignalFilterBankSquareRoot", "SignalFilterBankSpectralSubtraction", "SignalFramer", "SignalIrfft"}
    | {"SignalOverlapAdd", "SignalPCAN", "SignalStacker", "SignalWindow"}
)
"""Custom operators of the runtime whose kernels need no buffers."""
_LSTM_STATE: Final = 18
_LSTM_CELL: Final = 19
_LSTM_GATES: Final = 4


@dataclass(frozen=True, slots=True)
class ArenaContents:
    """Contents of an arena for an operator order: the tensors of a group share an address, for the time in `buffers`.

    `scratch` are the buffers of each operator's kernel, by position in the order. Sizes are in bytes, without padding.
    """

    groups: tuple[tuple[int, ...], ...]
    buffers: tuple[Buffer, ...]
    scratch: tuple[tuple[Buffer, ...], ...]


def arena_contents(read: ReadNetwork, order: Sequence[int], *, views_apart: bool = False) -> ArenaContents:
    """Return the contents if the file's operators run in `order`; a view shares the address of its source, or not.

    Raises GraphError for elements without a fixed size.
    """
    lives = arena_lives(read, order)
    groups: dict[int, list[int]] = {}
    for index in sorted(lives):
        base = read.storage.base(index)
        groups.setdefault(base if base in lives and not views_apart else index, []).append(index)
    network = read.network
    buffers = [
        Buffer(
            min(lives[index][0] for index in group),
            max(lives[index][1] for index in group),
            max(arena_size_bytes(network.tensors[index]) for index in group),
        )
        for group in groups.values()
    ]
    scratch = [
        tuple(Buffer(step, step + 1, size) for size in scratch_bytes(network.operators[at], network.tensors))
        for step, at in enumerate(order, start=1)
    ]
    return ArenaContents(tuple(map(tuple, groups.values())), tuple(buffers), tuple(scratch))


def arena_lives(read: ReadNetwork, order: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Return a map from tensor to the half-open range of steps that need its bytes, without constants and states.

    A tensor that no operator touches lives in a separate step after the last.
    """
    network, storage = read.network, read.storage
    last = len(order) + 1
    lives = dict.fromkeys(network.inputs, (0, 1))
    for step, place in enumerate(order, start=1):
        operator = network.operators[place]
        for index in operator.outputs:
            lives[index] = (step, step + 1)
        for index in operator.inputs:
            if index in lives:
                lives[index] = (lives[index][0], step + 1)
    for index in network.outputs:
        if index in lives:
            lives[index] = (lives[index][0], last)
    for index, tensor in enumerate(network.tensors):
        if tensor.stated.content is None:
            lives.setdefault(index, (last, last + 1))
    return {at: life for at, life in lives.items() if prod(network.tensors[at].shape) and not storage.is_state(at)}


def arena_size_bytes(tensor: NetworkTensor) -> int:
    """Return the bytes of a tensor in the arena, where half a byte counts as one; raises GraphError."""
    bits = 8 if tensor.element_type == INT4 else bits_of(tensor.element_type)
    if bits is None:
        raise GraphError("its elements have no fixed size", f"tensor {tensor.name!r}", "numbers")
    return size_in_bytes(tensor.shape, bits)


def scratch_bytes(operator: NetworkOperator, tensors: Sequence[NetworkTensor]) -> tuple[int, ...]:
    """Return the sizes of an operator's scratch buffers in bytes; empty for kinds without any and for unknown kinds.

    The sizes are those of the `Prepare` functions of `tensorflow/lite/micro/kernels`, with pointers of eight bytes.
    Kernels for one processor (CMSIS-NN, Xtensa) need other buffers.
    """
    return tuple(size for size in _sizes(operator, tensors) if size)


def has_known_scratch(operator: NetworkOperator) -> bool:
    """Return True if an operator's scratch buffers are known; they are unknown for most custom operators."""
    name = operator.kind.removeprefix(_CUSTOM)
    return name == operator.kind or operator.kind == _FOURIER or name in _CUSTOM_WITHOUT


def _sizes(operator: NetworkOperator, tensors: Sequence[NetworkTensor]) -> Iterator[int]:
    read = [tensors[index] if index >= 0 else None for index in operator.inputs]
    elements = [0 if tensor is None else prod(tensor.shape) for tensor in read]
    types = ["" if tensor is None else type_name(tensor.element_type) for tensor in read]
    output = tensors[operator.outputs[0]]
    written = prod(output.shape)
    kind = operator.kind
    if kind in _UNPACKED_FILTERS and len(read) > 1 and read[1] is not None and read[1].element_type == INT4:
        yield elements[1]
    elif kind == "ADD_N" and types[0] in ("FLOAT32", "INT8"):
        yield _POINTER_BYTES * len(read)
    elif kind == "MIRROR_PAD" and read[0] is not None:
        yield from 2 * (_INDEX_BYTES * len(read[0].shape),)
    elif kind in _REDUCTIONS and len(read) > 1 and read[0] is not None:
        if kind in _MEANS and types[0] in _INTEGERS:
            yield _SUM_BYTES * written
        yield _INDEX_BYTES * len(read[0].shape)
        yield _INDEX_BYTES * elements[1]
    elif kind == "TRANSPOSE_CONV" and len(read) > 2:
        if len(read) > 3 and types[2:4] == ["INT16", "INT16"]:
            yield 8 * elements[3]
        yield {"INT8": _SUM_BYTES, "INT16": 2 * _SUM_BYTES}.get(types[2], 0) * written
    elif kind == "SVDF" and read[0] is not None and read[1] is not None:
        yield _SUM_BYTES * read[0].shape[0] * read[1].shape[0]
        if types[0] == "INT8":
            yield _SUM_BYTES * written
    elif kind == "UNIDIRECTIONAL_SEQUENCE_LSTM" and len(read) > _LSTM_CELL:
        cell_bytes = {"INT16": 2, "FLOAT32": 4}.get(types[_LSTM_CELL], 0)
        yield from _LSTM_GATES * (cell_bytes * elements[_LSTM_STATE],)
    elif kind == _FOURIER and output.shape:
        # The output has a complex number for each pair of samples, and one more.
        yield (output.shape[-1] - 2) * (bits_of(output.element_type) or 0) // 8


METADATA: Final = "OfflineMemoryAllocation"
ALIGNMENT_BYTES: Final = 16
"""Alignment of TFLite Micro's arena and of the tensors that it places itself."""
_VERSION: Final = 1
_HEADER: Final = 3
AT_RUN_TIME: Final = -1
"""Marks a tensor whose address the runtime chooses."""


@dataclass(frozen=True, slots=True)
class ArenaPlan:
    """Buffers over the steps of `arena_lives` with their offsets; `names` lists the tensors of each buffer.

    `at_run_time` are the tensors without an offset; `negative` has the offset of each tensor below -1. `ignored` are
    tensors with an offset that the runtime does not use: constants, and tensors without bytes. The file has `listed`
    offsets, for `tensors` tensors.
    """

    network: str
    names: tuple[tuple[str, ...], ...]
    buffers: tuple[Buffer, ...]
    offsets_bytes: tuple[int, ...]
    at_run_time: tuple[str, ...]
    negative: tuple[tuple[str, int], ...]
    ignored: tuple[str, ...]
    listed: int
    tensors: int


def read_arena_plan(path: Path) -> ArenaPlan:
    """Read the plan of a file; raises InputError for a file without a valid plan."""
    read = read_tflite_network(path)
    with errors_in_file(str(path)):
        return arena_plan_of(read)


def arena_plan_of(read: ReadNetwork) -> ArenaPlan:
    """Return the plan that a file holds; raises InputError for a file without a valid plan."""
    return _plan_of(read, _offsets(read))


def plan_content(offsets: Sequence[int]) -> bytes:
    """Return the bytes of the metadata for these offsets; -1 leaves the address to the runtime."""
    return np.array([_VERSION, 1, len(offsets), *offsets], "<i4").tobytes()


def _offsets(read: ReadNetwork) -> tuple[int, ...]:
    place = f"metadata {METADATA!r}"
    found = [content for name, content in read.file.metadata if name == METADATA]
    if not found:
        raise InputError("it holds no plan of an arena", place, "a model planned for TFLite Micro")
    content = b"" if found[0] is None else read.file.content[found[0].start : found[0].stop]
    if len(content) < 4 * _HEADER or len(content) % 4:
        raise InputError(f"it has {len(content)} bytes", place, "int32 numbers, at least three")
    version, _, count, *offsets = (int(number) for number in np.frombuffer(content, "<i4"))
    if version != _VERSION:
        raise InputError(f"it is of version {version}", place, f"version {_VERSION}")
    if count != len(offsets):
        raise InputError(f"it says {count} offsets and has {len(offsets)}", place, "as many as it says")
    return tuple(offsets)


def _plan_of(read: ReadNetwork, offsets: Sequence[int]) -> ArenaPlan:
    if len(read.file.subgraphs) > 1:
        raise GraphError("it has several subgraphs, whose lives overlap", METADATA, "one subgraph")
    network = read.network
    lives = arena_lives(read, range(len(network.operators)))
    states = (at for at, one in enumerate(network.tensors) if read.storage.is_state(at) and 0 not in one.shape)
    lives |= dict.fromkeys(states, (0, len(network.operators) + 1))  # a state lasts from one inference to the next
    same = _buffers_shared(network, offsets)
    names: dict[int, list[str]] = {}
    spans: dict[int, tuple[int, int, int]] = {}
    at_run_time = []
    for index, (start, stop) in lives.items():
        name, size_bytes = network.tensors[index].name, arena_size_bytes(network.tensors[index])
        if index >= len(offsets) or offsets[index] == AT_RUN_TIME:
            at_run_time.append(name)
            continue
        if offsets[index] < AT_RUN_TIME:
            continue
        first = same.get(index, index)
        names.setdefault(first, []).append(name)
        before = spans.get(first, (start, stop, size_bytes))
        spans[first] = (min(before[0], start), max(before[1], stop), max(before[2], size_bytes))
    listed = list(enumerate(offsets[: len(network.tensors)]))
    return ArenaPlan(
        read.graph.name,
        tuple(tuple(each) for each in names.values()),
        tuple(Buffer(*spans[index]) for index in names),
        tuple(offsets[index] for index in names),
        tuple(at_run_time),
        tuple((network.tensors[index].name, offset) for index, offset in listed if offset < AT_RUN_TIME),
        tuple(network.tensors[index].name for index, offset in listed if offset >= 0 and index not in lives),
        len(offsets),
        len(network.tensors),
    )


def _buffers_shared(network: FlatNetwork, offsets: Sequence[int]) -> dict[int, int]:
    """Return a map from each view at the address of its source to that source; nothing is copied."""
    same: dict[int, int] = {}
    for operator in network.operators:
        if operator.kind in VIEWS and max(operator.inputs[0], operator.outputs[0]) < len(offsets):
            source, shown = operator.inputs[0], operator.outputs[0]
            if source >= 0 and offsets[source] == offsets[shown] != AT_RUN_TIME:
                same[shown] = same.get(source, source)
    return same


_MODEL_FIELDS: Final = 8
_SUBGRAPHS, _BUFFERS, _METADATA = 2, 4, 6
_SUBGRAPH_FIELDS: Final = 6
_OPERATORS, _DEBUG_INDEX = 3, 5
_LARGE_OPTIONS: Final = (9, 10)
_COMPRESSED: Final = "COMPRESSION_METADATA"
_CONTROL: Final = "model_control_dependencies"


def with_arena_plan(file: ModelFile, offsets: Sequence[int], order: Sequence[int]) -> bytes:
    """Return the model with an offset for each tensor (-1: the runtime's), and its operators in `order`.

    The old bytes stay unchanged behind a new root. Raises InputError if the model would have another meaning there.
    """
    is_reordered = tuple(order) != tuple(range(len(order)))
    with refused_if_damaged():
        _ensure_it_can_move(file, is_reordered=is_reordered)
        return _rewritten(file, plan_content(offsets), order if is_reordered else None)


def _ensure_it_can_move(file: ModelFile, *, is_reordered: bool) -> None:
    names = {name for name, _ in file.metadata}
    if len(file.subgraphs) > 1:
        raise InputError(f"it has {len(file.subgraphs)} subgraphs, whose lives overlap", expected="one subgraph")
    operators = file.subgraphs[0].operators
    if file.has_outer_buffers or any(field_place(one.table, slot) for one in operators for slot in _LARGE_OPTIONS):
        raise InputError("some of its bytes lie behind the flatbuffer, at fixed places", expected="a model below 2 GB")
    if _COMPRESSED in names:
        what = "its tensors are compressed: what kernels need to unpack them is not known"
        raise InputError(what, f"metadata {_COMPRESSED!r}", "a model that is not")
    if is_reordered and _CONTROL in names:
        what = "it orders operators by their places, which the plan changes"
        raise InputError(what, f"metadata {_CONTROL!r}", "a plan of `order='given'`")
    _ensure_known(file.table, _MODEL_FIELDS, "Model")
    if is_reordered:
        _ensure_known(file.table.Subgraphs(0), _SUBGRAPH_FIELDS, "SubGraph")


def _ensure_known(table: Accessor, fields: int, name: str) -> None:
    tab = table._tab
    vtable = tab.Pos - struct.unpack_from("<i", tab.Bytes, tab.Pos)[0]
    listed = (struct.unpack_from("<H", tab.Bytes, vtable)[0] - 4) // 2
    if any(field_place(table, slot) for slot in range(fields, listed)):
        what = f"its {name} has fields that were not there when this was written"
        raise InputError(what, expected=f"at most the first {fields} fields of the schema")


def _rewritten(file: ModelFile, plan: bytes, order: Sequence[int] | None) -> bytes:
    """Return the file with new tables in front: its plan, and its operators in another order if one is given."""
    front, model = Front(BUFFER_ALIGNMENT_BYTES), file.table
    buffers, entries = front.targets(model, _BUFFERS), front.targets(model, _METADATA)
    kept = [target for target, (name, _) in zip(entries, file.metadata, strict=True) if name != METADATA]
    metadata = front.vector([*kept, front.table(2, {0: front.text(METADATA)}, {1: len(buffers)})])
    placed = front.vector([*buffers, front.buffer(np.frombuffer(plan, np.uint8))])
    fields = {slot: front.target(model, slot) for slot in range(1, _MODEL_FIELDS)}
    fields |= {_BUFFERS: placed, _METADATA: metadata}
    if order is not None:
        table = model.Subgraphs(0)
        operators = front.targets(table, _OPERATORS)
        targets = {slot: front.target(table, slot) for slot in range(_DEBUG_INDEX)}
        targets[_OPERATORS] = front.vector([operators[place] for place in order])
        place = field_place(table, _DEBUG_INDEX)
        numbers = {_DEBUG_INDEX: struct.unpack_from("<i", file.content, place)[0]} if place else {}
        fields[_SUBGRAPHS] = front.vector([front.table(_SUBGRAPH_FIELDS, targets, numbers)])
    start = front.finished(front.table(_MODEL_FIELDS, fields, {0: model.Version()}))
    return start + file.content + bytes(-len(file.content) % BUFFER_ALIGNMENT_BYTES)
