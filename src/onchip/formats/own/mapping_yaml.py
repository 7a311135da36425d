"""The mapping file: the loop nest of each layer, the tiles that the memories hold, and the maker's claims.

The reader does not judge whether a mapping fits an accelerator; the verifier does. The same mappings give
the same bytes.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, NotRequired

from typing_extensions import TypedDict

from onchip.answer.document import Claim, Document, MappingDocument, NamedMapping, Reading, Source
from onchip.answer.layer_mapping import MappingError
from onchip.answer.result import Status
from onchip.formats.files import to_json
from onchip.formats.own.fields import (
    FileKind,
    LayerFields,
    NestFields,
    SourceFields,
    claim_fields,
    layer_fields,
    layer_of,
    mapping_fields,
    mapping_of,
    source_of,
    written,
)
from onchip.formats.validation import Doc, Format, errors_at

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


def _mappings_of(fields: MappingFileFields) -> MappingDocument:
    mappings = [_mapping(entry, f"layers[{at}]") for at, entry in enumerate(fields["layers"])]
    named: set[str] = set()
    for at, one in enumerate(mappings):
        for name in one.names:
            if name in named:
                raise MappingError(f"layer {name!r} stands twice", f"layers[{at}].names", "one mapping a layer")
            named.add(name)
    accelerator = source_of(fields["accelerator"], "accelerator", MappingError)
    return Document(Source(fields.get("network", "")), accelerator, Reading(), tuple(mappings))


def _mapping(fields: MappingFields, place: str) -> NamedMapping:
    if not fields["names"]:
        raise MappingError("it is for no layer", f"{place}.names", "at least one name")
    layer, mapping = layer_of(fields["layer"], f"{place}.layer"), mapping_of(fields, place)
    with errors_at(place):
        mapping.layer(layer)
    claim = Claim(**fields["result"]) if "result" in fields else None
    return NamedMapping(tuple(fields["names"]), layer, mapping, claim)


def mappings_to_yaml(document: MappingDocument) -> str:
    """Return the text of a mapping file, one line per loop nest and operand; raises MappingError for bad Unicode."""
    lines = [
        f"format: {MAPPING_FORMAT.name}",
        f"version: {MAPPING_FORMAT.version}",
        f"accelerator: {_flow_text(written(SourceFields, document.accelerator))}",
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


_MAPPINGS: Final = FileKind(MAPPING_FORMAT, MappingFileFields, _mappings_of, mappings_to_yaml, is_yaml=True)
read_mappings, mappings_from_yaml, write_mappings = _MAPPINGS.read, _MAPPINGS.of_text, _MAPPINGS.write


def _flow_text(value: object) -> str:
    """Return a value as JSON, which is YAML on one line; characters that YAML does not allow are escaped."""
    text = to_json(value, MappingError)
    return "".join(character if character.isprintable() else f"\\U{ord(character):08X}" for character in text)
