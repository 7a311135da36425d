"""Read layers from workload files of ZigZag (zigzag-dse 3.9.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from re import findall, fullmatch
from typing import Final, NotRequired

from typing_extensions import TypedDict

from onchip.errors import InputError
from onchip.formats.files import read_file
from onchip.formats.validation import Format
from onchip.formats.zigzag.fields import read_fields
from onchip.ir.layer import LOOPS, OTHER_NAMES, RELEVANT, WEIGHT, Layer
from onchip.ops.contractions.contractions import MetAxis, contraction
from onchip.ops.windows.sliding_windows import NoLayerError

OPERAND = r"(\w+)((?:\[\w+\])+)"
EXPECTED = "like O[b][k][oy][ox]+=W[k][c][fy][fx]*I[b][c][iy][ix]"

WORKLOAD: Final = Format("ZigZag workload", 3, InputError)


class ZigzagLayerFields(TypedDict):
    """A layer; `dimension_relations` are like `ix=2*ox+1*fx`, `padding` is that of each of `pr_loop_dims`."""

    id: int
    name: NotRequired[str | None]
    operator_type: str
    equation: str
    dimension_relations: NotRequired[list[str]]
    loop_dims: list[str]
    loop_sizes: list[int]
    operand_precision: dict[str, int]
    operand_source: NotRequired[dict[str, int]]
    pr_loop_dims: NotRequired[list[str] | None]
    pr_loop_sizes: NotRequired[list[int] | None]
    padding: NotRequired[list[list[int]] | None]


@dataclass(frozen=True, slots=True)
class ZigzagLayer:
    """A layer with its name, or its id, and its kind."""

    name: str
    kind: str
    layer: Layer


def read_zigzag_workload(path: Path) -> tuple[ZigzagLayer, ...]:
    """What a workload file says; raises InputError with line and field."""
    return zigzag_workload(read_file(path), str(path))


def zigzag_workload(text: str | bytes, file: str) -> tuple[ZigzagLayer, ...]:
    """What `text` says; `file` is its name in errors. Raises InputError."""
    found = []
    for fields in read_fields(ZigzagLayerFields, WORKLOAD, text, file):
        name = fields.get("name") or str(fields["id"])
        try:
            found.append(ZigzagLayer(name, fields["operator_type"], _layer(fields)))
        except InputError as error:
            error.place = f"layer {name!r}" + (f" ({error.place})" if error.place else "")
            raise error.in_file(file) from None
    return tuple(found)


def _layer(fields: ZigzagLayerFields) -> Layer:
    if len(fields["loop_dims"]) != len(fields["loop_sizes"]):
        detail = f"{len(fields['loop_dims'])} loops have {len(fields['loop_sizes'])} sizes"
        raise InputError(detail, place="loop_sizes", expected="one size each")
    sizes = dict(zip(map(str.upper, fields["loop_dims"]), fields["loop_sizes"], strict=True))
    equation, precision = Equation.of_text(fields["equation"]), fields["operand_precision"]
    has_weight = bool(equation.weight) and precision.get(equation.weight_name, 8) > 0
    is_product = has_weight and equation.is_of_elements
    return replace(
        equation.product(sizes) if is_product else replace(_convolution(fields, sizes), has_weight=has_weight),
        input_bits=precision.get(equation.input_name, 8),
        weight_bits=precision.get(equation.weight_name, 8) if has_weight else 8,
        output_bits=precision.get("O_final", 8),
        partial_bits=precision.get("O", 24),
    )


def _convolution(fields: ZigzagLayerFields, sizes: Mapping[str, int]) -> Layer:
    bounds = {_loop(name): size for name, size in sizes.items()}
    steps = {"P": (1, 1), "Q": (1, 1)}
    axes: dict[str, str] = {}
    for relation in fields.get("dimension_relations", ()):
        position, output, stride, dilation = _relation(relation)
        axes[position], steps[output] = output, (stride, dilation)
    padding = {"P": (0, 0), "Q": (0, 0)}
    for position, sides in zip(fields.get("pr_loop_dims") or (), fields.get("padding") or (), strict=False):
        if position.upper() not in axes or len(sides) != 2:
            raise InputError(f"padding of {position} is {sides}", place="padding", expected="two sizes for an axis")
        padding[axes[position.upper()]] = sides[0], sides[1]
    (top, bottom), (left, right) = padding["P"], padding["Q"]
    n, k, c, p, q, r, s, g = (bounds.get(loop, 1) for loop in LOOPS)
    return Layer(
        *(n, k, c, p, q, r, s, g),
        stride=(steps["P"][0], steps["Q"][0]),
        dilation=(steps["P"][1], steps["Q"][1]),
        padding=(top, left, bottom, right),
    )


def _relation(text: str) -> tuple[str, str, int, int]:
    """Position, output loop, stride and dilation."""
    match = fullmatch(r"(\w+)=(?:(\d+)\*)?(\w+)\+(?:(\d+)\*)?(\w+)", text.replace(" ", "").upper())
    loops = (_loop(match[3]), _loop(match[5])) if match else ("", "")
    if match is None or loops not in (("P", "R"), ("Q", "S")):
        raise InputError(f"it is {text!r}", place="dimension_relations", expected="like ix=2*ox+1*fx")
    return match[1], loops[0], int(match[2] or 1), int(match[4] or 1)


def _loop(name: str) -> str:
    loop = OTHER_NAMES.get(name.upper(), name.upper())
    if loop not in LOOPS:
        expected = f"one of {', '.join((*LOOPS, *OTHER_NAMES))}"
        raise InputError(f"{name!r} is no loop of a layer", place="loop_dims", expected=expected)
    return loop


@dataclass(frozen=True, slots=True)
class Equation:
    """The loops along which each operand has other elements, in capitals, as the file calls them.

    `weight` is empty where one operand is read. By their names the precisions of what is read are stated.
    """

    output: frozenset[str]
    input: frozenset[str]
    weight: frozenset[str]
    input_name: str
    weight_name: str

    @classmethod
    def of_text(cls, text: str) -> Equation:
        """Read one or two operands; that called I is the input, else the last. Raises InputError for what is none."""
        plain = text.replace(" ", "")
        if fullmatch(rf"{OPERAND}\+?={OPERAND}(?:[*+]{OPERAND})?", plain) is None:
            raise InputError(f"it is {text!r}", place="equation", expected=EXPECTED)
        (_, output), *read = findall(OPERAND, plain)
        *others, (input_name, of_input) = sorted(read, key=lambda named: named[0] == "I")
        weight_name, of_weight = others[0] if others else ("", "")
        return cls(_loops(output), _loops(of_input), _loops(of_weight), input_name, weight_name)

    @property
    def is_of_elements(self) -> bool:
        """Whether it is no convolution: two operands meet along loops that lead to no other weight of one."""
        loops = {OTHER_NAMES.get(loop, loop) for loop in self.weight}
        return bool(self.weight) and not loops <= set(RELEVANT[WEIGHT])

    def product(self, sizes: Mapping[str, int]) -> Layer:
        """The layer of two operands without windows, of loops of any names; raises InputError where it is none."""
        axes = [
            MetAxis(size, loop in self.input, loop in self.weight, loop in self.output) for loop, size in sizes.items()
        ]
        try:
            return contraction(axes)
        except NoLayerError as error:
            raise InputError(f"of its loops {error}", place="equation", expected=EXPECTED) from None


def _loops(indices: str) -> frozenset[str]:
    return frozenset(findall(r"\w+", indices.upper()))
