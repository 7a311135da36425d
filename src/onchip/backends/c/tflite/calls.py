"""Which kernels an operator calls: one function for each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from onchip.backends.c.project.calls import BYTES, KernelCall, TensorOperand, no_kernel, table
from onchip.backends.c.project.walks import copy_call
from onchip.backends.c.tflite import elementwise, lstm, movement, windows
from onchip.backends.c.tflite.model import LiteModel
from onchip.backends.c.tflite.node import LiteModelInC, LiteNode
from onchip.errors import GraphError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator

_Writer: TypeAlias = Callable[[LiteNode], Iterator[KernelCall]]
_WRITERS: Final[Mapping[str, _Writer]] = {
    "CONV_2D": windows.convolution,
    "DEPTHWISE_CONV_2D": windows.depthwise,
    "TRANSPOSE_CONV": windows.transposed_convolution,
    "FULLY_CONNECTED": windows.fully_connected,
    "AVERAGE_POOL_2D": windows.pool,
    "MAX_POOL_2D": windows.pool,
    "SOFTMAX": elementwise.softmax,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": lstm.lstm,
    "QUANTIZE": elementwise.quantised,
    "DEQUANTIZE": elementwise.dequantised,
    "TRANSPOSE": movement.transpose,
    "CONCATENATION": movement.concatenation,
    "PACK": movement.pack,
    "SPLIT": movement.split,
    "SPLIT_V": movement.split,
    "UNPACK": movement.split,
    "SLICE": movement.slice_,
    "STRIDED_SLICE": movement.strided_slice,
    "PAD": movement.pad,
    "PADV2": movement.pad,
    "BROADCAST_TO": movement.broadcast,
    "TILE": movement.tile,
    "DEPTH_TO_SPACE": movement.depth_to_space,
    "SPACE_TO_DEPTH": movement.space_to_depth,
    "GATHER": movement.gather,
    "RESIZE_BILINEAR": movement.resize,
    "RESIZE_NEAREST_NEIGHBOR": movement.resize,
    **dict.fromkeys(("RESHAPE", "SQUEEZE", "EXPAND_DIMS"), elementwise.copied),
    **dict.fromkeys(elementwise.UNARY_KINDS, elementwise.unary),
    **dict.fromkeys(elementwise.BINARY_KINDS, elementwise.binary),
    **dict.fromkeys(elementwise.REDUCTION_KINDS, elementwise.reduction),
}
KINDS: Final = tuple(sorted(_WRITERS))
"""The kinds of TFLite operators that have a kernel."""


def tflite_calls(graph: Graph, model: LiteModel, path: Path) -> dict[str, tuple[KernelCall, ...]]:
    """Return the calls of each operator of a graph that was read from `path`.

    A fused operator calls its members' kernels one after the other, all but the first on its output. Raises GraphError
    for an operator that no kernel computes, naming it and its kind.
    """
    found = {}
    for operator in graph.operators:
        try:
            found[operator.name] = tuple(_calls_of(operator, graph, model))
        except GraphError as error:
            if error.place is None:
                error = GraphError(error.what, place=f"operator {operator.name!r}", expected=error.expected)
            raise error.in_file(str(path)) from None
    return found


def _calls_of(operator: Operator, graph: Graph, model: LiteModel) -> Iterator[KernelCall]:
    if operator.kind == "Identity" and operator.name not in model.operators:
        yield _copied(operator, graph, model)
        return
    members = [model.operators[name] for name in operator.members or (operator.name,)]
    following = {state.old: state.new for state in graph.states}
    names = {tensor.name for tensor in graph.tensors if tensor.name in model.index} - set(following.values())
    tensors = {model.index[name]: name for name in names}
    tensors |= {index: operator.outputs[0] for member in members[:-1] for index in member.outputs}
    for member in members:
        if member.kind not in _WRITERS:
            raise no_kernel(operator.name, member.kind)
        yield from _WRITERS[member.kind](LiteNode(operator.name, member, LiteModelInC(model, tensors, following)))


def _copied(operator: Operator, graph: Graph, model: LiteModel) -> KernelCall:
    """The copy of an input or of a constant that a network output is."""
    size_bytes = graph.tensor[operator.outputs[0]].size_bytes
    if operator.inputs:
        return copy_call(size_bytes, TensorOperand(operator.inputs[0], BYTES), operator.outputs[0])
    name = operator.parameters[0]
    return copy_call(size_bytes, table(name, model.constant(model.index[name])), operator.outputs[0])
