"""The mapping file: for each layer its loop nest, the tiles that the memories hold, and what its maker claims.

Read here, written by `mapping_yaml_writer`. Whether a mapping fits an accelerator is the verifier's to say.
"""

from __future__ import annotations

import json
from pathlib import Path
from re import fullmatch
from typing import Final, Literal, NotRequired

from typing_extensions import TypedDict

from onchip.answer.document import Source
from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, MappingError
from onchip.answer.mapping_document import MappingClaim, MappingDocument, NamedMapping
from onchip.answer.result import Status
from onchip.errors import InputError
from onchip.formats.files import read_file
from onchip.formats.own.plan_json import SourceFields
from onchip.formats.validation import Format, as_utf8, check_format, field_path, placed, quoted, validate
from onchip.formats.yaml_nodes import parse_yaml
from onchip.ir.layer import Layer

MAPPING_FORMAT: Final = Format("onchip-mapping", 1, MappingError)


class LoopFields(TypedDict):
    """How often each loop runs; once where it is left out."""

    N: NotRequired[int]
    K: NotRequired[int]
    C: NotRequired[int]
    P: NotRequired[int]
    Q: NotRequired[int]
    R: NotRequired[int]
    S: NotRequired[int]
    G: NotRequired[int]


class BitsFields(TypedDict):
    """Of one element; `partial` of a sum in the making."""

    input: int
    weight: int
    output: int
    partial: int


class LayerFields(TypedDict):
    """K and C are those of one group; what is left out is as in `Layer`."""

    loops: LoopFields
    stride: NotRequired[list[int]]
    dilation: NotRequired[list[int]]
    padding: NotRequired[list[int]]
    bits: NotRequired[BitsFields]
    has_weight: NotRequired[bool]


class KeptFields(TypedDict):
    """A memory, and how many of the innermost loops its tile spans."""

    memory: str
    loops: int


class ClaimFields(TypedDict):
    """What the maker of the mapping says of it."""

    method: str
    status: Status
    objective: str
    objective_value: int | float
    lower_bound: int | float


class MappingFields(TypedDict):
    """The layers that it is for, all alike; the nest is innermost first, nearest memories stand first."""

    names: list[str]
    layer: LayerFields
    nest: list[str]
    input: NotRequired[list[KeptFields]]
    weight: NotRequired[list[KeptFields]]
    output: NotRequired[list[KeptFields]]
    result: NotRequired[ClaimFields]


class MappingFileFields(TypedDict):
    """All of a mapping file; a layer that was given as text is of no network."""

    format: Literal["onchip-mapping"]
    version: Literal[1]
    accelerator: SourceFields
    network: NotRequired[str]
    layers: list[MappingFields]


def read_mappings(path: Path) -> MappingDocument:
    """What a mapping file says; raises MappingError."""
    return mappings_from_yaml(read_file(path), str(path))


def mappings_from_yaml(text: str | bytes, file: str) -> MappingDocument:
    """What `text` says; `file` is its name in errors. Raises MappingError with line and field."""
    encoded = as_utf8(text, MAPPING_FORMAT, file)
    document = parse_yaml(encoded.decode(), MAPPING_FORMAT, file)
    try:
        check_format(document.value, MAPPING_FORMAT, file)
        fields = validate(MappingFileFields, json.dumps(document.value).encode(), MAPPING_FORMAT, file)
        mappings = tuple(_mapping(entry, field_path(("layers", i))) for i, entry in enumerate(fields["layers"]))
    except InputError as error:
        error.place = document.place(error.place or "")
        raise error.in_file(file) from None
    accelerator = fields["accelerator"]
    return MappingDocument(Source(accelerator["name"], accelerator.get("sha256")), mappings, fields.get("network"))


def _mapping(fields: MappingFields, place: str) -> NamedMapping:
    if not fields["names"]:
        raise MappingError("it is for no layer", place=f"{place}.names", expected="at least one name")
    layer = _layer(fields["layer"], f"{place}.layer")
    nest = tuple(_loop(text, f"{place}.nest[{i}]") for i, text in enumerate(fields["nest"]))
    kept = [
        tuple(Kept(entry["memory"], entry["loops"]) for entry in entries)
        for entries in (fields.get("input", ()), fields.get("weight", ()), fields.get("output", ()))
    ]
    try:
        mapping = LayerMapping(nest, *kept)
        mapping.layer(layer)
    except InputError as error:
        raise placed(error, place) from None
    claim = MappingClaim(**fields["result"]) if "result" in fields else None
    return NamedMapping(tuple(fields["names"]), layer, mapping, claim)


def _layer(fields: LayerFields, place: str) -> Layer:
    loops = fields["loops"]
    bits = fields.get("bits", BitsFields(input=8, weight=8, output=8, partial=24))
    try:
        top, left, bottom, right = _integers(fields.get("padding", [0] * 4), 4, f"{place}.padding")
        return Layer(
            loops.get("N", 1),
            loops.get("K", 1),
            loops.get("C", 1),
            loops.get("P", 1),
            loops.get("Q", 1),
            loops.get("R", 1),
            loops.get("S", 1),
            loops.get("G", 1),
            stride=_pair(fields.get("stride", [1, 1]), f"{place}.stride"),
            dilation=_pair(fields.get("dilation", [1, 1]), f"{place}.dilation"),
            padding=(top, left, bottom, right),
            input_bits=bits["input"],
            weight_bits=bits["weight"],
            output_bits=bits["output"],
            partial_bits=bits["partial"],
            has_weight=fields.get("has_weight", True),
        )
    except MappingError:
        raise
    except InputError as error:
        raise placed(MappingError(error.what, place=error.place, expected=error.expected), place) from None


def _pair(values: list[int], place: str) -> tuple[int, int]:
    height, width = _integers(values, 2, place)
    return height, width


def _integers(values: list[int], count: int, place: str) -> list[int]:
    if len(values) != count:
        raise MappingError(f"it has {len(values)} entries", place=place, expected=f"{count}")
    return values


def _loop(text: str, place: str) -> Loop:
    """`K4`, or `K4@lane` along a dimension of the array."""
    match = fullmatch(r"([A-Z])([0-9]{1,18})(?:@(.+))?", text)
    if match is None:
        raise MappingError(f"{quoted(text)} is no loop", place=place, expected="one like K4, or K4@lane side by side")
    try:
        return Loop(match[1], int(match[2]), match[3])
    except MappingError as error:
        raise placed(error, place) from None
