"""Which kernels a node calls: one function for each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

import onnx

from onchip.backends.c.onnx import elementwise, movement, normalisation, products, resampling, windows
from onchip.backends.c.onnx.node import ModelInC, NodeInC
from onchip.backends.c.project.calls import BYTES, KernelCall, TensorOperand, no_kernel, table
from onchip.backends.c.project.walks import copy_call
from onchip.errors import GraphError
from onchip.formats.onnx.nodes import node_names
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.simulate.kernels.onnx_kernels import OnnxKernels

_Writer: TypeAlias = Callable[[NodeInC], Iterator[KernelCall]]
_WRITERS: Final[Mapping[str, _Writer]] = {
    "Conv": windows.convolution,
    "ConvTranspose": windows.transposed_convolution,
    "MaxPool": windows.max_pool,
    "AveragePool": windows.average_pool,
    "GlobalAveragePool": windows.global_pool,
    "GlobalMaxPool": windows.global_pool,
    "MatMul": products.matrix_product,
    "Gemm": products.gemm,
    "Clip": elementwise.clip,
    "Gelu": elementwise.gelu,
    "Cast": elementwise.copied,
    "Identity": elementwise.copied,
    "Dropout": elementwise.dropout,
    "Softmax": normalisation.softmax,
    "LogSoftmax": normalisation.softmax,
    "BatchNormalization": normalisation.batch_norm,
    "LayerNormalization": normalisation.layer_norm,
    "InstanceNormalization": normalisation.instance_norm,
    "GroupNormalization": normalisation.group_norm,
    "LRN": normalisation.local_response,
    "Transpose": movement.transpose,
    "Concat": movement.concatenation,
    "Split": movement.split,
    "Slice": movement.slice_,
    "Pad": movement.pad,
    "Expand": movement.expand,
    "Tile": movement.tile,
    "DepthToSpace": movement.depth_to_space,
    "SpaceToDepth": movement.space_to_depth,
    "Gather": movement.gather,
    "Resize": resampling.resize,
    "Upsample": resampling.resize,
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), movement.reshaped),
    **dict.fromkeys(elementwise.KINDS, elementwise.unary),
    **dict.fromkeys(elementwise.JOINING, elementwise.binary),
    **dict.fromkeys(normalisation.REDUCTIONS, normalisation.reduction),
}
KINDS: Final = tuple(sorted(_WRITERS))
"""The kinds of ONNX operators that have a kernel."""


def onnx_calls(graph: Graph, kernels: OnnxKernels, path: Path) -> dict[str, tuple[KernelCall, ...]]:
    """Return the calls of each operator of a graph that was read from `path`.

    A fused operator calls its nodes' kernels one after the other, all but the first on its output. Raises GraphError
    for an operator that no kernel computes, naming it and its kind.
    """
    nodes = dict(zip(node_names(kernels.network.nodes), kernels.network.nodes, strict=True))
    tensors = {name: tensor.name for tensor in graph.tensors for name in (tensor.name, *tensor.aliases)}
    found = {}
    for operator in graph.operators:
        try:
            found[operator.name] = tuple(_calls_of(operator, graph, nodes, kernels, tensors))
        except GraphError as error:
            if error.place is None:
                error = GraphError(error.what, place=f"operator {operator.name!r}", expected=error.expected)
            raise error.in_file(str(path)) from None
    return found


def _calls_of(
    operator: Operator,
    graph: Graph,
    nodes: Mapping[str, onnx.NodeProto],
    kernels: OnnxKernels,
    tensors: Mapping[str, str],
) -> Iterator[KernelCall]:
    if operator.kind == "Identity":
        yield _copied(operator, graph, kernels)
        return
    members = operator.members or (operator.name,)
    between = {name: operator.outputs[0] for member in members[:-1] for name in nodes[member].output}
    model = ModelInC(kernels.network, kernels.values, {**tensors, **between})
    for member in members:
        node = NodeInC(operator.name, nodes[member], model)
        if node.kind not in _WRITERS:
            raise no_kernel(operator.name, node.kind)
        yield from _WRITERS[node.kind](node)


def _copied(operator: Operator, graph: Graph, kernels: OnnxKernels) -> KernelCall:
    """The copy of an input or of a constant that a network output is."""
    size_bytes = graph.tensor[operator.outputs[0]].size_bytes
    if operator.inputs:
        return copy_call(size_bytes, TensorOperand(operator.inputs[0], BYTES), operator.outputs[0])
    name = operator.parameters[0]
    return copy_call(size_bytes, table(name, kernels.values.array(name)), operator.outputs[0])
