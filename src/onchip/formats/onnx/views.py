"""Which tensors share bytes: views and their base, constants and how they are stored."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import onnx
from onnx import numpy_helper

from onchip.formats.onnx.constants import Constants
from onchip.formats.onnx.model_types import ModelTypes
from onchip.formats.onnx.nodes import kind_of, node_names

_VIEWS = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"}


def may_drop(node: onnx.NodeProto, constants: Constants) -> bool:
    """Whether a node is a Dropout that draws at random what it drops: it trains, or may."""
    if kind_of(node) != "Dropout" or len(node.input) < 3 or not node.input[2]:
        return False
    value = constants.value(node.input[2])
    return value is None or bool(numpy_helper.to_array(value).any())


class Storage:
    """The base tensor of each view, and the tensors a constant is kept as."""

    def __init__(self, graph: onnx.GraphProto, types: ModelTypes) -> None:
        self._types = types
        self._base: dict[str, str] = {}
        self._writer: dict[str, tuple[onnx.NodeProto, str]] = {}
        self._network_inputs = {value.name for value in graph.input if value.name not in types.constants}
        for node, name, outputs in zip(graph.node, node_names(graph.node), types.outputs, strict=True):
            for output in outputs:
                self._writer[output] = (node, name)
            if self._is_view(node, outputs):
                self._base[outputs[0]] = self.base(node.input[0])

    def base(self, name: str) -> str:
        """The tensor whose bytes `name` shows: itself if it is not a view."""
        return self._base.get(name, name)

    def is_network_input(self, name: str) -> bool:
        """Whether `name` is given from outside; parameters listed among the inputs are not."""
        return name in self._network_inputs

    def is_written(self, name: str) -> bool:
        """Whether some node of the file writes `name`, folded or not."""
        return name in self._writer

    def is_folded(self, node: onnx.NodeProto) -> bool:
        """Whether nothing runs for `node`: it is a view, or its outputs are constants."""
        outputs = [output for output in node.output if output in self._writer]
        return all(output in self._base or output in self._types.constants for output in outputs)

    def stored_as(self, constant: str) -> Iterator[str]:
        """The tensors that must be kept for a constant: itself, or the quantised one it comes from.

        A dequantised (and transposed) weight is kept in its quantised type, with scale and zero point.
        """
        waiting = [constant]
        while waiting:
            name = waiting.pop()
            node, _ = self._writer.get(name, (None, ""))
            if node is not None and self._comes_from_quantised(name):
                waiting.extend(self.base(operand) for operand in reversed(node.input) if operand)
            else:
                yield name

    def place_of(self, name: str) -> str:
        """Where to look for a tensor: the node that writes it, or itself."""
        return f"node {self._writer[name][1]!r}" if name in self._writer else f"tensor {name!r}"

    def _comes_from_quantised(self, name: str) -> bool:
        while name in self._writer:
            node, _ = self._writer[name]
            if node.op_type == "DequantizeLinear":
                return True
            if node.op_type != "Transpose":
                return False
            name = self.base(node.input[0])
        return False

    def _is_view(self, node: onnx.NodeProto, outputs: tuple[str, ...]) -> bool:
        if kind_of(node) not in _VIEWS or len(outputs) != 1 or outputs[0] != node.output[0]:
            return False
        if may_drop(node, self._types.constants):
            return False
        if not self._has_as_many_elements(node.input[0], outputs[0]):
            return False
        return all(operand in self._types.constants for operand in node.input[1:] if operand)

    def _has_as_many_elements(self, operand: str, output: str) -> bool:
        """True if both sizes are known and equal: a bound may exceed the exact size that a reshaping states."""
        names = operand, output
        if not all(name in self._types.static for name in names):
            return True
        return len({prod(self._types.shape_and_element_type(name)[0]) for name in names}) == 1
