"""An operator: a node of the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from onchip.errors import GraphError
from onchip.ir.stated_cost import NOTHING_STATED, StatedCost
from onchip.ir.tile import Tile

AttributeValue: TypeAlias = "bool | int | float | str | list[AttributeValue] | None"

SEEN_SHAPES: Final = "seen_shapes"
"""The attribute that lists the shapes of all inputs as the operator sees them, where one is a view of another shape."""
SEEN_PARAMETER_SHAPES: Final = "seen_parameter_shapes"
"""The same of all parameters."""
SEEN_PARTS: Final = "seen_parts"
"""The attribute that lists, for all inputs, where the elements of a view lie that shows not each of a map's once.

These are the place of its first element and then a stride for each of its dimensions, in elements of the map as it is
stored. For an input that is seen whole the list is empty.
"""
SEEN_ORDERS: Final = "seen_orders"
"""The attribute that lists, for all inputs, the order of the stored axes in which a view goes through the elements."""
WRITTEN_ORDERS: Final = "written_orders"
"""The same of all outputs."""
UPPER_BOUND: Final = "upper_bound"
"""The attribute that lists outputs whose shape is the largest that it can be."""
OF_ONE_AXIS: Final = "of_one_axis"
"""The attribute of a softmax along its axis alone, not along all from there on."""
VIEWS: Final = frozenset({SEEN_SHAPES, SEEN_PARAMETER_SHAPES, SEEN_PARTS, SEEN_ORDERS, WRITTEN_ORDERS})
"""Attributes of an operator that has an operand otherwise than it is stored."""


_SIGHTS: Final = (SEEN_SHAPES, SEEN_PARTS, SEEN_ORDERS)


def _entry(listed: AttributeValue, place: int) -> str:
    """Return the entry of an attribute that lists one for each input, as text; empty if there is none."""
    entry = listed[place] if isinstance(listed, list) and place < len(listed) else None
    return str(entry) if entry else ""


@dataclass(frozen=True, slots=True)
class InPlace:
    """The output may lie `shift_bytes` behind the address of the input: in bytes that this has, or around them.

    With a shift of 0 and as many bytes it overwrites the input; a part of a concatenation lies within the output, an
    output of a split within the input.
    """

    input: str
    output: str
    shift_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Operator:
    """Reads `inputs` and `parameters`, writes `outputs` (names of tensors).

    An input may be named twice (`Add(x, x)`). `members` are the names of the nodes a fused
    operator runs, itself first; empty for an operator that stands for itself alone. With a `tile` it computes a part
    of another operator, whose attributes and members it has. `in_place` says which outputs may share bytes with which
    inputs, a pair once. `workspace_bytes` it needs for itself while it runs, as its kernel is written. `stated` is what
    its file says that it costs.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: tuple[str, ...] = ()
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict, hash=False)
    members: tuple[str, ...] = ()
    tile: Tile | None = None
    in_place: tuple[InPlace, ...] = ()
    workspace_bytes: int = 0
    stated: StatedCost = NOTHING_STATED

    def __post_init__(self) -> None:
        if not self.name:
            raise GraphError("an operator has no name", expected="a name")
        if not self.kind:
            raise self._error("it has no kind", "a kind, such as 'Conv'")
        if not self.outputs:
            raise self._error("it writes nothing", "at least one output")
        if self.workspace_bytes < 0:
            raise self._error(f"its workspace has {self.workspace_bytes} bytes", "at least 0")
        written = set(self.outputs)
        if len(written) != len(self.outputs):
            raise self._error("it writes one tensor twice", "distinct outputs")
        if both := written & {*self.inputs, *self.parameters}:
            raise self._error(f"it reads and writes {min(both)!r}", "another name for what it writes")
        for one in self.in_place:
            if one.input not in self.inputs or one.output not in self.outputs:
                raise self._error(f"{one.output!r} is in place of {one.input!r}", "an input, and an output")
        if len({(one.input, one.output) for one in self.in_place}) != len(self.in_place):
            raise self._error("a pair is in place twice", "each pair once")

    @property
    def reads(self) -> tuple[str, ...]:
        """Inputs and parameters, each once, in order."""
        return tuple(dict.fromkeys((*self.inputs, *self.parameters)))

    def may_overwrite(self, name: str) -> bool:
        """True if the operator sees an input in one way and whole, so that its output may share the input's bytes.

        An input that is also seen as a part, or in another shape or order, is still read at other places after an
        output element is written.
        """
        places = [at for at, one in enumerate(self.inputs) if one == name]
        ways = {tuple(_entry(self.attributes.get(kind), at) for kind in _SIGHTS) for at in places}
        has_part = any(_entry(self.attributes.get(SEEN_PARTS), at) for at in places)
        return len(ways) <= 1 and not has_part

    def _error(self, what: str, expected: str) -> GraphError:
        return GraphError(what, place=f"operator {self.name!r}", expected=expected)
