"""The accelerator file: the compute array and the memories of a chip as YAML, at any level of detail."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from re import fullmatch
from typing import Annotated, Final, Literal, NotRequired, cast

from typing_extensions import TypedDict

from onchip.answer.document import Source
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.energy_laws import EnergyLaw, EnergyTable, SquareRootLaw
from onchip.arch.memory import Access, Direction, Dma, Dram, Link, Memory, MemoryLevel, Operand, Port
from onchip.arch.sharing import SharedKinds
from onchip.arch.sizes import format_size, parse_size
from onchip.errors import AcceleratorError, InputError, errors_in_file, nearest_first
from onchip.formats.files import canonical_sha256, read_file
from onchip.formats.own.fields import made, present
from onchip.formats.validation import Doc, Format, check_format, errors_at, field_path, validate
from onchip.formats.yaml_documents import parse_yaml
from onchip.ir.layer import LOOPS, OTHER_NAMES
from onchip.plugins import PluginGroup

OTHER_ACCELERATORS: Final = PluginGroup[[], Accelerator]("onchip.accelerators", Accelerator)
"""Functions that return accelerators without a file, by name."""
ACCELERATOR_FORMAT: Final = Format("onchip-accelerator", 1, AcceleratorError)


class ArrayFields(TypedDict):
    """The MACs: `dimensions` if the unrolling is fixed, `free` if the mapper may choose.

    A dimension that is not named for a loop unrolls any loop, or the loops that `unrolls` lists for it.
    """

    dimensions: NotRequired[dict[str, int]]
    """Map from the name of a dimension of the array to its number of units.

    A dimension named after a loop unrolls that loop.
    """
    unrolls: NotRequired[dict[str, list[str]]]
    """Map from a dimension to the loops that it may unroll; a dimension without an entry unrolls any loop."""
    free: NotRequired[int]
    """Number of MACs, if the mapper may choose what they unroll; replaces `dimensions`."""
    mac_energy_pj: NotRequired[Annotated[float, Doc("Energy of one multiply-accumulate in pJ.")]]


class PortFields(TypedDict):
    """The fields of a memory's port, in bits per cycle."""

    direction: Annotated[Direction, Doc("Accesses that the port serves: `read`, `write` or `read_write`.")]
    bits_per_cycle: Annotated[int, Doc("Bandwidth of the port in bits per cycle.")]


class AccessFields(TypedDict, total=False):
    """Cost of an access: `access_bits` and the two energies stand together or not at all."""

    access_bits: Annotated[int, Doc("Width of one access in bits.")]
    shortest_access_bits: Annotated[int, Doc("Width of the shortest access in bits; `access_bits` if absent.")]
    read_energy_pj: Annotated[float, Doc("Energy of reading `access_bits`, in pJ.")]
    write_energy_pj: Annotated[float, Doc("Energy of writing `access_bits`, in pJ.")]
    ports: Annotated[list[PortFields], Doc("Ports; a memory without ports never stalls.")]


class LawFields(TypedDict, total=False):
    """The energy of an access in pJ: `base` + `per_sqrt_capacity` * sqrt(bytes), or a table by capacity."""

    base: Annotated[float, Doc("Energy in pJ that does not depend on the capacity.")]
    per_sqrt_capacity: Annotated[float, Doc("Energy in pJ for each square root of a byte of capacity.")]
    table: dict[str, float]
    """Map from a capacity to the energy in pJ; linear between two capacities, refused outside of them."""


class LawsFields(LawFields, total=False):
    """The law of both reads and writes, or a separate law for each."""

    read: Annotated[LawFields, Doc("Law of reads only.")]
    write: Annotated[LawFields, Doc("Law of writes only.")]


class MemoryFields(AccessFields):
    """A memory; sizes are bytes, or text with a unit such as `64KiB`.

    `energy_per_access` replaces `read_energy_pj` and `write_energy_pj`.
    """

    name: Annotated[str, Doc("Name of the memory, unique in the file.")]
    capacity: Annotated[int | str, Doc("Capacity of one instance.")]
    scratchpad: NotRequired[Annotated[bool, Doc("True if software addresses the memory, so that `plan` uses it.")]]
    alignment: NotRequired[Annotated[int | str, Doc("Every offset is a multiple of this size; 1 byte if absent.")]]
    holds: NotRequired[list[Operand]]
    """Operands that the array reads from the memory or writes to it; all if absent."""
    serves: NotRequired[list[str]]
    """Dimensions of the array that one instance serves; all if absent, so that there is one instance."""
    double_buffered: NotRequired[bool]
    """True if the next tile is written while the current tile is used."""
    energy_per_access: NotRequired[Annotated[LawsFields, Doc("Energy of an access as a function of the capacity.")]]


