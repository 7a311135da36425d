"""What each memory keeps, from the mapspace file of Timeloop; it may constrain nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NotRequired, TypeAlias

from typing_extensions import TypedDict

from onchip.arch.memory import Operand
from onchip.errors import InputError
from onchip.formats.files import read_file
from onchip.formats.validation import Format, field_path, placed, quoted, validate
from onchip.formats.yaml_nodes import parse_yaml

MAPSPACE_FILE: Final = Format("Timeloop mapspace", 3, InputError)
Keeps: TypeAlias = Mapping[str, tuple[Operand, ...]]
"""By memory; one that is not named keeps all."""
OPERANDS: Final = {"Inputs": Operand.INPUT, "Weights": Operand.WEIGHT, "Outputs": Operand.OUTPUT}
KEEPING: Final = ("datatype", "bypass", "dataspace")
"""Names that Timeloop's versions have for the constraint that says what is kept."""


class ConstraintFields(TypedDict):
    """What is neither kept nor bypassed is left to the mapper there, and kept here."""

    target: str
    type: str
    keep: NotRequired[list[str]]
    bypass: NotRequired[list[str]]


class MapspaceFields(TypedDict):
    """The list, by either of its names."""

    constraints: NotRequired[list[ConstraintFields]]
    targets: NotRequired[list[ConstraintFields]]


class MapspaceFileFields(TypedDict):
    """All of the file, by any of its names."""

    mapspace: NotRequired[MapspaceFields]
    mapspace_constraints: NotRequired[MapspaceFields]
    architecture_constraints: NotRequired[MapspaceFields]


def read_timeloop_bypass(path: Path) -> Keeps:
    """What a mapspace file says; raises InputError with line and field."""
    return timeloop_bypass(read_file(path), str(path))


def timeloop_bypass(text: str | bytes, file: str) -> Keeps:
    """What `text` says; `file` is its name in errors. Raises InputError."""
    document = parse_yaml(text, MAPSPACE_FILE, file)
    try:
        _refuse_other_constraints(document.value)
        fields = validate(MapspaceFileFields, json.dumps(document.value).encode(), MAPSPACE_FILE, file)
        return {memory: held for key, part in fields.items() for memory, held in keeps_of(part, key).items()}
    except InputError as error:
        error.place = document.place(error.place or "")
        raise error.in_file(file) from None


def keeps_of(mapspace: object, place: str) -> Keeps:
    """Of the value of `mapspace`; raises InputError with the field's path."""
    _refuse_other_constraints({place: mapspace})
    try:
        fields = validate(MapspaceFields, json.dumps(mapspace).encode(), MAPSPACE_FILE, "")
    except InputError as error:
        raise placed(InputError(error.what, place=error.place, expected=error.expected), place) from None
    keeps: dict[str, tuple[Operand, ...]] = {}
    for name, constraints in (("constraints", fields.get("constraints")), ("targets", fields.get("targets"))):
        for at, one in enumerate(constraints or ()):
            keeps[one["target"]] = _kept(one, f"{place}.{name}[{at}]")
    return keeps


def _refuse_other_constraints(document: object) -> None:
    """Before fields are looked at, so that the line names the constraint and not one of its fields."""
    parts = document.items() if isinstance(document, dict) else ()
    lists = [(key, name, part.get(name)) for key, part in parts if isinstance(part, dict) for name in part]
    for key, name, entries in lists:
        for at, one in enumerate(entries if isinstance(entries, list) else ()):
            kind = one.get("type") if isinstance(one, dict) else None
            if isinstance(kind, str) and kind not in KEEPING:
                place = field_path((key, name, at, "type"))
                expected = f"one of {', '.join(KEEPING)}: orders and factors are the mapper's to choose"
                raise InputError(f"a constraint is of the type {quoted(kind)}", place=place, expected=expected)


def _kept(fields: ConstraintFields, place: str) -> tuple[Operand, ...]:
    for field, names in (("keep", fields.get("keep", ())), ("bypass", fields.get("bypass", ()))):
        for name in names:
            if name not in OPERANDS:
                expected = f"some of {', '.join(OPERANDS)}"
                raise InputError(f"it lists {quoted(name)}", place=f"{place}.{field}", expected=expected)
    kept, bypassed = set(fields.get("keep", ())), set(fields.get("bypass", ()))
    if both := sorted(kept & bypassed):
        raise InputError(f"{both[0]} is kept and bypassed", place=place, expected="one of both")
    return tuple(operand for name, operand in OPERANDS.items() if name not in bypassed)
