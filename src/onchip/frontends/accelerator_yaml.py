"""The accelerator file: a chip's array and memories as YAML, one format for every level of detail."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from re import fullmatch
from typing import Final, Literal, NotRequired

from typing_extensions import TypedDict

from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dma, Dram, Link, Memory, MemoryLevel, Operand, Port
from onchip.errors import AcceleratorError, InputError
from onchip.frontends.canonical import canonical_sha256
from onchip.frontends.files import read_file
from onchip.frontends.sizes import format_size, parse_size
from onchip.frontends.validation import Format, as_utf8, check_format, field_path, placed, validate
from onchip.frontends.yaml_nodes import parse_yaml

ACCELERATOR_FORMAT: Final = Format("onchip-accelerator", 1, AcceleratorError)


class ArrayFields(TypedDict):
    """The MACs: `dimensions` where the unrolling is fixed, `free` where the mapper may choose.

    A dimension named for no loop unrolls any, or those that `unrolls` lists for it.
    """

    dimensions: NotRequired[dict[str, int]]
    unrolls: NotRequired[dict[str, list[str]]]
    free: NotRequired[int]
    mac_energy_pj: NotRequired[float]


class PortFields(TypedDict):
    """A port."""

    direction: Direction
    bits_per_cycle: int


class AccessFields(TypedDict, total=False):
    """What an access costs: the first three fields stand together or not at all."""

    access_bits: int
    shortest_access_bits: int
    read_energy_pj: float
    write_energy_pj: float
    ports: list[PortFields]


class MemoryFields(AccessFields):
    """A memory; sizes are bytes, or text with a unit such as `64KiB`."""

    name: str
    capacity: int | str
    scratchpad: NotRequired[bool]
    alignment: NotRequired[int | str]
    holds: NotRequired[list[Operand]]
    serves: NotRequired[list[str]]
    double_buffered: NotRequired[bool]


class DmaFields(TypedDict, total=False):
    """The engine that moves tensors beside the computation."""

    queues: int
    setup_cycles: int


class LinkFields(TypedDict):
    """A way from one scratchpad to another beside DRAM."""

    source: str
    target: str
    bits_per_cycle: NotRequired[int]


class AcceleratorFields(TypedDict):
    """An accelerator file; the memories stand nearest the MACs first."""

    format: Literal["onchip-accelerator"]
    version: Literal[1]
    name: str
    clock_mhz: NotRequired[float]
    array: NotRequired[ArrayFields]
    memories: list[MemoryFields]
    dram: NotRequired[AccessFields]
    dma: NotRequired[DmaFields]
    links: NotRequired[list[LinkFields]]


def bundled_accelerators() -> tuple[str, ...]:
    """The names of the accelerators that come with onchip, sorted."""
    entries = files("onchip.arch").joinpath("presets").iterdir()
    return tuple(sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml")))


def load_accelerator(name_or_path: str) -> Accelerator:
    """A bundled accelerator by its name, or that of a file; raises InputError.

    `NAME@64KiB` is a bundled one each of whose scratchpads has that capacity.
    """
    name, _, size = name_or_path.partition("@")
    if size and name in bundled_accelerators():
        return _resized(load_accelerator(name), size)
    if name_or_path in bundled_accelerators():
        entry = files("onchip.arch").joinpath("presets").joinpath(f"{name_or_path}.yaml")
        return accelerator_from_yaml(entry.read_bytes(), entry.name)
    if not name_or_path.endswith((".yaml", ".yml")) and not Path(name_or_path).exists():
        raise InputError(
            f"no accelerator is called {name_or_path!r}",
            expected=f"a .yaml file or one of {', '.join(bundled_accelerators())}",
        )
    return read_accelerator(Path(name_or_path))


def _resized(accelerator: Accelerator, size: str) -> Accelerator:
    capacity_bytes = _size(size, f"--accelerator {accelerator.name}@")
    levels = tuple(
        replace(level, memory=replace(level.memory, capacity_bytes=capacity_bytes)) if level.is_scratchpad else level
        for level in accelerator.levels
    )
    scratchpads = tuple(level.memory for level in levels if level.is_scratchpad)
    return replace(accelerator, name=f"{accelerator.name}@{size}", scratchpads=scratchpads, levels=levels)


def read_accelerator(path: Path) -> Accelerator:
    """What an accelerator file says; raises InputError."""
    return accelerator_from_yaml(read_file(path), str(path))


def accelerator_from_yaml(text: str | bytes, file: str) -> Accelerator:
    """What `text` says; `file` is its name in errors. Raises InputError with line and field."""
    encoded = as_utf8(text, ACCELERATOR_FORMAT, file)
    document = parse_yaml(encoded.decode(), ACCELERATOR_FORMAT, file)
    try:
        check_format(document.value, ACCELERATOR_FORMAT, file)
        fields = validate(AcceleratorFields, json.dumps(document.value).encode(), ACCELERATOR_FORMAT, file)
        array = _array(fields["array"]) if "array" in fields else None
        levels = tuple(_level(entry, field_path(("memories", i))) for i, entry in enumerate(fields["memories"]))
        dram = _dram(fields["dram"]) if "dram" in fields else None
        dma = Dma(**fields["dma"]) if "dma" in fields else None
        links = tuple(_link(entry, field_path(("links", i))) for i, entry in enumerate(fields.get("links", ())))
    except InputError as error:
        error.place = document.place(error.place or "")
        raise error.in_file(file) from None
    scratchpads = tuple(level.memory for level in levels if level.is_scratchpad)
    try:
        return Accelerator(fields["name"], scratchpads, levels, fields.get("clock_mhz"), array, dram, dma, links)
    except InputError as error:
        raise error.in_file(file) from None


def accelerator_to_yaml(accelerator: Accelerator) -> str:
    """The accelerator file's text: one line for each memory."""
    lines = []
    for name, value in _accelerator_fields(accelerator).items():
        if name == "memories" and isinstance(value, list):
            lines.append("memories:")
            lines.extend(f"  - {_flow(_with_units(entry))}" for entry in value)
        else:
            lines.append(f"{name}: {_flow(value)}")
    return "\n".join(lines) + "\n"


