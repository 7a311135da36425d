"""The accelerator file: a chip's array and memories as YAML, one format for every level of detail."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal, NotRequired

from typing_extensions import TypedDict

from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.energy_laws import EnergyLaw, EnergyTable, SquareRootLaw
from onchip.arch.memory import Access, Direction, Dma, Dram, Link, Memory, MemoryLevel, Operand, Port
from onchip.arch.sharing import SharedKinds
from onchip.errors import AcceleratorError, InputError, errors_in_file
from onchip.formats.files import read_file
from onchip.formats.sizes import parse_size
from onchip.formats.validation import Format, check_format, field_path, placed, validate
from onchip.formats.yaml_documents import parse_yaml
from onchip.ir.layer import LOOPS, OTHER_NAMES
from onchip.plugins import PluginGroup

OTHER_ACCELERATORS: Final = PluginGroup[[], Accelerator]("onchip.accelerators", Accelerator)
"""Functions that return accelerators without a file, by name; `host` measures this machine."""
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
    """The fields of a memory's port, in bits a cycle."""

    direction: Direction
    bits_per_cycle: int


class AccessFields(TypedDict, total=False):
    """What an access costs: the first three fields stand together or not at all."""

    access_bits: int
    shortest_access_bits: int
    read_energy_pj: float
    write_energy_pj: float
    ports: list[PortFields]


class LawFields(TypedDict, total=False):
    """The energy of an access in pJ: `base` + `per_sqrt_capacity` * sqrt(bytes), or a table by capacity."""

    base: float
    per_sqrt_capacity: float
    table: dict[str, float]


class LawsFields(LawFields, total=False):
    """A law of reads and writes alike, or one of each."""

    read: LawFields
    write: LawFields


class MemoryFields(AccessFields):
    """A memory; sizes are bytes, or text with a unit such as `64KiB`.

    `energy_per_access` stands in the place of `read_energy_pj` and `write_energy_pj`.
    """

    name: str
    capacity: int | str
    scratchpad: NotRequired[bool]
    alignment: NotRequired[int | str]
    holds: NotRequired[list[Operand]]
    serves: NotRequired[list[str]]
    double_buffered: NotRequired[bool]
    energy_per_access: NotRequired[LawsFields]


class DmaFields(TypedDict, total=False):
    """The engine that moves tensors beside the computation."""

    queues: int
    setup_cycles: int


class LinkFields(TypedDict):
    """A way from one scratchpad to another beside DRAM."""

    source: str
    target: str
    bits_per_cycle: NotRequired[int]


class ShareFields(TypedDict, total=False):
    """The kinds of operators whose kernels compute in place, and that are an alias; `*` is every kind that can be."""

    in_place: list[str]
    alias: list[str]


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
    share: NotRequired[ShareFields]
    notes: NotRequired[list[str]]


