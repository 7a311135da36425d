"""An operator of a TFLite file while it is put in C: its operands as arguments of a kernel, shapes and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt

from onchip.backends.c.project.calls import BYTES, ELEMENT_OF, Table, TensorOperand, no_kernel, table
from onchip.backends.c.tflite.model import LiteModel
from onchip.backends.c.tflite.quantisation import Quantisation, activation_range, stated_quantisation
from onchip.errors import GraphError
from onchip.formats.tflite.file import dtype_of, options_of, type_name
from onchip.formats.tflite.network import ABSENT, NetworkOperator

INTEGER_ENDS: Final = {"int8": (-128, 127), "int16": (-32768, 32767)}


@dataclass(frozen=True)
class LiteModelInC:
    """A model that can be run, and by index of its tensors the name of that of the graph that has their bytes.

    `following` is by the name of a state that of its next value.
    """

    own: LiteModel
    tensors: Mapping[int, str]
    following: Mapping[str, str]


@dataclass(frozen=True)
class LiteNode:
    """An operator of the file, and the name of the graph's that runs it."""

    operator: str
    stated: NetworkOperator
    model: LiteModelInC

    @property
    def kind(self) -> str:
        """Return the schema's name of the kind."""
        return self.stated.kind

    @cached_property
    def options(self) -> Mapping[str, int | float]:
        """Return the numbers among its options."""
        return options_of(self.stated.stated)

    def option(self, name: str, default: int = 0) -> int:
        """Return a whole number among its options."""
        return int(self.options.get(name, default))

    def has(self, place: int) -> bool:
        """Whether an input of that place is there."""
        return place < len(self.stated.inputs) and self.stated.inputs[place] != ABSENT

    def shape(self, place: int) -> tuple[int, ...]:
        """Return the shape of an input in the file."""
        return self.model.own.tensor(self.stated.inputs[place]).shape

    def written_shape(self, place: int = 0) -> tuple[int, ...]:
        """Return the shape of an output in the file."""
        return self.model.own.tensor(self.stated.outputs[place]).shape

    def element(self, place: int = 0) -> str:
        """Return numpy's name for the type of an input's elements; raises GraphError where it has none."""
        return self._element(self.stated.inputs[place])

    def written_element(self, place: int = 0) -> str:
        """Return numpy's name for the type of an output's elements; raises GraphError where it has none."""
        return self._element(self.stated.outputs[place])

    def element_bytes(self, place: int = 0) -> int:
        """Return the bytes of an element of an input."""
        return np.dtype(self.element(place)).itemsize

    def suffix(self) -> str:
        """Return what a kernel's name ends in, floats or bytes; raises GraphError for other elements."""
        found = {"float32": "f32", "int8": "s8"}.get(self.element())
        if found is None or self.written_element() != self.element():
            self.refuse(f"of {self.element()} to {self.written_element()}")
        return found

    def read(self, place: int, expected: str) -> TensorOperand | Table:
        """Return an input of elements of a type; raises GraphError for others."""
        if self.element(place) != expected:
            self.refuse(f"of {self.element(place)}")
        return self._operand(place, ELEMENT_OF[expected])

    def read_bytes(self, place: int = 0) -> TensorOperand | Table:
        """Return an input whose bytes are moved."""
        self.element(place)
        return self._operand(place, BYTES)

    def written(self, expected: str) -> TensorOperand:
        """Return the output, of elements of a type; raises GraphError for others."""
        if self.written_element() != expected:
            self.refuse(f"that writes {self.written_element()}")
        return TensorOperand(self._tensor(self.stated.outputs[0]), ELEMENT_OF[expected])

    def written_bytes(self, place: int = 0, shift_bytes: int = 0) -> TensorOperand:
        """Return an output to which bytes are moved, from so many behind its beginning on."""
        return TensorOperand(self._tensor(self.stated.outputs[place]), BYTES, shift_bytes)

    def constant(self, place: int) -> npt.NDArray[Any]:
        """Return an input's value; raises GraphError where it is not known before anything runs."""
        index = self.stated.inputs[place]
        if not self.model.own.is_constant(index):
            self.refuse(f"with a computed {self.model.own.tensor(index).name!r}")
        return self.model.own.constant(index)

    def numbers(self, place: int) -> tuple[int, ...]:
        """Return an input's value as integers; raises GraphError where it is not known."""
        return tuple(int(one) for one in self.constant(place).reshape(-1))

    def quantisation(self, place: int) -> Quantisation:
        """Return how an input's integers stand for real numbers; raises GraphError where nothing says it."""
        return self._quantisation(self.stated.inputs[place])

    def written_quantisation(self) -> Quantisation:
        """Return how the output's integers stand for real numbers; raises GraphError where nothing says it."""
        return self._quantisation(self.stated.outputs[0])

    def ends(self) -> tuple[float, float]:
        """Return between which numbers, of integers or floats, the fused activation keeps what is written."""
        element = self.written_element()
        integers = INTEGER_ENDS.get(element)
        quantisation = self.written_quantisation() if integers else None
        found = activation_range(self.option("fused_activation_function"), quantisation)
        if found is None:
            self.refuse("with another activation than a clamp")
        if integers is None:
            return found
        return int(max(found[0], integers[0])), int(min(found[1], integers[1]))

    def state(self, place: int) -> str:
        """Return the graph's tensor of a state as it was left; raises GraphError for an input that is none."""
        index = self.stated.inputs[place]
        name = self.model.tensors.get(index, "")
        if name not in self.model.following:
            self.refuse(f"with {self.model.own.tensor(index).name!r}, which is no state")
        return name

    def next_state(self, place: int) -> str:
        """Return the graph's tensor of a state as it will be; raises GraphError for an input that is none."""
        return self.model.following[self.state(place)]

    def refuse(self, why: str) -> NoReturn:
        """Raise GraphError: there is no kernel for such an operator."""
        raise no_kernel(self.operator, self.kind, why)

    def _element(self, index: int) -> str:
        number = self.model.own.tensor(index).element_type
        dtype = dtype_of(number)
        if dtype is None or dtype.name not in ELEMENT_OF:
            self.refuse(f"of {type_name(number).lower()}")
        return str(dtype.name)

    def _operand(self, place: int, element: str) -> TensorOperand | Table:
        index = self.stated.inputs[place]
        if self.model.own.is_constant(index):
            return table(self.model.own.tensor(index).name, self.model.own.constant(index))
        return TensorOperand(self._tensor(index), element)

    def _tensor(self, index: int) -> str:
        base = self.model.own.base(index)
        for one in (index, base):
            if one in self.model.tensors:
                return self.model.tensors[one]
        name = self.model.own.tensor(index).name
        raise GraphError("no tensor of the plan has its bytes", place=f"tensor {name!r}", expected="a plan of it")

    def _quantisation(self, index: int) -> Quantisation:
        found = stated_quantisation(self.model.own.tensor_table(index))
        if found is None:
            self.refuse(f"of {self.model.own.tensor(index).name!r} without a scale")
        return found