def accelerator_sha256(accelerator: Accelerator) -> str:
    """SHA-256 of the accelerator's canonical JSON (sizes in bytes, what is absent left out)."""
    return canonical_sha256(_accelerator_fields(accelerator), AcceleratorError)


def _array(fields: ArrayFields) -> ComputeArray:
    unrolls = {name: tuple(loops) for name, loops in fields.get("unrolls", {}).items()}
    return ComputeArray(fields.get("dimensions", {}), fields.get("free"), fields.get("mac_energy_pj"), unrolls)


def _dram(fields: AccessFields) -> Dram:
    try:
        return Dram(_access(fields), _ports(fields))
    except InputError as error:
        raise placed(error, "dram") from None


def _level(fields: MemoryFields, place: str) -> MemoryLevel:
    capacity_bytes = _size(fields["capacity"], f"{place}.capacity")
    alignment_bytes = _size(fields.get("alignment", 1), f"{place}.alignment")
    try:
        return MemoryLevel(
            Memory(fields["name"], capacity_bytes, alignment_bytes, tuple(fields.get("holds", Operand))),
            tuple(fields["serves"]) if "serves" in fields else None,
            fields.get("scratchpad", False),
            fields.get("double_buffered", False),
            _access(fields),
            _ports(fields),
        )
    except InputError as error:
        raise placed(error, place) from None


def _link(fields: LinkFields, place: str) -> Link:
    try:
        return Link(**fields)
    except InputError as error:
        raise placed(error, place) from None


def _size(size: int | str, place: str) -> int:
    try:
        return parse_size(str(size))
    except InputError as error:
        raise AcceleratorError(error.what, place=place, expected=error.expected) from None


