"""A node of onnxruntime's own domain, as its shape rule sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import onnx
from onnx import numpy_helper
from onnx.helper import get_attribute_value

from onchip.formats.onnx.constants import Constants
from onchip.formats.onnx.types import static_shape

Shape: TypeAlias = tuple[int, ...]


class MissingFactError(Exception):
    """A shape rule lacks an input, an attribute or a value; its text says which."""


Outputs: TypeAlias = list[tuple[int, Shape] | MissingFactError]
"""Element type and shape of each output, or what is missing to know them."""


@dataclass(frozen=True, slots=True)
class RuntimeNode:
    """A node with the types of its inputs and the values of constants."""

    node: onnx.NodeProto
    types: Mapping[str, onnx.TypeProto]
    constants: Constants

    def has_input(self, place: int) -> bool:
        """True if the input is not omitted."""
        return place < len(self.node.input) and bool(self.node.input[place])

    def shape(self, place: int, *ranks: int) -> Shape:
        """Return the shape of an input; raises MissingFactError if it is omitted or has none of `ranks`."""
        if not self.has_input(place):
            raise MissingFactError(f"its input {place} is omitted")
        name = self.node.input[place]
        shape = static_shape(self.types[name])
        if shape is None:
            raise MissingFactError(f"the shape of its input {name!r} is unknown")
        if ranks and len(shape) not in ranks:
            raise MissingFactError(f"its input {name!r} has {len(shape)} dimensions, not {_either(ranks)}")
        return shape

    def element_type(self, place: int) -> int:
        """Return the element type of an input; raises MissingFactError if it is omitted."""
        if not self.has_input(place):
            raise MissingFactError(f"its input {place} is omitted")
        found: int = self.types[self.node.input[place]].tensor_type.elem_type
        return found

    def rows(self, place: int) -> Shape:
        """Return the shape of an input; raises MissingFactError if it has no dimensions."""
        shape = self.shape(place)
        if not shape:
            raise MissingFactError(f"its input {self.node.input[place]!r} has no dimensions")
        return shape

    def integers(self, place: int, count: int) -> tuple[int, ...]:
        """Return the values of an integer constant; raises MissingFactError if they are not known or not so many."""
        if not self.has_input(place):
            raise MissingFactError(f"its input {place} is omitted")
        name = self.node.input[place]
        value = self.constants.value(name)
        if value is None:
            raise MissingFactError(f"the value of its input {name!r} is unknown")
        listed = numpy_helper.to_array(value).reshape(-1)
        if listed.size != count:
            raise MissingFactError(f"its input {name!r} has {listed.size} elements, not {count}")
        return tuple(int(number) for number in listed)

    def attribute(self, name: str, default: int | None = None) -> int:
        """Return an integer attribute; raises MissingFactError if it is absent and has no default."""
        for one in self.node.attribute:
            if one.name == name and one.type == onnx.AttributeProto.INT:
                return int(one.i)
        if default is None:
            raise MissingFactError(f"its attribute {name!r} is missing")
        return default

    def attribute_list(self, name: str) -> tuple[int, ...]:
        """Return an attribute of integers; empty if it is absent."""
        found = next((one for one in self.node.attribute if one.name == name), None)
        return () if found is None else tuple(int(number) for number in get_attribute_value(found))


Rule: TypeAlias = Callable[[RuntimeNode], Outputs]
"""Returns the outputs of a node; raises MissingFactError."""


def divided(total: int, parts: int, what: str) -> int:
    """Return `total / parts`; raises MissingFactError if there is a remainder."""
    if parts < 1 or total % parts:
        raise MissingFactError(f"{what} {total} does not divide into {parts}")
    return total // parts


def _either(ranks: tuple[int, ...]) -> str:
    return " or ".join(str(rank) for rank in ranks)
