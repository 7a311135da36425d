"""What the attributes of a tile operator say: which part of which operator it is, in terms of whole tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from onchip.errors import GraphError
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.region import Range, Region

_PREFIX = "tile_"


class Part(StrEnum):
    """What a tile writes: the values, or with others a sum of which it is the first, a further or the last part."""

    WHOLE = "whole"
    START = "start"
    MIDDLE = "middle"
    END = "end"

    @property
    def adds_to_a_sum(self) -> bool:
        """It reads what the tile before it wrote, as the last of its inputs."""
        return self in (Part.MIDDLE, Part.END)

    @property
    def is_complete(self) -> bool:
        """What it writes are the operator's values."""
        return self in (Part.WHOLE, Part.END)


@dataclass(frozen=True, slots=True)
class Tile:
    """`operator`'s operands in its own order, their shapes, and the region of each output that is computed.

    `reduction` is the range of what is summed up, in input channels or features; None where all is.
    """

    operator: str
    inputs: tuple[str, ...]
    parameters: tuple[str, ...]
    outputs: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    regions: tuple[Region, ...]
    reduction: Range | None = None
    part: Part = Part.WHOLE

    @property
    def shape(self) -> Mapping[str, tuple[int, ...]]:
        """Of each operand, whole."""
        return dict(zip((*self.inputs, *self.parameters, *self.outputs), self.shapes, strict=True))

    def attributes(self) -> dict[str, AttributeValue]:
        """As they stand in the operator."""
        return {
            f"{_PREFIX}of": self.operator,
            f"{_PREFIX}inputs": list(self.inputs),
            f"{_PREFIX}parameters": list(self.parameters),
            f"{_PREFIX}outputs": list(self.outputs),
            f"{_PREFIX}shapes": [list(shape) for shape in self.shapes],
            f"{_PREFIX}regions": [[list(each) for each in region] for region in self.regions],
            f"{_PREFIX}reduction": None if self.reduction is None else list(self.reduction),
            f"{_PREFIX}part": self.part.value,
        }

    @classmethod
    def of(cls, operator: Operator) -> Tile | None:
        """The tile that the operator is, if it is one; raises GraphError where its attributes are not a tile's."""
        attributes = operator.attributes
        name = attributes.get(f"{_PREFIX}of")
        if not isinstance(name, str):
            return None
        try:
            return cls._read(name, attributes)
        except ValueError as error:
            what = f"its attributes {_PREFIX}... do not say which tile it is ({error})"
            raise GraphError(what, place=f"operator {operator.name!r}", expected="those of a tile") from None

    @classmethod
    def _read(cls, name: str, attributes: Mapping[str, AttributeValue]) -> Tile:
        reduction = _integers(attributes.get(f"{_PREFIX}reduction"))
        return cls(
            name,
            _names(attributes.get(f"{_PREFIX}inputs")),
            _names(attributes.get(f"{_PREFIX}parameters")),
            _names(attributes.get(f"{_PREFIX}outputs")),
            tuple(_integers(shape) for shape in _listed(attributes.get(f"{_PREFIX}shapes"))),
            tuple(_region(region) for region in _listed(attributes.get(f"{_PREFIX}regions"))),
            _range(reduction) if reduction else None,
            Part(str(attributes.get(f"{_PREFIX}part"))),
        )


def without_tile(attributes: Mapping[str, AttributeValue]) -> dict[str, AttributeValue]:
    """The attributes of the operator itself."""
    return {name: value for name, value in attributes.items() if not name.startswith(_PREFIX)}


def _listed(value: AttributeValue) -> list[AttributeValue]:
    return value if isinstance(value, list) else []


def _names(value: AttributeValue) -> tuple[str, ...]:
    return tuple(name for name in _listed(value) if isinstance(name, str))


def _integers(value: AttributeValue) -> tuple[int, ...]:
    return tuple(number for number in _listed(value) if isinstance(number, int))


def _region(value: AttributeValue) -> Region:
    return tuple(_range(_integers(each)) for each in _listed(value))


def _range(value: tuple[int, ...]) -> Range:
    start, stop = value
    return start, stop
