"""The plan that a TFLite file holds for TFLite Micro: offsets in its arena, in the metadata `OfflineMemoryAllocation`.

Version 1 is int32 numbers: 1, a number that the runtime does not read, how many tensors, and an offset for each tensor
of the first subgraph; -1 leaves the place to the runtime, as it does for constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from onchip.answer.packing import Buffer
from onchip.errors import GraphError, InputError, errors_in_file
from onchip.formats.tflite.arena_lives import arena_lives, arena_size_bytes
from onchip.formats.tflite.graph import ReadNetwork
from onchip.formats.tflite.model import read_tflite_network
from onchip.formats.tflite.network import FlatNetwork
from onchip.formats.tflite.storage import VIEWS

METADATA: Final = "OfflineMemoryAllocation"
ALIGNMENT_BYTES: Final = 16
"""To which TFLite Micro aligns its arena and the tensors that it places itself."""
_VERSION: Final = 1
_HEADER: Final = 3
AT_RUN_TIME: Final = -1
"""In place of an offset: the runtime decides where the tensor lies."""


@dataclass(frozen=True, slots=True)
class ArenaPlan:
    """Buffers over the steps of `arena_lives`, each with its offset; `names` says which tensors are in one.

    `at_run_time` are the tensors that have no offset; `negative` has the offset of each that is below -1. `ignored` are
    tensors with an offset that the runtime does not use: constants, and tensors without bytes. `listed` offsets stand
    in the file, for `tensors` tensors.
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
    """Read the plan of a file; raises InputError for a file that holds none, or none that can be read."""
    read = read_tflite_network(path)
    with errors_in_file(str(path)):
        return arena_plan_of(read)


def arena_plan_of(read: ReadNetwork) -> ArenaPlan:
    """The plan that a file holds; raises InputError for one that holds none, or none that can be read."""
    return _plan_of(read, _offsets(read))


def plan_content(offsets: Sequence[int]) -> bytes:
    """The bytes of the metadata that say these offsets, -1 for what the runtime decides."""
    return np.array([_VERSION, 1, len(offsets), *offsets], "<i4").tobytes()


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
    lives = arena_lives(read, range(len(network.operators)))
    lives |= _lives_of_variables(read)
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


def _lives_of_variables(read: ReadNetwork) -> dict[int, tuple[int, int]]:
    """Map each state tensor to all steps: its bytes must last from one inference to the next."""
    tensors, last = read.network.tensors, len(read.network.operators) + 1
    return {at: (0, last) for at, one in enumerate(tensors) if read.storage.is_state(at) and 0 not in one.shape}


def _buffers_shared(network: FlatNetwork, offsets: Sequence[int]) -> dict[int, int]:
    """Of a view that lies where its source does, the tensor whose bytes it shows: nothing is copied."""
    same: dict[int, int] = {}
    for operator in network.operators:
        if operator.kind in VIEWS and max(operator.inputs[0], operator.outputs[0]) < len(offsets):
            source, shown = operator.inputs[0], operator.outputs[0]
            if source >= 0 and offsets[source] == offsets[shown] != AT_RUN_TIME:
                same[shown] = same.get(source, source)
    return same
