"""A node of a model while it is put in C: its operands as arguments of a kernel, its shapes and attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import onnx

from onchip.backends.c.project.calls import BYTES, ELEMENT_OF, Table, TensorOperand, no_kernel, table
from onchip.errors import GraphError
from onchip.formats.onnx.nodes import attributes_of, kind_of
from onchip.formats.onnx.program import ConstantValues, Network

FLOAT = "float32"


@dataclass(frozen=True, slots=True)
class ModelInC:
    """A model, the values of its constants, and by its tensors' names those of the graph that have their bytes."""

    network: Network
    values: ConstantValues
    tensors: Mapping[str, str]

    def opset(self) -> int:
        """Return the version of ONNX's own operators."""
        return self.network.opset


@dataclass(frozen=True, slots=True)
class NodeInC:
    """A node, and the operator of the graph that runs it."""

    operator: str
    node: onnx.NodeProto
    model: ModelInC

    @property
    def kind(self) -> str:
        """Return the kind with its domain."""
        return kind_of(self.node)

    @property
    def opset(self) -> int:
        """Return the version of ONNX's own operators in this model."""
        return self.model.opset()

    def whole(self, name: str, default: int) -> int:
        """Return an attribute that is a whole number, or what stands for one that is absent."""
        found = attributes_of(self.node).get(name)
        return int(found) if isinstance(found, int | float) else default

    def real(self, name: str, default: float) -> float:
        """Return an attribute that is a number, or what stands for one that is absent."""
        found = attributes_of(self.node).get(name)
        return float(found) if isinstance(found, int | float) else default

    def text(self, name: str, default: str) -> str:
        """Return an attribute that is a word, or what stands for one that is absent."""
        return str(attributes_of(self.node).get(name, default))

    def wholes(self, name: str, default: Sequence[int] = ()) -> list[int]:
        """Return an attribute that lists whole numbers, or what stands for one that is absent."""
        return [int(one) for one in self.reals(name, default)]

    def reals(self, name: str, default: Sequence[float] = ()) -> list[float]:
        """Return an attribute that lists numbers, or what stands for one that is absent."""
        found = attributes_of(self.node).get(name)
        return [one for one in found if isinstance(one, int | float)] if isinstance(found, list) else list(default)

    def has(self, index: int) -> bool:
        """Whether an input of that index is there."""
        return index < len(self.node.input) and bool(self.node.input[index])

    def shape(self, index: int) -> tuple[int, ...]:
        """Return the shape of an input as the node sees it."""
        return self.model.values.type_of(self.node.input[index])[1]

    def written_shape(self, index: int = 0) -> tuple[int, ...]:
        """Return the shape of an output."""
        name = self.node.output[index]
        if name in self.model.network.types.bounded:
            self.refuse("whose output has a shape that follows from values")
        return self.model.values.type_of(name)[1]

    def element(self, index: int) -> str:
        """Return numpy's name for the type of an input's elements."""
        return self.model.values.type_of(self.node.input[index])[0].name

    def written_element(self, index: int = 0) -> str:
        """Return numpy's name for the type of an output's elements."""
        return self.model.values.type_of(self.node.output[index])[0].name

    def read(self, index: int, expected: str = FLOAT) -> TensorOperand | Table:
        """Return an input of elements of a type; raises GraphError for others."""
        if self.element(index) != expected:
            self.refuse(f"of {self.element(index)}")
        return self._operand(self.node.input[index], ELEMENT_OF[expected])

    def read_if_there(self, index: int) -> TensorOperand | Table | None:
        """Return an input of floats, or None for one that is absent."""
        return self.read(index) if self.has(index) else None

    def read_bytes(self, index: int) -> TensorOperand | Table:
        """Return an input whose bytes are moved; raises GraphError for elements that C has no type for."""
        if self.element(index) not in ELEMENT_OF:
            self.refuse(f"of {self.element(index)}")
        return self._operand(self.node.input[index], BYTES)

    def written(self, expected: str = FLOAT, index: int = 0) -> TensorOperand:
        """Return an output of elements of a type; raises GraphError for others."""
        if self.written_element(index) != expected:
            self.refuse(f"that writes {self.written_element(index)}")
        return self._written(ELEMENT_OF[expected], index)

    def written_bytes(self, index: int = 0, shift_bytes: int = 0) -> TensorOperand:
        """Return an output to which bytes are moved, from so many behind its beginning on."""
        found = self._written(BYTES, index)
        return TensorOperand(found.tensor, BYTES, shift_bytes)

    def element_bytes(self, index: int) -> int:
        """Return the bytes of an element of an input."""
        return self.model.values.type_of(self.node.input[index])[0].itemsize

    def constant(self, index: int) -> npt.NDArray[Any]:
        """Return the value of an input; raises GraphError where it is not known before anything runs."""
        name = self.node.input[index]
        if not self.is_constant(index):
            self.refuse(f"with a computed {name!r}")
        return self._value(name)

    def numbers(self, index: int) -> tuple[int, ...]:
        """Return an input's value as integers; raises GraphError where it is not known."""
        return tuple(int(one) for one in self.constant(index).reshape(-1))

    def is_constant(self, index: int) -> bool:
        """Whether an input's value is known before anything runs."""
        return self.model.network.is_constant(self.node.input[index])

    def refuse(self, why: str) -> NoReturn:
        """Raise GraphError: there is no kernel for such a node."""
        raise no_kernel(self.operator, self.kind, why)

    def _written(self, element: str, index: int) -> TensorOperand:
        name = self.node.output[index]
        if prod(self.written_shape(index)) == 0:
            self.refuse("that writes nothing")
        return TensorOperand(self._tensor(name), element)

    def _operand(self, name: str, element: str) -> TensorOperand | Table:
        if self.model.network.is_constant(name):
            return table(name, self._value(name))
        return TensorOperand(self._tensor(name), element)

    def _value(self, name: str) -> npt.NDArray[Any]:
        """A constant's value, which a view of it shows in another shape."""
        base = self.model.network.storage.base(name)
        return np.asarray(self.model.values.array(base)).reshape(self.model.values.type_of(name)[1])

    def _tensor(self, name: str) -> str:
        base = self.model.network.storage.base(name)
        if name in self.model.tensors:
            return self.model.tensors[name]
        if base not in self.model.tensors:
            raise GraphError("no tensor of the plan has its bytes", place=f"tensor {name!r}", expected="a plan of it")
        return self.model.tensors[base]
