"""What type inference finds of a model: types, constants, loops that stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx

from onchip.errors import GraphError
from onchip.formats.onnx.constants import Constants
from onchip.formats.onnx.types import static_shape


@dataclass(frozen=True, slots=True)
class KeptNode:
    """A node that runs a graph of its own: so many of its last inputs are what that graph reads around it.

    `bounded` are outputs whose shape is the largest that it can be.
    """

    captured: int
    workspace_bytes: int
    bounded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelTypes:
    """What inference found: constants, each node's outputs that are tensors, and their types.

    An optional output that nobody reads is not a tensor. For a tensor in `unknown` nothing could be
    found, and the error says why; it is raised only if somebody needs the tensor. The shape of a tensor in `bounded`
    follows from values: it is the largest that it can have. `kept` are loops that stay, by their first output. A tensor
    without elements is a constant.
    """

    static: Mapping[str, onnx.TypeProto]
    unknown: Mapping[str, GraphError]
    constants: Constants
    outputs: tuple[tuple[str, ...], ...]
    bounded: frozenset[str] = frozenset()
    kept: Mapping[str, KeptNode] = field(default_factory=dict)
    variable_axes: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Axes that may be smaller, for each tensor in `bounded`; all of them for a tensor that is not listed."""

    def kept_as(self, node: onnx.NodeProto) -> KeptNode | None:
        """What is known of a node that is a loop; None for any other."""
        return next((self.kept[name] for name in node.output if name in self.kept), None)

    def is_empty(self, name: str) -> bool:
        """True if the tensor is known to have no elements: it takes no memory and no transfers."""
        shape = static_shape(self.static[name]) if name in self.static else None
        return shape is not None and 0 in shape

    def shape_and_element_type(self, name: str) -> tuple[tuple[int, ...], int]:
        """Raises GraphError, naming the node that writes it, for a tensor of unknown size."""
        if name in self.unknown:
            raise self.unknown[name]
        kind = self.static[name]
        return static_shape(kind) or (), kind.tensor_type.elem_type
