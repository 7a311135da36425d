"""An operator: a node of the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from onchip.errors import GraphError
from onchip.ir.tile import Tile

AttributeValue: TypeAlias = "bool | int | float | str | list[AttributeValue] | None"

SEEN_SHAPES: Final = "seen_shapes"
"""The attribute that lists the shapes of all inputs as the operator sees them, where one is a view of another shape."""


@dataclass(frozen=True, slots=True)
class Operator:
    """Reads `inputs` and `parameters`, writes `outputs` (names of tensors).

    An input may be named twice (`Add(x, x)`). `members` are the names of the nodes a fused
    operator runs, itself first; empty for an operator that stands for itself alone. With a `tile` it computes a part
    of another operator, whose attributes and members it has.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: tuple[str, ...] = ()
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict, hash=False)
    members: tuple[str, ...] = ()
    tile: Tile | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise GraphError("an operator has no name", expected="a name")
        if not self.kind:
            raise self._error("it has no kind", "a kind, such as 'Conv'")
        if not self.outputs:
            raise self._error("it writes nothing", "at least one output")
        written = set(self.outputs)
        if len(written) != len(self.outputs):
            raise self._error("it writes one tensor twice", "distinct outputs")
        if in_place := written & {*self.inputs, *self.parameters}:
            raise self._error(f"it reads and writes {min(in_place)!r}", "no operator in place")

    @property
    def reads(self) -> tuple[str, ...]:
        """Inputs and parameters, each once, in order."""
        return tuple(dict.fromkeys((*self.inputs, *self.parameters)))

    def _error(self, what: str, expected: str) -> GraphError:
        return GraphError(what, place=f"operator {self.name!r}", expected=expected)
