"""The mapping file: one line for each layer's nest and each operand, the same bytes for the same mappings.

The fields are those that `mapping_yaml` reads.
"""

from __future__ import annotations

from pathlib import Path

from onchip.answer.layer_mapping import MappingError
from onchip.answer.mapping_document import MappingClaim, MappingDocument, NamedMapping
from onchip.formats.canonical import to_json
from onchip.formats.files import write_file
from onchip.formats.own.mapping_yaml import MAPPING_FORMAT
from onchip.formats.validation import LARGEST_INTEGER
from onchip.ir.layer import Layer


def write_mappings(document: MappingDocument, path: Path) -> None:
    """Writes the mapping file; raises InputError where it cannot be written."""
    write_file(path, mappings_to_yaml(document).encode())


def mappings_to_yaml(document: MappingDocument) -> str:
    """The mapping file's text; raises MappingError for names that are not Unicode text."""
    accelerator = {"name": document.accelerator.name, "sha256": document.accelerator.sha256}
    lines = [
        f"format: {MAPPING_FORMAT.name}",
        f"version: {MAPPING_FORMAT.version}",
        f"accelerator: {_flow({name: value for name, value in accelerator.items() if value is not None})}",
    ]
    if document.network is not None:
        lines.append(f"network: {_flow(document.network)}")
    lines.append("layers:" if document.mappings else "layers: []")
    for one in document.mappings:
        first, *others = (f"{name}: {_flow(value)}" for name, value in _mapping_fields(one).items())
        lines += [f"  - {first}", *(f"    {line}" for line in others)]
    return "\n".join(lines) + "\n"


def _mapping_fields(one: NamedMapping) -> dict[str, object]:
    mapping = one.mapping
    fields: dict[str, object] = {
        "names": list(one.names),
        "layer": _layer_fields(one.layer),
        "nest": [str(loop) for loop in mapping.nest],
    }
    for operand in ("input", "weight", "output"):
        if kept := mapping.kept(operand):
            fields[operand] = [{"memory": each.memory, "loops": each.loops} for each in kept]
    return fields if one.claim is None else fields | {"result": _claim_fields(one.claim)}


def _layer_fields(layer: Layer) -> dict[str, object]:
    """What is as in the plainest layer is left out."""
    plain = Layer()
    fields: dict[str, object] = {"loops": {loop: bound for loop, bound in layer.bounds.items() if bound > 1}}
    for name in ("stride", "dilation", "padding"):
        if getattr(layer, name) != getattr(plain, name):
            fields[name] = list(getattr(layer, name))
    bits = {part: getattr(layer, f"{part}_bits") for part in ("input", "weight", "output", "partial")}
    if any(value != getattr(plain, f"{part}_bits") for part, value in bits.items()):
        fields["bits"] = bits
    return fields if layer.has_weight else fields | {"has_weight": False}


def _claim_fields(claim: MappingClaim) -> dict[str, object]:
    return {
        "method": claim.method,
        "status": claim.status,
        "objective": claim.objective,
        "objective_value": _readable(claim.objective_value),
        "lower_bound": _readable(claim.lower_bound),
    }


def _readable(value: float) -> float:
    """Integers beyond 64 bits, as products of energy and cycles may be, are no longer exact."""
    return value if abs(value) <= LARGEST_INTEGER else float(value)


def _flow(value: object) -> str:
    """JSON is YAML on one line; what a YAML reader would not take as it stands is escaped."""
    text = to_json(value, MappingError)
    return "".join(character if character.isprintable() else _escaped(character) for character in text)


def _escaped(character: str) -> str:
    return f"\\U{ord(character):08X}"
