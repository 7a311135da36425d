"""The plan that a TFLite file holds for TFLite Micro: offsets in its arena, in the metadata `OfflineMemoryAllocation`.

Version 1 is int32 numbers: 1, a number that the runtime does not read, how many tensors, and an offset for each tensor
of the first subgraph; -1 leaves the place to the runtime, as it does for constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Final

import numpy as np

from onchip.answer.packing import Buffer
from onchip.errors import GraphError, InputError
from onchip.formats.tflite.graph import ReadNetwork
from onchip.formats.tflite.model import read_tflite_network
from onchip.formats.tflite.network import FlatNetwork
from onchip.formats.tflite.storage import VIEWS
from onchip.formats.tflite.types import bits_of
from onchip.ir.tensor import size_in_bytes

METADATA: Final = "OfflineMemoryAllocation"
ALIGNMENT_BYTES: Final = 16
"""To which TFLite Micro aligns its arena and the tensors that it places itself."""
_VERSION: Final = 1
_HEADER: Final = 3
_AT_RUN_TIME: Final = -1


@dataclass(frozen=True, slots=True)
class ArenaPlan:
    """Buffers over the file's operators as steps, each with its offset; `names` says which tensors are in one.

    `at_run_time` are the tensors that have no offset. `listed` offsets stand in the file, for `tensors` tensors.
    """

    network: str
    names: tuple[tuple[str, ...], ...]
    buffers: tuple[Buffer, ...]
    offsets_bytes: tuple[int, ...]
    at_run_time: tuple[str, ...]
    listed: int
    tensors: int


def read_arena_plan(path: Path) -> ArenaPlan:
    """Read the plan of a file; raises InputError for a file that holds none, or none that can be read."""
    read = read_tflite_network(path)
    try:
        return _plan_of(read, _offsets(read))
    except InputError as error:
        raise error.in_file(str(path)) from None


def _offsets(read: ReadNetwork) -> tuple[int, ...]:
    place = f"metadata {METADATA!r}"
    found = [content for name, content in read.file.metadata if name == METADATA]
    if not found:
        raise InputError("it holds no plan of an arena", place=place, expected="a model planned for TFLite Micro")
    content = b"" if found[0] is None else read.file.content[found[0].start : found[0].stop]
    if len(content) < 4 * _HEADER or len(content) % 4:
        raise InputError(f"it has {len(content)} bytes", place=place, expected="int32 numbers, at least three")
    version, _, count, *offsets = (int(number) for number in np.frombuffer(content, "<i4"))
    if version != _VERSION:
        raise InputError(f"it is of version {version}", place=place, expected=f"version {_VERSION}")
    if count != len(offsets):
        raise InputError(f"it says {count} offsets and has {len(offsets)}", place=place, expected="as many as it says")
    return tuple(offsets)


def _plan_of(read: ReadNetwork, offsets: Sequence[int]) -> ArenaPlan:
    if len(read.file.subgraphs) > 1:
        raise GraphError("it has several subgraphs, whose lives overlap", place=METADATA, expected="one subgraph")
    network = read.network
    lives = _lives(read)
    same = _buffers_shared(network, offsets)
    names: dict[int, list[str]] = {}
    spans: dict[int, tuple[int, int, int]] = {}
    at_run_time = []
    for index, (start, stop) in lives.items():
        name, size_bytes = network.tensors[index].name, _size_bytes(read, index)
        if index >= len(offsets) or offsets[index] == _AT_RUN_TIME:
            at_run_time.append(name)
            continue
        first = same.get(index, index)
        names.setdefault(first, []).append(name)
        before = spans.get(first, (start, stop, size_bytes))
        spans[first] = (min(before[0], start), max(before[1], stop), max(before[2], size_bytes))
    return ArenaPlan(
        read.graph.name,
        tuple(tuple(each) for each in names.values()),
        tuple(Buffer(*spans[index]) for index in names),
        tuple(offsets[index] for index in names),
        tuple(at_run_time),
        len(offsets),
        len(network.tensors),
    )


def _lives(read: ReadNetwork) -> dict[int, tuple[int, int]]:
    """By tensor the half-open range of operators that need its bytes; constants and state have places apart."""
    network, storage = read.network, read.storage
    last = len(network.operators)
    lives: dict[int, tuple[int, int]] = {}
    for index in network.inputs:
        lives[index] = (0, 1)
    for step, operator in enumerate(network.operators):
        for index in operator.outputs:
            lives[index] = (step, step + 1)
        for index in operator.inputs:
            if index in lives:
                lives[index] = (lives[index][0], step + 1)
    for index in network.outputs:
        if index in lives:
            lives[index] = (lives[index][0], last)
    return {at: life for at, life in lives.items() if prod(network.tensors[at].shape) and not storage.is_state(at)}


def _buffers_shared(network: FlatNetwork, offsets: Sequence[int]) -> dict[int, int]:
    """Of a view that lies where its source does, the tensor whose bytes it shows: nothing is copied."""
    same: dict[int, int] = {}
    for operator in network.operators:
        if operator.kind in VIEWS and max(operator.inputs[0], operator.outputs[0]) < len(offsets):
            source, shown = operator.inputs[0], operator.outputs[0]
            if source >= 0 and offsets[source] == offsets[shown] != _AT_RUN_TIME:
                same[shown] = same.get(source, source)
    return same


def _size_bytes(read: ReadNetwork, index: int) -> int:
    tensor = read.network.tensors[index]
    bits = bits_of(tensor.element_type)
    if bits is None:
        raise GraphError("its elements have no fixed size", place=f"tensor {tensor.name!r}", expected="numbers")
    return size_in_bytes(tensor.shape, bits)
