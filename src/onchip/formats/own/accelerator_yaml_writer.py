"""The accelerator file: one line for each memory, and the hash of what it says.

The fields are those that `accelerator_yaml` reads.
"""

from __future__ import annotations

import json
from dataclasses import replace
from re import fullmatch

from onchip.answer.document import Source
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.energy_laws import EnergyLaw, EnergyTable
from onchip.arch.memory import Access, Link, MemoryLevel, Operand, Port
from onchip.arch.sharing import SharedKinds
from onchip.errors import AcceleratorError
from onchip.formats.canonical import canonical_sha256
from onchip.formats.own.accelerator_yaml import ACCELERATOR_FORMAT
from onchip.formats.sizes import format_size


def accelerator_to_yaml(accelerator: Accelerator) -> str:
    """The accelerator file's text: one line for each memory."""
    lines = []
    for name, value in accelerator_fields(accelerator).items():
        if name == "memories" and isinstance(value, list):
            lines.append("memories:")
            lines.extend(f"  - {_flow(_with_units(entry))}" for entry in value)
        else:
            lines.append(f"{name}: {_flow(value)}")
    return "\n".join(lines) + "\n"


def accelerator_sha256(accelerator: Accelerator) -> str:
    """SHA-256 of the accelerator's canonical JSON (sizes in bytes, without notes and absent fields)."""
    return canonical_sha256(accelerator_fields(replace(accelerator, notes=())), AcceleratorError)


def accelerator_source(accelerator: Accelerator) -> Source:
    """Return the name, hash and notes of an accelerator, as a file of an answer states them."""
    return Source(accelerator.name, accelerator_sha256(accelerator), accelerator.notes)


def accelerator_fields(accelerator: Accelerator) -> dict[str, object]:
    """The fields of the accelerator file, sizes in bytes; what is absent is left out."""
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
        "share": _share_fields(accelerator.share) or None,
        "notes": [*accelerator.notes] or None,
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


def _share_fields(share: SharedKinds) -> dict[str, object]:
    kinds = {"in_place": [*share.in_place], "alias": [*share.alias]}
    return {name: listed for name, listed in kinds.items() if listed}


def _access_fields(access: Access | None, ports: tuple[Port, ...]) -> dict[str, object]:
    fields: dict[str, object] = {}
    if access is not None:
        fields = {
            "access_bits": access.access_bits,
            "shortest_access_bits": access.shortest_access_bits,
            **_energy_fields(access),
        }
    return fields | {"ports": [{"direction": p.direction, "bits_per_cycle": p.bits_per_cycle} for p in ports] or None}


def _energy_fields(access: Access) -> dict[str, object]:
    """The laws, if there are any, in the place of the energies that follow from them."""
    if access.laws is None:
        return {"read_energy_pj": _real(access.read_energy_pj), "write_energy_pj": _real(access.write_energy_pj)}
    read, write = map(_law_fields, access.laws)
    return {"energy_per_access": read if read == write else {"read": read, "write": write}}


def _law_fields(law: EnergyLaw) -> dict[str, object]:
    if isinstance(law, EnergyTable):
        return {"table": {str(capacity_bytes): _real(energy_pj) for capacity_bytes, energy_pj in law.entries}}
    return {"base": _real(law.base), "per_sqrt_capacity": _real(law.per_sqrt_capacity)}


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
