"""Hardware and workload files of ZigZag (zigzag-dse 3.9.1)."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from re import findall, fullmatch
from typing import Final, Literal, NotRequired, TypeVar

from typing_extensions import TypedDict

from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import DRAM, Access, Direction, Dram, Memory, MemoryLevel, Operand, Port, with_scratchpad
from onchip.errors import AcceleratorError, InputError, NetworkWarning, errors_in_file
from onchip.formats.files import read_file
from onchip.formats.validation import Format, validate
from onchip.formats.yaml_documents import Dialect, parse_yaml
from onchip.ir.layer import LOOPS, OTHER_NAMES, RELEVANT, WEIGHT, Layer
from onchip.ops.contractions import MetAxis, contraction
from onchip.ops.windows import NoLayerError

ZIGZAG: Final = Dialect(repeated_fields=True)
ShapeT = TypeVar("ShapeT", bound=Hashable)


def read_fields(shape: type[ShapeT], file_format: Format, text: str | bytes, file: str) -> Iterator[ShapeT]:
    """Yield the entries of a list, or the single mapping; raises the format's error with field and line.

    The last of several fields with one name counts, as in ZigZag.
    """
    document = parse_yaml(text, file_format, file, ZIGZAG)
    entries = document.value if isinstance(document.value, list) else [document.value]
    for at, entry in enumerate(entries):
        try:
            yield validate(shape, entry, file_format, file)
        except InputError as error:
            place = error.place or ""
            error.place = document.place(f"[{at}].{place}" if entries is document.value else place)
            raise


HARDWARE: Final = Format("ZigZag hardware", 3, AcceleratorError)
OPERANDS: Final = {"I1": Operand.INPUT, "I2": Operand.WEIGHT, "O": Operand.OUTPUT}
TOWARDS: Final = ("tl", "th", "fl", "fh")
"""Directions of an operand through a port: to or from the memory below (l) or above (h), in the order of the ports."""


class ZigzagPortFields(TypedDict):
    """A port, and the directions in which operands pass it: `I1, tl`."""

    name: str
    type: Literal["read", "write", "read_write"]
    bandwidth_min: int
    bandwidth_max: int
    allocation: list[str]


class ZigzagMemoryFields(TypedDict):
    """A memory: size in bits, energy in pJ of an access as wide as its ports."""

    size: int
    r_cost: float
    w_cost: float
    area: NotRequired[float | None]
    latency: int
    mem_type: NotRequired[str]
    auto_cost_extraction: NotRequired[Literal[False]]
    operands: list[Literal["I1", "I2", "O"]]
    ports: list[ZigzagPortFields]
    served_dimensions: list[str]
    force_double_buffering: NotRequired[bool]


class ZigzagArrayFields(TypedDict):
    """The array of MACs; an array that computes in memory has no `unit_energy`, since ZigZag models it."""

    dimensions: list[str]
    sizes: list[int]
    unit_energy: NotRequired[float]
    unit_area: NotRequired[float]
    input_precision: NotRequired[list[int]]
    is_imc: NotRequired[bool]
    imc_type: NotRequired[str | None]
    adc_resolution: NotRequired[int]
    bit_serial_precision: NotRequired[int]
    systolic_dimensions: NotRequired[list[str]]


class HardwareFields(TypedDict):
    """A hardware file; its memories are in order from the MACs outwards, and the last is DRAM."""

    name: str
    memories: dict[str, ZigzagMemoryFields]
    operational_array: ZigzagArrayFields
    dataflows: NotRequired[dict[str, list[str]]]


@dataclass(frozen=True, slots=True)
class ZigzagHardware:
    """An accelerator, and the array dimensions along which results leave at one unit per cycle."""

    accelerator: Accelerator
    systolic: tuple[str, ...] = ()


def read_zigzag_hardware(path: Path) -> ZigzagHardware:
    """Read a hardware file; raises InputError with line and field."""
    return zigzag_hardware(read_file(path), str(path))


def zigzag_hardware(text: str | bytes, file: str) -> ZigzagHardware:
    """Read the hardware in `text`; `file` is its name in errors. Raises AcceleratorError, InputError.

    The last memory is DRAM. The scratchpad is the outermost other memory that holds inputs, or the outermost one. Warns
    with NetworkWarning of differences from ZigZag's interpretation.
    """
    (fields,) = read_fields(HardwareFields, HARDWARE, text, file)
    remarks: list[str] = []
    with errors_in_file(file):
        *levels, outermost = [_level(name, entry, remarks) for name, entry in fields["memories"].items()]
        array = fields["operational_array"]
        if len(array["dimensions"]) != len(array["sizes"]):
            detail = f"{len(array['dimensions'])} dimensions have {len(array['sizes'])} sizes"
            raise AcceleratorError(detail, "operational_array", "one size each")
        if set(outermost.memory.holds) != set(Operand) or not levels:
            detail = f"the outermost memory holds {', '.join(outermost.memory.holds)}"
            expected = "all operands, as DRAM does, with a memory before it"
            raise AcceleratorError(detail, f"memory {outermost.memory.name!r}", expected)
        compute = ComputeArray(
            dict(zip(array["dimensions"], array["sizes"], strict=True)), mac_energy_pj=array.get("unit_energy")
        )
        marked = with_scratchpad(levels)
        scratchpads = tuple(level.memory for level in marked if level.is_scratchpad)
        dram = Dram(outermost.access, outermost.ports)
        accelerator = Accelerator(fields["name"], scratchpads, marked, None, compute, dram)
    if array.get("is_imc", False):
        remarks.append("its array computes in memory: each multiply-accumulate is counted as one cycle")
    if DRAM not in outermost.memory.name.lower() and outermost.memory.name != "outermost":
        remarks.append(f"{outermost.memory.name}, the outermost memory, is read as a DRAM that holds everything")
    for remark in remarks:
        warnings.warn(f"{file}: {remark}", NetworkWarning, stacklevel=2)
    return ZigzagHardware(accelerator, tuple(array.get("systolic_dimensions", ())))


def _level(name: str, fields: ZigzagMemoryFields, remarks: list[str]) -> MemoryLevel:
    place = f"memory {name!r}"
    if fields["size"] < 8:
        raise AcceleratorError(f"size is {fields['size']} bits", place, "at least a byte")
    if bits := fields["size"] % 8:
        remarks.append(f"{place} is read as {fields['size'] // 8} whole bytes, {bits} bits less than it has")
    if not fields["ports"]:
        raise AcceleratorError("it has no ports", place, "ports of its operands")
    holds = tuple(OPERANDS[operand] for operand in fields["operands"])
    memory = Memory(name if name != DRAM else "outermost", fields["size"] // 8, holds=holds)
    widths = sorted({port["bandwidth_max"] for port in fields["ports"]})
    if len(widths) > 1:
        remarks.append(
            f"an access to {place} moves {widths[0]} bits, as its narrowest port, of {', '.join(map(str, widths))}"
        )
    access = Access(
        widths[0], fields["r_cost"], fields["w_cost"], min(port["bandwidth_min"] for port in fields["ports"])
    )
    doubled = fields.get("force_double_buffering", False)
    ports = _ports(place, fields, remarks)
    return MemoryLevel(memory, tuple(fields["served_dimensions"]), False, doubled, access, ports)


def _ports(place: str, fields: ZigzagMemoryFields, remarks: list[str]) -> tuple[Port, ...]:
    """Return the ports, those towards the MACs first; ports of one direction become one of their total width."""
    groups: dict[str, list[str]] = {way: [] for way in TOWARDS}
    for port in fields["ports"]:
        for allocated in port["allocation"]:
            way = allocated.partition(",")[2].strip()
            if way not in TOWARDS:
                detail = f"{allocated!r} of port {port['name']!r}"
                raise AcceleratorError(detail, place, f"one of {', '.join(TOWARDS)} for an operand")
            groups[way].append(port["name"])
    by_name = {port["name"]: port for port in fields["ports"]}
    found = []
    for names in _joined(groups.values()):
        kinds = {by_name[name]["type"] for name in names}
        direction = Direction(kinds.pop()) if len(kinds) == 1 else Direction.READ_WRITE
        found.append(Port(direction, sum(by_name[name]["bandwidth_max"] for name in names)))
        if len(names) > 1:
            remarks.append(f"ports {', '.join(names)} of {place} are read as one, as wide as all together")
    return tuple(found)


def _joined(groups: Iterable[Iterable[str]]) -> list[list[str]]:
    """Join groups that share a name, in the order of the first of each."""
    joined: list[list[str]] = []
    for group in groups:
        names = list(dict.fromkeys(group))
        met = [one for one in joined if set(one) & set(names)]
        if met:
            met[0].extend(name for one in (*met[1:], names) for name in one if name not in met[0])
            joined = [one for one in joined if one not in met[1:]]
        elif names:
            joined.append(names)
    return joined


OPERAND = r"(\w+)((?:\[\w+\])+)"
EXPECTED = "like O[b][k][oy][ox]+=W[k][c][fy][fx]*I[b][c][iy][ix]"

WORKLOAD: Final = Format("ZigZag workload", 3, InputError)


class ZigzagLayerFields(TypedDict):
    """A layer; `dimension_relations` are like `ix=2*ox+1*fx`, `padding` belongs to each of `pr_loop_dims`."""

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


def zigzag_workload(text: str | bytes, file: str) -> tuple[ZigzagLayer, ...]:
    """Read the layers in `text`; `file` is its name in errors. Raises InputError."""
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
        raise InputError(detail, "loop_sizes", "one size each")
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
            raise InputError(f"padding of {position} is {sides}", "padding", "two sizes for an axis")
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
    """Return position, output loop, stride and dilation; raises InputError."""
    match = fullmatch(r"(\w+)=(?:(\d+)\*)?(\w+)\+(?:(\d+)\*)?(\w+)", text.replace(" ", "").upper())
    loops = (_loop(match[3]), _loop(match[5])) if match else ("", "")
    if match is None or loops not in (("P", "R"), ("Q", "S")):
        raise InputError(f"it is {text!r}", "dimension_relations", "like ix=2*ox+1*fx")
    return match[1], loops[0], int(match[2] or 1), int(match[4] or 1)


def _loop(name: str) -> str:
    loop = OTHER_NAMES.get(name.upper(), name.upper())
    if loop not in LOOPS:
        raise InputError(f"{name!r} is no loop of a layer", "loop_dims", f"one of {', '.join((*LOOPS, *OTHER_NAMES))}")
    return loop


@dataclass(frozen=True, slots=True)
class Equation:
    """The loops that index each operand, in capitals, with the file's names.

    `weight` is empty if only one operand is read. The names of the operands lead to their precisions.
    """

    output: frozenset[str]
    input: frozenset[str]
    weight: frozenset[str]
    input_name: str
    weight_name: str

    @classmethod
    def of_text(cls, text: str) -> Equation:
        """Read one or two operands; operand I, or else the last, is the input. Raises InputError for malformed text."""
        plain = text.replace(" ", "")
        if fullmatch(rf"{OPERAND}\+?={OPERAND}(?:[*+]{OPERAND})?", plain) is None:
            raise InputError(f"it is {text!r}", "equation", EXPECTED)
        (_, output), *read = findall(OPERAND, plain)
        *others, (input_name, of_input) = sorted(read, key=lambda named: named[0] == "I")
        weight_name, of_weight = others[0] if others else ("", "")
        return cls(_loops(output), _loops(of_input), _loops(of_weight), input_name, weight_name)

    @property
    def is_of_elements(self) -> bool:
        """True for a product without windows, whose weight is indexed by other loops than a convolution's weight."""
        loops = {OTHER_NAMES.get(loop, loop) for loop in self.weight}
        return bool(self.weight) and not loops <= set(RELEVANT[WEIGHT])

    def product(self, sizes: Mapping[str, int]) -> Layer:
        """Return the layer of two operands without windows, for loops of any names; raises InputError."""
        axes = [
            MetAxis(size, loop in self.input, loop in self.weight, loop in self.output) for loop, size in sizes.items()
        ]
        try:
            return contraction(axes)
        except NoLayerError as error:
            raise InputError(f"of its loops {error}", "equation", EXPECTED) from None


def _loops(indices: str) -> frozenset[str]:
    return frozenset(findall(r"\w+", indices.upper()))