def _access(fields: AccessFields | MemoryFields) -> Access | None:
    needed = {"access_bits", "read_energy_pj", "write_energy_pj"}
    if needed <= fields.keys():
        energies = fields["read_energy_pj"], fields["write_energy_pj"]
        return Access(fields["access_bits"], *energies, fields.get("shortest_access_bits"))
    if given := sorted((needed | {"shortest_access_bits"}) & fields.keys()):
        raise AcceleratorError(
            f"it has {' and '.join(given)} alone", expected="access_bits, read_energy_pj and write_energy_pj together"
        )
    return None


def _ports(fields: AccessFields | MemoryFields) -> tuple[Port, ...]:
    return tuple(Port(port["direction"], port["bits_per_cycle"]) for port in fields.get("ports", ()))


def _accelerator_fields(accelerator: Accelerator) -> dict[str, object]:
    array, dram, dma = accelerator.array, accelerator.dram, accelerator.dma
    fields: dict[str, object] = {
        "format": ACCELERATOR_FORMAT.name,
        "version": ACCELERATOR_FORMAT.version,
        "name": accelerator.name,
        "clock_mhz": _real(accelerator.clock_mhz),
        "array": array and _array_fields(array),
        "memories": [_level_fields(level) for level in accelerator.levels],
        "dram": dram and _present(_access_fields(dram.access, dram.ports)),
        "dma": dma and {"queues": dma.queues, "setup_cycles": dma.setup_cycles},
        "links": [_link_fields(link) for link in accelerator.links] or None,
    }
    return _present(fields)


def _array_fields(array: ComputeArray) -> dict[str, object]:
    dimensions = dict(array.dimensions) or None
    unrolls = {name: [*loops] for name, loops in array.unrolls.items()} or None
    energy = _real(array.mac_energy_pj)
    return _present({"dimensions": dimensions, "unrolls": unrolls, "free": array.free, "mac_energy_pj": energy})


def _level_fields(level: MemoryLevel) -> dict[str, object]:
    holds = [*level.memory.holds] if level.memory.holds != tuple(Operand) else None
    alignment_bytes = level.memory.alignment_bytes
    fields: dict[str, object] = {
        "name": level.memory.name,
        "capacity": level.memory.capacity_bytes,
        "scratchpad": level.is_scratchpad or None,
        "alignment": alignment_bytes if alignment_bytes != 1 else None,
        "holds": holds,
        "serves": None if level.serves is None else [*level.serves],
        "double_buffered": level.double_buffered or None,
    }
    return _present(fields | _access_fields(level.access, level.ports))


def _link_fields(link: Link) -> dict[str, object]:
    return _present({"source": link.source, "target": link.target, "bits_per_cycle": link.bits_per_cycle})


def _access_fields(access: Access | None, ports: tuple[Port, ...]) -> dict[str, object]:
    fields: dict[str, object] = {}
    if access is not None:
        fields = {
            "access_bits": access.access_bits,
            "shortest_access_bits": access.shortest_access_bits,
            "read_energy_pj": _real(access.read_energy_pj),
            "write_energy_pj": _real(access.write_energy_pj),
        }
    return fields | {"ports": [{"direction": p.direction, "bits_per_cycle": p.bits_per_cycle} for p in ports] or None}


def _real(value: float | None) -> float | None:
    """A float, also of an integer: 200 and 200.0 are the same file."""
    return None if value is None else float(value)


def _present(fields: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}


def _with_units(fields: dict[str, object]) -> dict[str, object]:
    capacity = fields["capacity"]
    return fields | {"capacity": format_size(capacity)} if isinstance(capacity, int) else fields


def _flow(value: object) -> str:
    """YAML on one line; text stands without quotes where nothing else could be meant."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_flow(name)}: {_flow(child)}' for name, child in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(_flow(child) for child in value)}]"
    is_plain = isinstance(value, str) and fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*|[0-9]+(B|KiB|MiB|GiB)", value)
    if is_plain and str(value).lower() not in ("null", "true", "false", "yes", "no", "on", "off", "y", "n"):
        return str(value)
    text = json.dumps(value, ensure_ascii=False)
    return "".join(character if character.isprintable() else f"\\U{ord(character):08X}" for character in text)