class DmaFields(TypedDict, total=False):
    """The DMA engine, which moves tensors during the computation."""

    queues: Annotated[int, Doc("Number of DMA queues.")]
    setup_cycles: Annotated[int, Doc("Cycles to set up one transfer.")]


class LinkFields(TypedDict):
    """A link from one scratchpad to another that avoids DRAM."""

    source: Annotated[str, Doc("Scratchpad that is read.")]
    target: Annotated[str, Doc("Scratchpad that is written.")]
    bits_per_cycle: NotRequired[Annotated[int, Doc("Bandwidth of the link; unlimited if absent.")]]


class ShareFields(TypedDict, total=False):
    """Kinds of operators whose kernels compute in place, and kinds that are an alias; `*` stands for every kind."""

    in_place: Annotated[list[str], Doc("Kinds of operators that may write their output over an input.")]
    alias: Annotated[list[str], Doc("Kinds of operators whose output may be a part of an input, or contain it.")]


class AcceleratorFields(TypedDict):
    """An accelerator file; the memories are in order from the MACs outwards."""

    format: Annotated[Literal["onchip-accelerator"], Doc("Name of the format.")]
    version: Annotated[Literal[1], Doc("Version of the format.")]
    name: Annotated[str, Doc("Name of the accelerator.")]
    clock_mhz: NotRequired[Annotated[float, Doc("Clock frequency in MHz, to convert cycles to seconds.")]]
    array: NotRequired[Annotated[ArrayFields, Doc("The MACs; needed by `map`, `fuse`, `schedule` and `time`.")]]
    memories: Annotated[list[MemoryFields], Doc("Memories from the MACs outwards, without DRAM.")]
    dram: NotRequired[Annotated[AccessFields, Doc("Accesses to DRAM.")]]
    dma: NotRequired[Annotated[DmaFields, Doc("The DMA engine.")]]
    links: NotRequired[Annotated[list[LinkFields], Doc("Links between scratchpads.")]]
    share: NotRequired[Annotated[ShareFields, Doc("Operators whose operands may share bytes.")]]
    notes: NotRequired[list[str]]
    """Sentences about features of the machine that the description leaves out."""


