"""The hardware file of ZigZag (zigzag-dse 3.9.1) as an Accelerator; `zigzag_layers` reads its other two files."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NotRequired

from typing_extensions import TypedDict

from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import DRAM, Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.errors import AcceleratorError, NetworkWarning, errors_in_file
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
    """The array of MACs; one that computes in memory leaves out `unit_energy`, which its own model tells in ZigZag."""

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
    Warns with NetworkWarning of what is read otherwise than by ZigZag.
    """
    (fields,) = read_fields(HardwareFields, HARDWARE, text, file)
    remarks: list[str] = []
    with errors_in_file(file):
        *levels, outermost = [_level(name, entry, remarks) for name, entry in fields["memories"].items()]
        array = fields["operational_array"]
        if len(array["dimensions"]) != len(array["sizes"]):
            detail = f"{len(array['dimensions'])} dimensions have {len(array['sizes'])} sizes"
            raise AcceleratorError(detail, place="operational_array", expected="one size each")
        _check_outermost(outermost, levels)
        compute = ComputeArray(
            dict(zip(array["dimensions"], array["sizes"], strict=True)), mac_energy_pj=array.get("unit_energy")
        )
        marked = tuple(_marked(levels))
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


def _level(name: str, fields: ZigzagMemoryFields, remarks: list[str]) -> MemoryLevel:
    place = f"memory {name!r}"
    if fields["size"] < 8:
        raise AcceleratorError(f"size is {fields['size']} bits", place=place, expected="at least a byte")
    if bits := fields["size"] % 8:
        remarks.append(f"{place} is read as {fields['size'] // 8} whole bytes, {bits} bits less than it has")
    if not fields["ports"]:
        raise AcceleratorError("it has no ports", place=place, expected="ports of its operands")
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
    """Return the ports, those towards the MACs first; ports that serve one way are one, as wide as all together."""
    groups: dict[str, list[str]] = {way: [] for way in TOWARDS}
    for port in fields["ports"]:
        for allocated in port["allocation"]:
            way = allocated.partition(",")[2].strip()
            if way not in TOWARDS:
                detail = f"{allocated!r} of port {port['name']!r}"
                raise AcceleratorError(detail, place=place, expected=f"one of {', '.join(TOWARDS)} for an operand")
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
