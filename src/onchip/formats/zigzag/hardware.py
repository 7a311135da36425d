"""The hardware file of ZigZag (zigzag-dse 3.9.1) as an Accelerator; `zigzag_layers` reads its other two files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NotRequired

from typing_extensions import TypedDict

from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import DRAM, Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.errors import AcceleratorError, InputError
from onchip.formats.files import read_file
from onchip.formats.validation import Format
from onchip.formats.zigzag.fields import read_fields

HARDWARE: Final = Format("ZigZag hardware", 3, AcceleratorError)
OPERANDS: Final = {"I1": Operand.INPUT, "I2": Operand.WEIGHT, "O": Operand.OUTPUT}
TOWARDS: Final = ("tl", "th", "fl", "fh")
"""Ways of an operand through a port: to or from the memory below (l) or above (h); in this order ports are listed."""


class ZigzagPortFields(TypedDict):
    """A port and which operand goes which way through it: `I1, tl`."""

    name: str
    type: Literal["read", "write", "read_write"]
    bandwidth_min: int
    bandwidth_max: int
    allocation: list[str]


class ZigzagMemoryFields(TypedDict):
    """A memory: size in bits, cost in pJ of a word as wide as its ports."""

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
    """The array of MACs; those that compute in memory are not read."""

    dimensions: list[str]
    sizes: list[int]
    unit_energy: float
    unit_area: NotRequired[float]
    input_precision: NotRequired[list[int]]
    is_imc: NotRequired[Literal[False]]
    systolic_dimensions: NotRequired[list[str]]


class HardwareFields(TypedDict):
    """The file; its memories stand nearest the MACs first, the last of them is DRAM."""

    name: str
    memories: dict[str, ZigzagMemoryFields]
    operational_array: ZigzagArrayFields
    dataflows: NotRequired[dict[str, list[str]]]


@dataclass(frozen=True, slots=True)
class ZigzagHardware:
    """An accelerator, and the dimensions of its array that results leave one unit a cycle."""

    accelerator: Accelerator
    systolic: tuple[str, ...] = ()


def read_zigzag_hardware(path: Path) -> ZigzagHardware:
    """What a hardware file says; raises InputError with line and field."""
    return zigzag_hardware(read_file(path), str(path))


def zigzag_hardware(text: str | bytes, file: str) -> ZigzagHardware:
    """What `text` says; `file` is its name in errors. Raises AcceleratorError, InputError.

    The last memory is DRAM. Software addresses the scratchpad: of the others the last that holds inputs, or the last.
    """
    (fields,) = read_fields(HardwareFields, HARDWARE, text, file)
    try:
        *levels, outermost = [_level(name, entry) for name, entry in fields["memories"].items()]
        array = fields["operational_array"]
        if len(array["dimensions"]) != len(array["sizes"]):
            detail = f"{len(array['dimensions'])} dimensions have {len(array['sizes'])} sizes"
            raise AcceleratorError(detail, place="operational_array", expected="one size each")
        _check_outermost(outermost, levels)
        compute = ComputeArray(
            dict(zip(array["dimensions"], array["sizes"], strict=True)), mac_energy_pj=array["unit_energy"]
        )
        marked = tuple(_marked(levels))
        scratchpads = tuple(level.memory for level in marked if level.is_scratchpad)
        dram = Dram(outermost.access, outermost.ports)
        accelerator = Accelerator(fields["name"], scratchpads, marked, None, compute, dram)
    except InputError as error:
        raise error.in_file(file) from None
    return ZigzagHardware(accelerator, tuple(array.get("systolic_dimensions", ())))


def _check_outermost(outermost: MemoryLevel, levels: list[MemoryLevel]) -> None:
    if set(outermost.memory.holds) != set(Operand) or not levels:
        detail = f"the outermost memory holds {', '.join(outermost.memory.holds)}"
        expected = "all operands, as DRAM does, with a memory before it"
        raise AcceleratorError(detail, place=f"memory {outermost.memory.name!r}", expected=expected)


def _marked(levels: list[MemoryLevel]) -> Iterable[MemoryLevel]:
    """With the scratchpad marked as such."""
    of_inputs = [at for at, level in enumerate(levels) if Operand.INPUT in level.memory.holds]
    chosen = of_inputs[-1] if of_inputs else len(levels) - 1
    for at, level in enumerate(levels):
        yield MemoryLevel(level.memory, level.serves, at == chosen, level.double_buffered, level.access, level.ports)


def _level(name: str, fields: ZigzagMemoryFields) -> MemoryLevel:
    place = f"memory {name!r}"
    if fields["size"] % 8 or fields["size"] < 8:
        raise AcceleratorError(f"size is {fields['size']} bits", place=place, expected="whole bytes")
    holds = tuple(OPERANDS[operand] for operand in fields["operands"])
    memory = Memory(name if name != DRAM else "outermost", fields["size"] // 8, holds=holds)
    bits = {port["bandwidth_max"] for port in fields["ports"]}
    shortest = {port["bandwidth_min"] for port in fields["ports"]}
    if len(bits) != 1 or len(shortest) != 1:
        detail = f"its ports are {sorted(bits)} wide, at least {sorted(shortest)}"
        raise AcceleratorError(detail, place=place, expected="ports of one width")
    access = Access(bits.pop(), fields["r_cost"], fields["w_cost"], shortest.pop())
    doubled = fields.get("force_double_buffering", False)
    return MemoryLevel(memory, tuple(fields["served_dimensions"]), False, doubled, access, _ports(place, fields))


def _ports(place: str, fields: ZigzagMemoryFields) -> tuple[Port, ...]:
    """In an order that puts those towards the MACs first; raises where operands do not share ports by direction."""
    used: dict[str, str] = {}
    for port in fields["ports"]:
        for allocated in port["allocation"]:
            way = allocated.partition(",")[2].strip()
            if way not in TOWARDS or used.setdefault(way, port["name"]) != port["name"]:
                detail = f"{allocated!r} of port {port['name']!r}"
                raise AcceleratorError(detail, place=place, expected="for each of tl, th, fl, fh one port")
    by_name = {port["name"]: port for port in fields["ports"]}
    ordered = dict.fromkeys(used[way] for way in TOWARDS if way in used)
    ports = [by_name[name] for name in ordered]
    return tuple(Port(Direction(port["type"]), port["bandwidth_max"]) for port in ports)
