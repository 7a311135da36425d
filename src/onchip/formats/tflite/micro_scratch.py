"""The scratch buffers that TFLite Micro's portable kernels ask for, which no file lists.

As the `Prepare` functions of `tensorflow/lite/micro/kernels` have them, of a machine with pointers of eight bytes.
Kernels written for one processor (CMSIS-NN, Xtensa) ask for others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Final

from onchip.formats.tflite.network import NetworkOperator, NetworkTensor
from onchip.formats.tflite.types import INT4, bits_of, type_name

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


def scratch_bytes(operator: NetworkOperator, tensors: Sequence[NetworkTensor]) -> tuple[int, ...]:
    """The sizes of an operator's scratch buffers in bytes; none for kinds that ask for none, or are not known."""
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