def bundled_accelerators() -> tuple[str, ...]:
    """Return the names of the accelerators that come with onchip, sorted."""
    entries = files("onchip.arch").joinpath("presets").iterdir()
    return tuple(sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml")))


def load_accelerator(name_or_path: str) -> Accelerator:
    """Return the accelerator of a preset, a plug-in or a file; raises InputError.

    `NAME@64KiB` is a preset whose scratchpads have that capacity.
    """
    name, _, size = name_or_path.partition("@")
    if size and name in bundled_accelerators():
        preset = load_accelerator(name)
        capacity_bytes = _size(size, f"{preset.name}@")
        resized = preset.resized({memory.name: capacity_bytes for memory in preset.scratchpads})
        return replace(resized, name=f"{preset.name}@{size}")
    if name_or_path in bundled_accelerators():
        entry = files("onchip.arch").joinpath("presets").joinpath(f"{name_or_path}.yaml")
        return accelerator_from_yaml(entry.read_bytes(), entry.name)
    load = OTHER_ACCELERATORS.find(name_or_path)
    if load is not None:
        return load()
    if not name_or_path.endswith((".yaml", ".yml")) and not Path(name_or_path).exists():
        name = nearest_first(name_or_path, (*OTHER_ACCELERATORS.names, *bundled_accelerators())) or "a "
        expected = f"{name}name that `onchip accelerators` lists, or a .yaml file"
        raise InputError(f"no accelerator is called {name_or_path!r}", expected=expected)
    return read_accelerator(Path(name_or_path))


def read_accelerator(path: Path) -> Accelerator:
    """Read an accelerator file; raises InputError."""
    return accelerator_from_yaml(read_file(path), str(path))


def accelerator_from_yaml(text: str | bytes, file: str) -> Accelerator:
    """Read the accelerator in `text`; `file` is its name in errors. Raises InputError with line and field."""
    document = parse_yaml(text, ACCELERATOR_FORMAT, file)
    with document.errors_in(file):
        check_format(document.value, ACCELERATOR_FORMAT, file)
        fields = validate(AcceleratorFields, document.value, ACCELERATOR_FORMAT, file)
        accelerator = _of_parts(fields)
    with errors_in_file(file):
        return accelerator()


def accelerator_of(fields: AcceleratorFields, place: str) -> Accelerator:
    """Return the accelerator of fields that stand at `place` of a file; raises InputError with the field."""
    try:
        accelerator = _of_parts(fields)
    except InputError as error:
        error.place = f"{place}.{error.place}"
        raise
    with errors_at(place):
        return accelerator()


def _of_parts(fields: AcceleratorFields) -> partial[Accelerator]:
    """Check each part alone; the returned call raises for parts that do not fit together."""
    array = _array(fields["array"]) if "array" in fields else None
    levels = tuple(_level(entry, field_path(("memories", i))) for i, entry in enumerate(fields["memories"]))
    dram, links = None, []
    if "dram" in fields:
        with errors_at("dram"):
            dram = Dram(_access(fields["dram"]), _ports(fields["dram"]))
    dma = Dma(**fields["dma"]) if "dma" in fields else None
    for at, link in enumerate(fields.get("links", ())):
        with errors_at(field_path(("links", at))):
            links.append(Link(**link))
    pads = tuple(level.memory for level in levels if level.is_scratchpad)
    share = made(SharedKinds, fields.get("share", {}))
    clock_mhz, notes = fields.get("clock_mhz"), tuple(fields.get("notes", ()))
    return partial(Accelerator, fields["name"], pads, levels, clock_mhz, array, dram, dma, tuple(links), share, notes)


def _array(fields: ArrayFields) -> ComputeArray:
    unrolls = {
        name: tuple(_loop(loop, field_path(("array", "unrolls", name))) for loop in loops)
        for name, loops in fields.get("unrolls", {}).items()
    }
    return made(ComputeArray, fields, unrolls=unrolls)


def _loop(name: str, place: str) -> str:
    """Return onchip's name of a loop, also for names of other works (OX is Q); raises AcceleratorError."""
    loop = OTHER_NAMES.get(name, name)
    if loop not in LOOPS:
        raise AcceleratorError(f"{name!r} is no loop of a layer", place, f"some of {', '.join((*LOOPS, *OTHER_NAMES))}")
    return loop


def _level(fields: MemoryFields, place: str) -> MemoryLevel:
    capacity_bytes = _size(fields["capacity"], f"{place}.capacity")
    alignment_bytes = _size(fields.get("alignment", 1), f"{place}.alignment")
    with errors_at(place):
        return MemoryLevel(
            Memory(fields["name"], capacity_bytes, alignment_bytes, tuple(fields.get("holds", Operand))),
            tuple(fields["serves"]) if "serves" in fields else None,
            fields.get("scratchpad", False),
            fields.get("double_buffered", False),
            _access(fields, capacity_bytes),
            _ports(fields),
        )


def _size(size: int | str, place: str) -> int:
    try:
        return parse_size(str(size))
    except InputError as error:
        raise AcceleratorError(error.what, place, error.expected) from None


def _access(fields: AccessFields | MemoryFields, capacity_bytes: int = 0) -> Access | None:
    """Return the cost of an access, for a law that of this capacity; None without any."""
    energies = {"read_energy_pj", "write_energy_pj"} & fields.keys()
    bits, shortest = fields.get("access_bits"), fields.get("shortest_access_bits")
    if "energy_per_access" in fields:
        both = cast("MemoryFields", fields)["energy_per_access"]
        if energies:
            what = f"it has {' and '.join(sorted(energies))}, and energy_per_access"
            raise AcceleratorError(what, expected="one or the other")
        if bits is None:
            expected = "access_bits and energy_per_access together"
            raise AcceleratorError("it has energy_per_access alone", expected=expected)
        if both.keys() == {"read", "write"}:
            laws = _law(both["read"], "energy_per_access.read"), _law(both["write"], "energy_per_access.write")
        else:
            laws = (_law(both, "energy_per_access"),) * 2
        return Access(bits, 0.0, 0.0, shortest, laws).at(capacity_bytes)
    if bits is not None and len(energies) == 2:
        return Access(bits, fields["read_energy_pj"], fields["write_energy_pj"], shortest)
    if given := sorted(energies | ({"access_bits", "shortest_access_bits"} & fields.keys())):
        expected = "access_bits, read_energy_pj and write_energy_pj together"
        raise AcceleratorError(f"it has {' and '.join(given)} alone", expected=expected)
    return None


def _law(fields: LawFields, place: str) -> EnergyLaw:
    if fields.keys() == {"base", "per_sqrt_capacity"}:
        return SquareRootLaw(fields["base"], fields["per_sqrt_capacity"])
    if fields.keys() == {"table"}:
        entries = {_size(size, f"{place}.table"): energy_pj for size, energy_pj in fields["table"].items()}
        if len(entries) < len(fields["table"]):
            raise AcceleratorError("the table has a capacity twice", place, "each capacity once")
        return EnergyTable(tuple(sorted(entries.items())))
    what = f"it has {' and '.join(sorted(fields)) or 'no fields'}"
    expected = "base and per_sqrt_capacity, or table, or such a law for read and one for write"
    raise AcceleratorError(what, place, expected)


def _ports(fields: AccessFields | MemoryFields) -> tuple[Port, ...]:
    return tuple(made(Port, port) for port in fields.get("ports", ()))


def accelerator_to_yaml(accelerator: Accelerator) -> str:
    """Return the text of an accelerator file, one line per memory."""
    lines = []
    for name, value in accelerator_fields(accelerator).items():
        if name == "memories" and isinstance(value, list):
            units = ({**entry, "capacity": format_size(entry["capacity"])} for entry in value)
            lines += ["memories:", *(f"  - {_flow(entry)}" for entry in units)]
        else:
            lines.append(f"{name}: {_flow(value)}")
    return "\n".join(lines) + "\n"


def accelerator_sha256(accelerator: Accelerator) -> str:
    """Return the SHA-256 of the accelerator's canonical JSON (sizes in bytes, without notes and absent fields)."""
    return canonical_sha256(accelerator_fields(replace(accelerator, notes=())), AcceleratorError)


def accelerator_source(accelerator: Accelerator) -> Source:
    """Return the name, hash and notes of an accelerator, as a file of an answer states them."""
    return Source(accelerator.name, accelerator_sha256(accelerator), accelerator.notes)


def accelerator_fields(accelerator: Accelerator) -> dict[str, object]:
    """Return the fields of the accelerator file that are present, sizes in bytes."""
    array, dram, dma, share = accelerator.array, accelerator.dram, accelerator.dma, accelerator.share
    return present(
        {
            "format": ACCELERATOR_FORMAT.name,
            "version": ACCELERATOR_FORMAT.version,
            "name": accelerator.name,
            "clock_mhz": _real(accelerator.clock_mhz),
            "array": array
            and present(
                {
                    "dimensions": dict(array.dimensions) or None,
                    "unrolls": {name: [*loops] for name, loops in array.unrolls.items()} or None,
                    "free": array.free,
                    "mac_energy_pj": _real(array.mac_energy_pj),
                }
            ),
            "memories": [*map(_level_fields, accelerator.levels)],
            "dram": dram and present(_access_fields(dram.access, dram.ports)),
            "dma": dma and {"queues": dma.queues, "setup_cycles": dma.setup_cycles},
            "links": [present(asdict(link)) for link in accelerator.links] or None,
            "share": present({"in_place": [*share.in_place] or None, "alias": [*share.alias] or None}) or None,
            "notes": [*accelerator.notes] or None,
        }
    )


def _level_fields(level: MemoryLevel) -> dict[str, object]:
    memory = level.memory
    fields = {
        "name": memory.name,
        "capacity": memory.capacity_bytes,
        "scratchpad": level.is_scratchpad or None,
        "alignment": memory.alignment_bytes if memory.alignment_bytes != 1 else None,
        "holds": [*memory.holds] if memory.holds != tuple(Operand) else None,
        "serves": None if level.serves is None else [*level.serves],
        "double_buffered": level.double_buffered or None,
    }
    return present(fields | _access_fields(level.access, level.ports))


def _access_fields(access: Access | None, ports: tuple[Port, ...]) -> dict[str, object]:
    """Return the fields of an access and its ports; the laws replace the energies that follow from them."""
    listed = [{"direction": port.direction, "bits_per_cycle": port.bits_per_cycle} for port in ports] or None
    if access is None:
        return {"ports": listed}
    fields = {"access_bits": access.access_bits, "shortest_access_bits": access.shortest_access_bits}
    if access.laws is None:
        energies = {"read_energy_pj": _real(access.read_energy_pj), "write_energy_pj": _real(access.write_energy_pj)}
        return {**fields, **energies, "ports": listed}
    read, write = map(_law_fields, access.laws)
    return {**fields, "energy_per_access": read if read == write else {"read": read, "write": write}, "ports": listed}


def _law_fields(law: EnergyLaw) -> dict[str, object]:
    if isinstance(law, EnergyTable):
        return {"table": {str(capacity_bytes): _real(energy_pj) for capacity_bytes, energy_pj in law.entries}}
    return {"base": _real(law.base), "per_sqrt_capacity": _real(law.per_sqrt_capacity)}


def _real(value: float | None) -> float | None:
    """Return an integer as a float, too: 200 and 200.0 are the same file."""
    return None if value is None else float(value)


def _flow(value: object) -> str:
    """Return YAML on one line; text has no quotes if it cannot be read as another value."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_flow(name)}: {_flow(child)}' for name, child in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(_flow(child) for child in value)}]"
    is_plain = isinstance(value, str) and fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*|[0-9]+(B|KiB|MiB|GiB)", value)
    if is_plain and str(value).lower() not in ("null", "true", "false", "yes", "no", "on", "off", "y", "n"):
        return str(value)
    text = json.dumps(value, ensure_ascii=False)
    return "".join(character if character.isprintable() else f"\\U{ord(character):08X}" for character in text)
