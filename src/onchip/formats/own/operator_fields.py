"""The fields of an operator in a graph file, read and written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NotRequired

from typing_extensions import TypedDict

from onchip.errors import GraphError, InputError
from onchip.formats.validation import LARGEST_INTEGER, placed
from onchip.ir.operator import AttributeValue, InPlace, Operator
from onchip.ir.region import Range, Region
from onchip.ir.stated_cost import ChannelSplits, StatedCost
from onchip.ir.tile import SumPart, Tile

_PREFIX: Final = "tile_"


class WayOfSplittingFields(TypedDict):
    """So many equal parts, and the cycles of each."""

    parts: int
    cycles: int


class SplitsFields(TypedDict):
    """Equal bands of the channels of outputs and parameters; each reads its inputs whole, or the same band of them."""

    axis: Literal["channels"]
    inputs: Literal["whole", "split"]
    ways: list[WayOfSplittingFields]


class OperatorFields(TypedDict):
    """An operator: names of tensors; what is empty may be absent, but for inputs and outputs.

    `in_place` are pairs of an input and an output that may share bytes, with how many bytes this begins behind that.
    """

    name: str
    kind: str
    inputs: list[str]
    parameters: NotRequired[list[str]]
    outputs: list[str]
    attributes: NotRequired[dict[str, Any]]
    members: NotRequired[list[str]]
    tile: NotRequired[TileFields]
    in_place: NotRequired[list[tuple[str, str] | tuple[str, str, int]]]
    workspace_bytes: NotRequired[int]
    cycles: NotRequired[int]
    energy_pj: NotRequired[float]
    splits: NotRequired[SplitsFields]


def operator_of_fields(fields: OperatorFields, place: str) -> Operator:
    """The operator that the fields say, at `place` in errors; raises GraphError."""
    attributes = fields.get("attributes", {})
    for name, value in attributes.items():
        if isinstance(value, (dict, list)):
            _check_attribute(value, f"{place}.attributes.{name}")
    try:
        tile = tile_of_fields(fields["tile"]) if "tile" in fields else tile_of_attributes(attributes)
        is_older = tile is not None and "tile" not in fields
        return Operator(
            fields["name"],
            fields["kind"],
            tuple(fields["inputs"]),
            tuple(fields["outputs"]),
            tuple(fields.get("parameters", ())),
            without_tile_attributes(attributes) if is_older else attributes,
            tuple(fields.get("members", ())),
            tile,
            tuple(InPlace(*pair) for pair in fields.get("in_place", ())),
            within_range(fields.get("workspace_bytes", 0)),
            _stated(fields),
        )
    except InputError as error:
        raise placed(error, place) from None


def _check_attribute(value: dict[str, Any] | list[Any], place: str) -> None:
    """Raise GraphError for an object; the places of entries are made only for lists and objects."""
    if isinstance(value, dict):
        raise GraphError(
            "it is an object", place=place, expected="a number, string, truth value, null or list of these"
        )
    for index, entry in enumerate(value):
        if isinstance(entry, (dict, list)):
            _check_attribute(entry, f"{place}[{index}]")


def within_range(size_bytes: int) -> int:
    """The size of a tensor or a workspace; raises GraphError for one beyond 64 bits."""
    if size_bytes > LARGEST_INTEGER:
        raise GraphError("its size is too large", expected="at most 2^63-1 bytes")
    return size_bytes


def _stated(fields: OperatorFields) -> StatedCost:
    splits = None
    if "splits" in fields:
        said = fields["splits"]
        ways = tuple((way["parts"], way["cycles"]) for way in said["ways"])
        splits = ChannelSplits(said["inputs"] == "split", ways)
    return StatedCost(fields.get("cycles"), fields.get("energy_pj"), splits)


def fields_of_operator(operator: Operator) -> OperatorFields:
    """The fields of an operator; what is empty is left out, but for inputs and outputs."""
    fields: OperatorFields = {
        "name": operator.name,
        "kind": operator.kind,
        "inputs": list(operator.inputs),
        "parameters": list(operator.parameters),
        "outputs": list(operator.outputs),
        "attributes": dict(operator.attributes),
        "members": list(operator.members),
    }
    if not operator.parameters:
        del fields["parameters"]
    if not operator.attributes:
        del fields["attributes"]
    if not operator.members:
        del fields["members"]
    if operator.tile is not None:
        fields["tile"] = fields_of_tile(operator.tile)
    if operator.in_place:
        fields["in_place"] = [_pair(one) for one in operator.in_place]
    if operator.workspace_bytes:
        fields["workspace_bytes"] = operator.workspace_bytes
    return _with_stated_cost(fields, operator.stated)


def _pair(one: InPlace) -> tuple[str, str] | tuple[str, str, int]:
    return (one.input, one.output, one.shift_bytes) if one.shift_bytes else (one.input, one.output)


def _with_stated_cost(fields: OperatorFields, stated: StatedCost) -> OperatorFields:
    if stated.cycles is not None:
        fields["cycles"] = stated.cycles
    if stated.energy_pj is not None:
        fields["energy_pj"] = stated.energy_pj
    if stated.splits is not None:
        ways: list[WayOfSplittingFields] = [{"parts": parts, "cycles": cycles} for parts, cycles in stated.splits.ways]
        inputs: Literal["whole", "split"] = "split" if stated.splits.cuts_inputs else "whole"
        fields["splits"] = {"axis": "channels", "inputs": inputs, "ways": ways}
    return fields


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
