"""Vela's allocation, as it prints it, held against the rules of a packing and the network. Nothing is searched."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from onchip.answer.packing import Buffer
from onchip.api.check_request import AnswerCheck
from onchip.api.pack import PlacedBuffers, Rule, Violation
from onchip.api.phases import phase
from onchip.api.target import Target
from onchip.errors import InputError, UsageError, errors_in_file
from onchip.formats.files import read_file
from onchip.formats.networks import read_tflite_network
from onchip.formats.tflite.arena import arena_size_bytes
from onchip.formats.tflite.network import FlatNetwork

ALIGNMENT_BYTES: Final = 16
"""Alignment of all tensors in Vela."""
_AREA: Final = re.compile(r"Allocation, memory (\w+), usage mask: (.*)|Tensor Allocation for (.*):")
_ROW: Final = re.compile(
    r"\s*(\d+) -\s*(\d+):\s*0x([0-9a-f]+) -\s*0x([0-9a-f]+):\s*(\d+):\s*(\d+):\s*(\w+)\s*: (.*)", re.ASCII
)
_PEAK: Final = re.compile(r"Allocation Peak Tensor Size:\s*(\d+) bytes.*")
_COLUMNS: Final = "Start Time - End Time"
_EXPECTED: Final = "what vela --verbose-allocation prints"
_GREATEST_DIGITS: Final = 15

_LIVES: Final = "when each tensor is needed, which Vela's scheduler decides and the file says"


@phase("verifying")
def check_vela_allocation(file: Path, network: str, target: Target) -> AnswerCheck | None:
    """Verify that no two buffers that are live at once share bytes, and that each peak equals the stated one.

    Inputs and outputs of the network that the allocation lists must be there whole. Returns None for another kind of
    file. Raises InputError if the file cannot be read, UsageError if `target` states a memory.
    """
    text = read_file(file).decode(errors="replace")
    if not any(_AREA.fullmatch(line) for line in text.splitlines()):
        return None
    if target != Target():
        what = "Vela's allocation says its own memories"
        raise UsageError(what, place="target, alignment_bytes", expected="nothing")
    with errors_in_file(str(file)):
        areas = [_area(table) for table in _tables(text)]
    read = read_tflite_network(Path(network))
    sizes = _sizes(areas)
    violations = [one for area in areas for one in area.violations(area.end_bytes, ALIGNMENT_BYTES, area.peak_bytes)]
    violations += _cut_short(sizes, read.network)
    ends = dict.fromkeys((*read.network.inputs, *read.network.outputs))
    missing = [
        read.network.tensors[index].name for index in ends if read.network.tensors[index].stated.name not in sizes
    ]
    not_checked = [f"where {name!r} lies, which it does not list under that name" for name in missing]
    figures = [area.figures() for area in areas]
    return AnswerCheck("Vela allocation", read.graph.name, "", violations, figures, (), [*not_checked, _LIVES])


def _sizes(areas: Sequence[VelaArea]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for area in areas:
        for names, buffer in zip(area.names, area.buffers, strict=True):
            sizes |= {name: max(buffer.size_bytes, sizes.get(name, 0)) for name in names}
    return sizes


def _cut_short(sizes: Mapping[str, int], network: FlatNetwork) -> Iterator[Violation]:
    """Yield a violation for each network input and output that is listed with too few bytes."""
    ends = ((Rule.OPERAND_NOT_RESIDENT, network.inputs), (Rule.OUTPUT_NOT_RESIDENT, network.outputs))
    for rule, indices in ends:
        for index in dict.fromkeys(indices):
            tensor = network.tensors[index]
            wanted = arena_size_bytes(tensor)
            if (found := sizes.get(tensor.stated.name, wanted)) < wanted:
                yield Violation(rule, tensor.name, f"it has {found} bytes of {wanted}")


@dataclass(frozen=True, slots=True)
class VelaArea(PlacedBuffers):
    """The table of a memory: buffers in bytes over Vela's time steps, each with its offset and its names.

    `peak_bytes` is the peak that Vela states. Times include both ends; tensors with the same bytes at the same times
    are one buffer with several names.
    """

    peak_bytes: int


@dataclass(slots=True)
class _Table:
    name: str
    line: int
    buffers: dict[tuple[Buffer, int], list[str]] = field(default_factory=dict)
    peak_bytes: int | None = None


def _tables(text: str) -> list[_Table]:
    tables: list[_Table] = []
    is_open = False
    for number, line in enumerate(text.splitlines(), start=1):
        if (area := _AREA.fullmatch(line)) is not None:
            tables.append(_Table(_name(area, tables), number))
            is_open = True
        elif not is_open:
            continue
        elif (peak := _PEAK.fullmatch(line)) is not None:
            tables[-1].peak_bytes = int(peak[1][:_GREATEST_DIGITS])
            is_open = False
        elif not line.startswith(_COLUMNS):
            buffer, offset, name = _row(line, number)
            tables[-1].buffers.setdefault((buffer, offset), []).append(name)
    return tables


def _name(area: re.Match[str], before: list[_Table]) -> str:
    """Return the memory and its contents, with a number if another table has the same name."""
    name = area[3] or f"{area[1]} ({area[2]})"
    alike = sum(table.name == name or table.name.startswith(f"{name} #") for table in before)
    return f"{name} #{alike + 1}" if alike else name


def _row(line: str, number: int) -> tuple[Buffer, int, str]:
    row = _ROW.fullmatch(line)
    if row is None or any(len(row[at]) > _GREATEST_DIGITS for at in range(1, 7)):
        raise InputError("it is no row of the table it stands in", place=f"line {number}", expected=_EXPECTED)
    start, stop, size = int(row[1]), int(row[2]), int(row[5])
    offset, end = int(row[3], 16), int(row[4], 16)
    if end - offset != size or stop < start or size == 0:
        what = f"{size} bytes over [{start}, {stop}] do not lie at {offset} to {end}"
        raise InputError(what, place=f"line {number}", expected="as many bytes as the addresses span")
    return Buffer(start, stop + 1, size), offset, row[8]


def _area(table: _Table) -> VelaArea:
    if table.peak_bytes is None:
        raise InputError("its table breaks off", place=f"line {table.line}", expected=_EXPECTED)
    places = list(table.buffers)
    return VelaArea(
        table.name,
        tuple(buffer for buffer, _ in places),
        tuple(offset for _, offset in places),
        tuple(map(tuple, table.buffers.values())),
        table.peak_bytes,
    )
