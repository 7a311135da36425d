"""A layer and its mapping, as mapping files and schedule files have them."""

from __future__ import annotations

from re import fullmatch
from typing import NotRequired

from typing_extensions import TypedDict

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, MappingError
from onchip.arch.memory import Operand
from onchip.errors import InputError
from onchip.formats.validation import placed, quoted
from onchip.ir.layer import Layer


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


class NestFields(TypedDict):
    """How a layer runs: the nest is innermost first, nearest memories stand first; loops in `ragged` end short."""

    nest: list[str]
    input: NotRequired[list[KeptFields]]
    weight: NotRequired[list[KeptFields]]
    output: NotRequired[list[KeptFields]]
    ragged: NotRequired[list[str]]


def layer_of(fields: LayerFields, place: str) -> Layer:
    """The layer that the fields say; raises MappingError with the place of what no layer can be."""
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


def layer_fields(layer: Layer) -> dict[str, object]:
    """The fields of a layer; what is as in the plainest layer is left out."""
    plain = Layer()
    fields: dict[str, object] = {"loops": {loop: bound for loop, bound in layer.bounds.items() if bound > 1}}
    for name in ("stride", "dilation", "padding"):
        if getattr(layer, name) != getattr(plain, name):
            fields[name] = list(getattr(layer, name))
    bits = {part: getattr(layer, f"{part}_bits") for part in ("input", "weight", "output", "partial")}
    if any(value != getattr(plain, f"{part}_bits") for part, value in bits.items()):
        fields["bits"] = bits
    return fields if layer.has_weight else fields | {"has_weight": False}


def mapping_of(fields: NestFields, place: str) -> LayerMapping:
    """The mapping that the fields say, of whatever layer; raises MappingError for what no mapping can be."""
    nest = tuple(_loop(text, f"{place}.nest[{i}]") for i, text in enumerate(fields["nest"]))
    kept = [
        tuple(Kept(entry["memory"], entry["loops"]) for entry in entries)
        for entries in (fields.get("input", ()), fields.get("weight", ()), fields.get("output", ()))
    ]
    try:
        return LayerMapping(nest, *kept, ragged=tuple(fields.get("ragged", ())))
    except InputError as error:
        raise placed(error, place) from None


def mapping_fields(mapping: LayerMapping) -> dict[str, object]:
    """The fields of a mapping; an operand that no memory keeps is left out, and `ragged` where no loop ends short."""
    fields: dict[str, object] = {"nest": [str(loop) for loop in mapping.nest]}
    for operand in Operand:
        if kept := mapping.kept(operand):
            fields[str(operand)] = [{"memory": each.memory, "loops": each.loops} for each in kept]
    return fields | {"ragged": list(mapping.ragged)} if mapping.ragged else fields


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
