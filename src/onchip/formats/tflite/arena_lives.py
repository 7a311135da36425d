"""When TFLite Micro needs each tensor of its arena, which of them lie at one offset, and what kernels need beside them.

As `micro_allocation_info.cc` has it: step 0 is when the inputs are given, step k + 1 runs the operator of place k.
Inputs live from step 0, outputs to the last one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from onchip.answer.packing import Buffer
from onchip.errors import GraphError
from onchip.formats.tflite.graph import ReadNetwork
from onchip.formats.tflite.network import NetworkOperator, NetworkTensor
from onchip.formats.tflite.types import INT4, bits_of, type_name
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
"""Custom operators of the runtime itself whose kernels ask for nothing."""
_LSTM_STATE: Final = 18
_LSTM_CELL: Final = 19
_LSTM_GATES: Final = 4


@dataclass(frozen=True, slots=True)
class ArenaContents:
    """What an arena holds when operators run in some order: tensors of one group have one place, `buffers` says when.

    `scratch` are the buffers of each operator's kernel, by the operator's place in the order. Sizes are in bytes, not
    rounded up.
    """

    groups: tuple[tuple[int, ...], ...]
    buffers: tuple[Buffer, ...]
    scratch: tuple[tuple[Buffer, ...], ...]


def arena_contents(read: ReadNetwork, order: Sequence[int], *, views_apart: bool = False) -> ArenaContents:
    """The buffers when the file's operators run in `order`; a view lies where its source does, or apart.

    Raises GraphError for what has no size.
    """
    lives = arena_lives(read, order)
    groups: dict[int, list[int]] = {}
    for index in sorted(lives):
        base = read.storage.base(index)
        groups.setdefault(base if base in lives and not views_apart else index, []).append(index)
    buffers = [
        Buffer(
            min(lives[index][0] for index in group),
            max(lives[index][1] for index in group),
            max(arena_size_bytes(read.network.tensors[index]) for index in group),
        )
        for group in groups.values()
    ]
    scratch = [
        tuple(Buffer(step, step + 1, size) for size in scratch_bytes(read.network.operators[at], read.network.tensors))
        for step, at in enumerate(order, start=1)
    ]
    return ArenaContents(tuple(tuple(group) for group in groups.values()), tuple(buffers), tuple(scratch))


def arena_lives(read: ReadNetwork, order: Sequence[int]) -> dict[int, tuple[int, int]]:
    """By tensor the half-open range of steps that need its bytes; constants and state have places apart.

    What no operator touches is there in a step of its own, after the last.
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
    """How many bytes a tensor takes in the arena, where half a byte is a whole one; raises GraphError."""
    bits = 8 if tensor.element_type == INT4 else bits_of(tensor.element_type)
    if bits is None:
        raise GraphError("its elements have no fixed size", place=f"tensor {tensor.name!r}", expected="numbers")
    return size_in_bytes(tensor.shape, bits)


def scratch_bytes(operator: NetworkOperator, tensors: Sequence[NetworkTensor]) -> tuple[int, ...]:
    """The sizes of an operator's scratch buffers in bytes; none for kinds that ask for none, or are not known.

    As the `Prepare` functions of `tensorflow/lite/micro/kernels` have them, of a machine with pointers of eight bytes.
    Kernels written for one processor (CMSIS-NN, Xtensa) ask for others.
    """
    return tuple(size for size in _sizes(operator, tensors) if size)


def has_known_scratch(operator: NetworkOperator) -> bool:
    """Whether it is known what an operator asks for; of most custom operators it is not."""
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
        # Of so many samples it writes a complex number for each pair, and one more.
        yield (output.shape[-1] - 2) * (bits_of(output.element_type) or 0) // 8