def bundled_accelerators() -> tuple[str, ...]:
    """The names of the accelerators that come with onchip, sorted."""
    entries = files("onchip.arch").joinpath("presets").iterdir()
    return tuple(sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml")))


def load_accelerator(name_or_path: str) -> Accelerator:
    """Return a bundled accelerator or a plug-in's by its name, or the accelerator in a file; raises InputError.

    `NAME@64KiB` is a bundled accelerator whose scratchpads have that capacity.
    """
    name, _, size = name_or_path.partition("@")
    if size and name in bundled_accelerators():
        return _resized(load_accelerator(name), size)
    if name_or_path in bundled_accelerators():
        entry = files("onchip.arch").joinpath("presets").joinpath(f"{name_or_path}.yaml")
        return accelerator_from_yaml(entry.read_bytes(), entry.name)
    load = OTHER_ACCELERATORS.find(name_or_path)
    if load is not None:
        return load()
    if not name_or_path.endswith((".yaml", ".yml")) and not Path(name_or_path).exists():
        raise InputError(
            f"no accelerator is called {name_or_path!r}",
            expected=f"a .yaml file or one of {', '.join((*OTHER_ACCELERATORS.names, *bundled_accelerators()))}",
        )
    return read_accelerator(Path(name_or_path))


def _resized(accelerator: Accelerator, size: str) -> Accelerator:
    capacity_bytes = _size(size, f"--accelerator {accelerator.name}@")
    resized = accelerator.resized({memory.name: capacity_bytes for memory in accelerator.scratchpads})
    return replace(resized, name=f"{accelerator.name}@{size}")


def read_accelerator(path: Path) -> Accelerator:
    """What an accelerator file says; raises InputError."""
    return accelerator_from_yaml(read_file(path), str(path))


def accelerator_from_yaml(text: str | bytes, file: str) -> Accelerator:
    """What `text` says; `file` is its name in errors. Raises InputError with line and field."""
    document = parse_yaml(text, ACCELERATOR_FORMAT, file)
    with document.errors_in(file):
        check_format(document.value, ACCELERATOR_FORMAT, file)
        fields = validate(AcceleratorFields, json.dumps(document.value).encode(), ACCELERATOR_FORMAT, file)
        accelerator = _of_parts(fields)
    with errors_in_file(file):
        return accelerator()


def accelerator_of(fields: AcceleratorFields, place: str) -> Accelerator:
    """The accelerator that the fields say, `place` is theirs in their file; raises InputError with the field."""
    try:
        accelerator = _of_parts(fields)
    except InputError as error:
        error.place = f"{place}.{error.place}"
        raise
    try:
        return accelerator()
    except InputError as error:
        raise placed(error, place) from None


def _of_parts(fields: AcceleratorFields) -> partial[Accelerator]:
    """The accelerator of parts that are sound each by itself; the call raises for parts that do not fit together."""
    array = _array(fields["array"]) if "array" in fields else None
    levels = tuple(_level(entry, field_path(("memories", i))) for i, entry in enumerate(fields["memories"]))
    dram = _dram(fields["dram"]) if "dram" in fields else None
    dma = Dma(**fields["dma"]) if "dma" in fields else None
    links = tuple(_link(entry, field_path(("links", i))) for i, entry in enumerate(fields.get("links", ())))
    scratchpads = tuple(level.memory for level in levels if level.is_scratchpad)
    kinds = fields.get("share", {})
    share = SharedKinds(tuple(kinds.get("in_place", ())), tuple(kinds.get("alias", ())))
    clock_mhz = fields.get("clock_mhz")
    notes = tuple(fields.get("notes", ()))
    return partial(Accelerator, fields["name"], scratchpads, levels, clock_mhz, array, dram, dma, links, share, notes)


def _array(fields: ArrayFields) -> ComputeArray:
    unrolls = {
        name: tuple(_loop(loop, field_path(("array", "unrolls", name))) for loop in loops)
        for name, loops in fields.get("unrolls", {}).items()
    }
    return ComputeArray(fields.get("dimensions", {}), fields.get("free"), fields.get("mac_energy_pj"), unrolls)


def _loop(name: str, place: str) -> str:
    """Return a loop by its own name: other works call some of them otherwise (OX is Q)."""
    loop = OTHER_NAMES.get(name, name)
    if loop not in LOOPS:
        expected = f"some of {', '.join((*LOOPS, *OTHER_NAMES))}"
        raise AcceleratorError(f"{name!r} is no loop of a layer", place=place, expected=expected)
    return loop


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
            _access(fields) if "energy_per_access" not in fields else _access_by_law(fields, capacity_bytes),
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


def _access_by_law(fields: MemoryFields, capacity_bytes: int) -> Access:
    if given := sorted({"read_energy_pj", "write_energy_pj"} & fields.keys()):
        raise AcceleratorError(f"it has {' and '.join(given)}, and energy_per_access", expected="one or the other")
    if "access_bits" not in fields:
        expected = "access_bits and energy_per_access together"
        raise AcceleratorError("it has energy_per_access alone", expected=expected)
    laws = _laws(fields["energy_per_access"])
    return Access(fields["access_bits"], 0.0, 0.0, fields.get("shortest_access_bits"), laws).at(capacity_bytes)


def _laws(fields: LawsFields) -> tuple[EnergyLaw, EnergyLaw]:
    """Return the laws of reads and of writes."""
    if fields.keys() == {"read", "write"}:
        return _law(fields["read"], "energy_per_access.read"), _law(fields["write"], "energy_per_access.write")
    law = _law(fields, "energy_per_access")
    return law, law


def _law(fields: LawFields, place: str) -> EnergyLaw:
    if fields.keys() == {"base", "per_sqrt_capacity"}:
        return SquareRootLaw(fields["base"], fields["per_sqrt_capacity"])
    if fields.keys() == {"table"}:
        entries = {_size(size, f"{place}.table"): energy_pj for size, energy_pj in fields["table"].items()}
        if len(entries) < len(fields["table"]):
            raise AcceleratorError("the table has a capacity twice", place=place, expected="each capacity once")
        return EnergyTable(tuple(sorted(entries.items())))
    raise AcceleratorError(
        f"it has {' and '.join(sorted(fields)) or 'no fields'}",
        place=place,
        expected="base and per_sqrt_capacity, or table, or such a law for read and one for write",
    )


def _ports(fields: AccessFields | MemoryFields) -> tuple[Port, ...]:
    return tuple(Port(port["direction"], port["bits_per_cycle"]) for port in fields.get("ports", ()))
