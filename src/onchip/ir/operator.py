"""An operator, its attributes, and stated costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, TypeAlias

from onchip.errors import GraphError
from onchip.ir.tile import Tile

MOST_CYCLES: Final = 2**48
"""Limit for one operator: three days at 1 GHz. The cycles of ten thousand operators fit in 64 bits."""
GREATEST_ENERGY_PJ: Final = 1e18
"""Limit for one operator: a megajoule."""


@dataclass(frozen=True, slots=True)
class ChannelSplits:
    """The numbers of equal channel tiles into which an operator's outputs and parameters may be split.

    `ways` are pairs (parts, cycles of one part) with increasing parts. Each tile reads the whole inputs, or only the
    same channels of them with `cuts_inputs`. Raises GraphError for invalid values.
    """

    cuts_inputs: bool
    ways: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        parts = [parts for parts, _ in self.ways]
        if not parts or parts[0] < 2 or any(one >= other for one, other in pairwise(parts)):
            raise GraphError(f"its parts are {parts}", expected="at least 2, and more with each way")
        for _, cycles in self.ways:
            if not 1 <= cycles <= MOST_CYCLES:
                raise GraphError(f"a part takes {cycles} cycles", expected=f"1 to {MOST_CYCLES:,}")

    def cycles_of(self, parts: int) -> int | None:
        """Return the cycles of one of `parts` tiles, or None if that split is not listed."""
        return dict(self.ways).get(parts)


@dataclass(frozen=True, slots=True)
class StatedCost:
    """The cycles, energy in pJ and splits stated for a whole operator; None where nothing is stated.

    Stated costs take precedence over the cost models. Raises GraphError for invalid values.
    """

    cycles: int | None = None
    energy_pj: float | None = None
    splits: ChannelSplits | None = None

    def __post_init__(self) -> None:
        if self.cycles is not None and not 1 <= self.cycles <= MOST_CYCLES:
            raise GraphError(f"it takes {self.cycles} cycles", expected=f"1 to {MOST_CYCLES:,}")
        if self.energy_pj is not None and not 0 <= self.energy_pj <= GREATEST_ENERGY_PJ:
            raise GraphError(f"it takes {self.energy_pj} pJ", expected=f"0 to {GREATEST_ENERGY_PJ:g}")
        if self.splits is not None and self.cycles is None:
            raise GraphError("it states cycles of its parts alone", expected="cycles of the whole, too")

    def share(self, part: int, whole: int) -> StatedCost:
        """Return the cost of `part` of `whole` elements: cycles rounded up, and energy."""
        cycles = None if self.cycles is None else max(1, -(-self.cycles * part // whole))
        energy_pj = None if self.energy_pj is None else self.energy_pj * part / whole
        return replace(self, cycles=cycles, energy_pj=energy_pj, splits=None)


NOTHING_STATED = StatedCost()


AttributeValue: TypeAlias = "bool | int | float | str | list[AttributeValue] | None"

SEEN_SHAPES: Final = "seen_shapes"
"""Attribute with the shapes of all inputs as the operator reads them, if an input is a view with another shape."""
SEEN_PARAMETER_SHAPES: Final = "seen_parameter_shapes"
"""Attribute with the shapes of all parameters as the operator reads them."""
SEEN_PARTS: Final = "seen_parts"
"""Attribute with the position of each input view that does not cover all elements of its stored tensor once."""
SEEN_ORDERS: Final = "seen_orders"
"""Attribute with the order in which each input view traverses the stored axes."""
WRITTEN_ORDERS: Final = "written_orders"
"""Attribute with the order in which each output view traverses the stored axes."""
WEIGHT_FACTOR: Final = "weight_factor"
"""Attribute that says which factor of a product its parameter is, where the shapes fit both; its value is RIGHT."""
RIGHT: Final = "right"
PARAMETER_FIRST: Final = "parameter_first"
"""Attribute of a quotient, difference or power whose first operand is the parameter: Div(parameter, input)."""
UPPER_BOUND: Final = "upper_bound"
"""Attribute with the outputs whose shape is an upper bound."""
OF_ONE_AXIS: Final = "of_one_axis"
"""Attribute of a softmax over a single axis, not over that axis and all later ones."""
KEY_SLICE: Final = "key_slice"
"""Attribute of the Slices and sums of a softmax in slices of its keys; groups may have these alone of their kinds."""
VIEWS: Final = frozenset({SEEN_SHAPES, SEEN_PARAMETER_SHAPES, SEEN_PARTS, SEEN_ORDERS, WRITTEN_ORDERS})
"""Attributes of an operator with an operand whose view differs from the stored layout."""


_SIGHTS: Final = (SEEN_SHAPES, SEEN_PARTS, SEEN_ORDERS)


def _entry(listed: AttributeValue, place: int) -> str:
    """Return the entry of one input in a list attribute, as text; empty if there is none."""
    entry = listed[place] if isinstance(listed, list) and place < len(listed) else None
    return str(entry) if entry else ""


@dataclass(frozen=True, slots=True)
class InPlace:
    """An output that may be stored `shift_bytes` after the start of the input, inside the input's bytes or around them.

    With a shift of 0 and the same size it overwrites the input. An input of a concatenation is inside the output; an
    output of a split is inside the input.
    """

    input: str
    output: str
    shift_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Operator:
    """A node that reads `inputs` and `parameters` and writes `outputs` (names of tensors).

    An input may be named twice (`Add(x, x)`). `members` are the names of the nodes of a fused operator, its own first;
    empty for a single node. With a `tile` the operator computes a part of another operator, and has its attributes and
    members. `in_place` lists the pairs of outputs and inputs that may share bytes, each pair once. `workspace_bytes` is
    the scratch memory that its kernel needs while it runs. `stated` is the cost that its file states. Raises GraphError
    for invalid values.
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
        """Return the inputs and parameters, each once, in order."""
        return tuple(dict.fromkeys((*self.inputs, *self.parameters)))

    @property
    def whole(self) -> Operator:
        """Return the operator that this one is a tile of, or the operator itself."""
        tile = self.tile
        if tile is None:
            return self
        return replace(
            self, inputs=tile.inputs, parameters=tile.parameters, outputs=tile.outputs, tile=None, in_place=()
        )

    def may_overwrite(self, name: str) -> bool:
        """Return True if the operator reads an input whole and through one view, so that an output may overwrite it.

        An input that is also read as a part, or in another shape or order, is still read at other positions after an
        output element is written.
        """
        places = [at for at, one in enumerate(self.inputs) if one == name]
        ways = {tuple(_entry(self.attributes.get(kind), at) for kind in _SIGHTS) for at in places}
        has_part = any(_entry(self.attributes.get(SEEN_PARTS), at) for at in places)
        return len(ways) <= 1 and not has_part

    def _error(self, what: str, expected: str) -> GraphError:
        return GraphError(what, place=f"operator {self.name!r}", expected=expected)
