"""A tile as it stands in a graph file, and as it stood among an operator's attributes in earlier ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NotRequired

from typing_extensions import TypedDict

from onchip.errors import GraphError
from onchip.ir.operator import AttributeValue
from onchip.ir.region import Range, Region
from onchip.ir.tile import SumPart, Tile

_PREFIX: Final = "tile_"


class TileFields(TypedDict):
    """Which part of which operator this one is: `shapes` are those of the operands, one after the other, whole.

    `regions` has a range for each dimension of each output; without `reduction` all is summed up.
    """

    operator: str
    inputs: list[str]
    parameters: NotRequired[list[str]]
    outputs: list[str]
    shapes: list[list[int]]
    regions: list[list[tuple[int, int]]]
    reduction: NotRequired[tuple[int, int]]
    part: NotRequired[SumPart]


def tile_of_fields(fields: TileFields) -> Tile:
    """The tile that the fields say; raises GraphError."""
    return Tile(
        fields["operator"],
        tuple(fields["inputs"]),
        tuple(fields.get("parameters", ())),
        tuple(fields["outputs"]),
        tuple(map(tuple, fields["shapes"])),
        tuple(map(tuple, fields["regions"])),
        fields.get("reduction"),
        fields.get("part", SumPart.WHOLE),
    )


def fields_of_tile(tile: Tile) -> TileFields:
    """What the file says of a tile; what says nothing is left out."""
    fields: TileFields = {
        "operator": tile.operator,
        "inputs": list(tile.inputs),
        "parameters": list(tile.parameters),
        "outputs": list(tile.outputs),
        "shapes": [list(shape) for shape in tile.shapes],
        "regions": [list(region) for region in tile.regions],
    }
    if not tile.parameters:
        del fields["parameters"]
    if tile.reduction is not None:
        fields["reduction"] = tile.reduction
    if tile.part is not SumPart.WHOLE:
        fields["part"] = tile.part
    return fields


def tile_of_attributes(attributes: Mapping[str, AttributeValue]) -> Tile | None:
    """The tile that attributes `tile_...` say, if any do; raises GraphError where they do not say it all."""
    name = attributes.get(f"{_PREFIX}of")
    if not isinstance(name, str):
        return None
    listed = {key.removeprefix(_PREFIX): value for key, value in attributes.items() if key.startswith(_PREFIX)}
    try:
        reduction = _integers(listed.get("reduction"))
        return Tile(
            name,
            _names(listed.get("inputs")),
            _names(listed.get("parameters")),
            _names(listed.get("outputs")),
            tuple(_integers(shape) for shape in _entries(listed.get("shapes"))),
            tuple(_region(region) for region in _entries(listed.get("regions"))),
            _range(reduction) if reduction else None,
            SumPart(str(listed.get("part"))),
        )
    except (ValueError, GraphError) as error:
        what = f"its attributes {_PREFIX}... do not say which tile it is ({error})"
        raise GraphError(what, expected="those of a tile") from None


def without_tile_attributes(attributes: Mapping[str, AttributeValue]) -> dict[str, AttributeValue]:
    """The attributes of the operator itself."""
    return {name: value for name, value in attributes.items() if not name.startswith(_PREFIX)}


def _entries(value: AttributeValue) -> list[AttributeValue]:
    return value if isinstance(value, list) else []


def _names(value: AttributeValue) -> tuple[str, ...]:
    return tuple(name for name in _entries(value) if isinstance(name, str))


def _integers(value: AttributeValue) -> tuple[int, ...]:
    return tuple(number for number in _entries(value) if isinstance(number, int))


def _region(value: AttributeValue) -> Region:
    return tuple(_range(_integers(each)) for each in _entries(value))


def _range(value: tuple[int, ...]) -> Range:
    start, stop = value
    return start, stop
