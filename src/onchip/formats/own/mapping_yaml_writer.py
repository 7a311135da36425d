"""The mapping file: one line for each layer's nest and each operand, the same bytes for the same mappings.

The fields are those that `mapping_yaml` reads.
"""

from __future__ import annotations

from pathlib import Path

from onchip.answer.document import Claim, MappingDocument, NamedMapping, as_written
from onchip.answer.layer_mapping import MappingError
from onchip.formats.canonical import to_json
from onchip.formats.files import write_file
from onchip.formats.own.document_fields import source_fields
from onchip.formats.own.layer_fields import layer_fields, mapping_fields
from onchip.formats.own.mapping_yaml import MAPPING_FORMAT


def write_mappings(document: MappingDocument, path: Path) -> None:
    """Writes the mapping file; raises OutputError where it cannot be written."""
    write_file(path, mappings_to_yaml(document).encode())


def mappings_to_yaml(document: MappingDocument) -> str:
    """The mapping file's text; raises MappingError for names that are not Unicode text."""
    lines = [
        f"format: {MAPPING_FORMAT.name}",
        f"version: {MAPPING_FORMAT.version}",
        f"accelerator: {_flow(source_fields(document.accelerator))}",
    ]
    if document.graph.name:
        lines.append(f"network: {_flow(document.graph.name)}")
    lines.append("layers:" if document.answer else "layers: []")
    for one in document.answer:
        first, *others = (f"{name}: {_flow(value)}" for name, value in _mapping_fields(one).items())
        lines += [f"  - {first}", *(f"    {line}" for line in others)]
    return "\n".join(lines) + "\n"


def _mapping_fields(one: NamedMapping) -> dict[str, object]:
    names_and_layer = {"names": list(one.names), "layer": layer_fields(one.layer)}
    fields = names_and_layer | mapping_fields(one.mapping)
    return fields if one.claim is None else fields | {"result": _claim_fields(one.claim)}


def _claim_fields(claim: Claim) -> dict[str, object]:
    return {
        "method": claim.method,
        "status": claim.status,
        "objective": claim.objective,
        "objective_value": as_written(claim.objective_value),
        "lower_bound": as_written(claim.lower_bound),
    }


def _flow(value: object) -> str:
    """JSON is YAML on one line; what a YAML reader would not take as it stands is escaped."""
    text = to_json(value, MappingError)
    return "".join(character if character.isprintable() else _escaped(character) for character in text)


def _escaped(character: str) -> str:
    return f"\\U{ord(character):08X}"
