"""The mapping file: the loop nest of each layer, the tiles that the memories hold, and the maker's claims.

The reader does not judge whether a mapping fits an accelerator; the verifier does. The same mappings give
the same bytes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final, Literal, NotRequired

from typing_extensions import TypedDict

from onchip.answer.document import Claim, Document, MappingDocument, NamedMapping, Reading, Source
from onchip.answer.layer_mapping import MappingError
from onchip.answer.result import Status
from onchip.formats.files import read_file, to_json, write_file
from onchip.formats.own.fields import (
    LayerFields,
    NestFields,
    SourceFields,
    claim_fields,
    layer_fields,
    layer_of,
    mapping_fields,
    mapping_of,
    source_fields,
    source_of,
)
from onchip.formats.validation import Doc, Format, check_format, errors_at, validate
from onchip.formats.yaml_documents import parse_yaml
from onchip.without_collecting import without_collecting

MAPPING_FORMAT: Final = Format("onchip-mapping", 1, MappingError)


class MappingResultFields(TypedDict):
    """Claims of the maker about a mapping."""

    method: Annotated[str, Doc("Method that found the mapping.")]
    status: Annotated[Status, Doc("`OPTIMAL`, `FEASIBLE`, `INFEASIBLE` or `UNKNOWN`.")]
    objective: Annotated[str, Doc("Name of the objective.")]
    objective_value: Annotated[int | float, Doc("Value in femtojoules, cycles, or their product.")]
    lower_bound: Annotated[int | float, Doc("Lower bound on the value.")]


class MappingFields(NestFields):
    """The mapping of equal layers, whose names are `names`."""

    names: Annotated[list[str], Doc("Names of the layers, which are all alike.")]
    layer: Annotated[LayerFields, Doc("Loop nest.")]
    result: NotRequired[Annotated[MappingResultFields, Doc("Claims of the maker; `onchip check` recomputes them.")]]


class MappingFileFields(TypedDict):
    """A mapping file; the network is absent if the layers were given as text."""

    format: Annotated[Literal["onchip-mapping"], Doc("Name of the format.")]
    version: Annotated[Literal[1], Doc("Version of the format.")]
    accelerator: Annotated[SourceFields, Doc("Accelerator that the mappings are for.")]
    network: NotRequired[Annotated[str, Doc("Network that has the layers.")]]
    layers: Annotated[list[MappingFields], Doc("Mappings; each layer has at most one.")]


@without_collecting()
def read_mappings(path: Path) -> MappingDocument:
    """Read a mapping file; raises MappingError."""
    return mappings_from_yaml(read_file(path), str(path))


def mappings_from_yaml(text: str | bytes, file: str) -> MappingDocument:
    """Read `text`; `file` is its name in errors. Raises MappingError with line and field."""
    document = parse_yaml(text, MAPPING_FORMAT, file)
    with document.errors_in(file):
        check_format(document.value, MAPPING_FORMAT, file)
        fields = validate(MappingFileFields, json.dumps(document.value).encode(), MAPPING_FORMAT, file)
        mappings = [_mapping(entry, f"layers[{at}]") for at, entry in enumerate(fields["layers"])]
        named: set[str] = set()
        for at, one in enumerate(mappings):
            for name in one.names:
                if name in named:
                    what, place = f"layer {name!r} stands twice", f"layers[{at}].names"
                    raise MappingError(what, place=place, expected="one mapping a layer")
                named.add(name)
        accelerator = source_of(fields["accelerator"], "accelerator", MappingError)
    return Document(Source(fields.get("network", "")), accelerator, Reading(), tuple(mappings))


def _mapping(fields: MappingFields, place: str) -> NamedMapping:
    if not fields["names"]:
        raise MappingError("it is for no layer", place=f"{place}.names", expected="at least one name")
    layer, mapping = layer_of(fields["layer"], f"{place}.layer"), mapping_of(fields, place)
    with errors_at(place):
        mapping.layer(layer)
    claim = Claim(**fields["result"]) if "result" in fields else None
    return NamedMapping(tuple(fields["names"]), layer, mapping, claim)


def write_mappings(document: MappingDocument, path: Path) -> None:
    """Write the mapping file; raises OutputError if it cannot be written."""
    write_file(path, mappings_to_yaml(document).encode())


def mappings_to_yaml(document: MappingDocument) -> str:
    """Return the text of a mapping file, one line per loop nest and operand; raises MappingError for bad Unicode."""
    lines = [
        f"format: {MAPPING_FORMAT.name}",
        f"version: {MAPPING_FORMAT.version}",
        f"accelerator: {_flow_text(source_fields(document.accelerator))}",
    ]
    if document.graph.name:
        lines.append(f"network: {_flow_text(document.graph.name)}")
    lines.append("layers:" if document.answer else "layers: []")
    for one in document.answer:
        fields = {"names": list(one.names), "layer": layer_fields(one.layer), **mapping_fields(one.mapping)}
        if one.claim is not None:
            fields["result"] = {"method": one.claim.method, **claim_fields(one.claim)}
        first, *others = (f"{name}: {_flow_text(value)}" for name, value in fields.items())
        lines += [f"  - {first}", *(f"    {line}" for line in others)]
    return "\n".join(lines) + "\n"


def _flow_text(value: object) -> str:
    """Return a value as JSON, which is YAML on one line; characters that YAML does not allow are escaped."""
    text = to_json(value, MappingError)
    return "".join(character if character.isprintable() else f"\\U{ord(character):08X}" for character in text)
