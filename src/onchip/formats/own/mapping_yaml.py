"""The mapping file: for each layer its loop nest, the tiles that the memories hold, and what its maker claims.

Read here, written by `mapping_yaml_writer`. Whether a mapping fits an accelerator is the verifier's to say.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, Literal, NotRequired

from typing_extensions import TypedDict

from onchip.answer.document import Claim, Document, MappingDocument, NamedMapping, Reading, Source
from onchip.answer.layer_mapping import MappingError
from onchip.answer.result import Status
from onchip.errors import InputError
from onchip.formats.files import read_file
from onchip.formats.own.document_fields import SourceFields
from onchip.formats.own.layer_fields import LayerFields, NestFields, layer_of, mapping_of
from onchip.formats.validation import Format, check_format, placed, validate
from onchip.formats.yaml_documents import NO_LINES, YamlDocument, yaml_parts
from onchip.without_collecting import without_collecting

MAPPING_FORMAT: Final = Format("onchip-mapping", 1, MappingError)


class MappingResultFields(TypedDict):
    """What the maker of the mapping says of it."""

    method: str
    status: Status
    objective: str
    objective_value: int | float
    lower_bound: int | float


class MappingFields(NestFields):
    """How layers run that are all alike; `names` are those of the layers."""

    names: list[str]
    layer: LayerFields
    result: NotRequired[MappingResultFields]


class MappingFileFields(TypedDict):
    """All of a mapping file; a layer that was given as text is of no network."""

    format: Literal["onchip-mapping"]
    version: Literal[1]
    accelerator: SourceFields
    network: NotRequired[str]
    layers: list[MappingFields]


@without_collecting()
def read_mappings(path: Path) -> MappingDocument:
    """What a mapping file says; raises MappingError."""
    return mappings_from_yaml(read_file(path), str(path))


def mappings_from_yaml(text: str | bytes, file: str) -> MappingDocument:
    """What `text` says; `file` is its name in errors. Raises MappingError with line and field.

    Its entries are read one by one, so that of each its mapping alone is kept.
    """
    mappings: list[NamedMapping] = []
    named: set[str] = set()
    part = YamlDocument(None, 1, NO_LINES)
    for part in yaml_parts(text, MAPPING_FORMAT, file, "layers"):
        with part.errors_in(file):
            if part.at:
                entry = validate(MappingFields, json.dumps(part.value).encode(), MAPPING_FORMAT, file)
                _ensure_named_once(entry["names"], named, part.at)
                mappings.append(_mapping(entry, part.at))
            elif isinstance(part.value, dict) and part.value.keys() >= {"format", "version"}:
                check_format(part.value, MAPPING_FORMAT, file)
    with part.errors_in(file):
        check_format(part.value, MAPPING_FORMAT, file)
        fields = validate(MappingFileFields, json.dumps(part.value).encode(), MAPPING_FORMAT, file)
    source = fields["accelerator"]
    accelerator = Source(source["name"], source.get("sha256"), tuple(source.get("notes", ())))
    return Document(Source(fields.get("network", "")), accelerator, Reading(), tuple(mappings))


def _ensure_named_once(names: list[str], named: set[str], place: str) -> None:
    """Add the layers of an entry to those named before; raises MappingError for a layer with two mappings."""
    for name in names:
        if name in named:
            raise MappingError(f"layer {name!r} stands twice", place=f"{place}.names", expected="one mapping a layer")
        named.add(name)


def _mapping(fields: MappingFields, place: str) -> NamedMapping:
    if not fields["names"]:
        raise MappingError("it is for no layer", place=f"{place}.names", expected="at least one name")
    layer, mapping = layer_of(fields["layer"], f"{place}.layer"), mapping_of(fields, place)
    try:
        mapping.layer(layer)
    except InputError as error:
        raise placed(error, place) from None
    claim = Claim(**fields["result"]) if "result" in fields else None
    return NamedMapping(tuple(fields["names"]), layer, mapping, claim)
