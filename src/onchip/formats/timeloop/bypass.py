"""What each memory keeps, from the constraints in Timeloop's files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NotRequired, TypeAlias

from typing_extensions import TypedDict

from onchip.arch.memory import Operand
from onchip.errors import InputError
from onchip.formats.files import read_file
from onchip.formats.timeloop.document import CONSTRAINTS, check_parts, read_document
from onchip.formats.validation import Format, placed, quoted, validate

MAPSPACE_FILE: Final = Format("Timeloop mapspace", 3, InputError)
Keeps: TypeAlias = Mapping[str, tuple[Operand, ...]]
"""By memory; one that is not named keeps all."""
OPERANDS: Final[Mapping[Operand, tuple[str, ...]]] = {
    Operand.INPUT: ("Inputs", "A"),
    Operand.WEIGHT: ("Weights", "B"),
    Operand.OUTPUT: ("Outputs", "Z"),
}
"""The data spaces of Timeloop's shapes cnn-layer and gemm_ABZ."""
KEEPING: Final = ("datatype", "bypass", "dataspace")
"""Names that Timeloop's versions have for the constraint that says what is kept."""
UNAPPLIED: Final = {"target": "", "type": ""}
"""An entry in the place of a constraint that is not applied: entries keep their numbers in errors."""

ONLY_KEEPING: Final = f"one of {', '.join(KEEPING)}; no search here restricts orders, factors or fanouts"


class ConstraintFields(TypedDict):
    """What is neither kept nor bypassed is left to the mapper there, and kept here."""

    target: str
    type: str
    keep: NotRequired[list[str]]
    bypass: NotRequired[list[str]]
    keep_only: NotRequired[list[str]]
    bypass_only: NotRequired[list[str]]


class MapspaceFields(TypedDict):
    """The list, by either of its names."""

    version: NotRequired[str | int | float]
    constraints: NotRequired[list[ConstraintFields]]
    targets: NotRequired[list[ConstraintFields]]


class SpacesFields(TypedDict, total=False):
    """The constraint at a node of version 0.4."""

    keep: list[str]
    bypass: list[str]
    keep_only: list[str]
    bypass_only: list[str]


def read_timeloop_bypass(path: Path) -> Keeps:
    """Read a mapspace file, or the constraints in a file of all parts; raises InputError with line and field."""
    return timeloop_bypass(read_file(path), str(path))


def timeloop_bypass(text: str | bytes, file: str) -> Keeps:
    """Read `text`; `file` is its name in errors. Raises InputError."""
    document = read_document(text, MAPSPACE_FILE, file)
    try:
        parts = check_parts(
            document.value, MAPSPACE_FILE, "mapspace, mapspace_constraints, architecture_constraints or constraints"
        )
        return keeps_of_parts(parts)
    except InputError as error:
        error.place = document.place(error.place or "")
        raise error.in_file(file) from None


def keeps_of_parts(document: Mapping[str, object], unapplied: list[str] | None = None) -> Keeps:
    """Return the operands that each memory keeps by all constraints of a file.

    Constraints of other types are added to `unapplied`, or refused without it. Raises InputError with the field's path.
    """
    parts = [(name, part) for name, part in document.items() if name in CONSTRAINTS]
    return {memory: kept for name, part in parts for memory, kept in _keeps_of(part, name, unapplied).items()}


def _keeps_of(part: object, place: str, unapplied: list[str] | None) -> Keeps:
    whole = {"": part} if isinstance(part, list) else part if isinstance(part, dict) else {}
    lists = {name: entries for name, entries in whole.items() if isinstance(entries, list)}
    for name, entries in lists.items():
        where = f"{place}.{name}" if name else place
        lists[name] = [
            one if _is_keeping(one, f"{where}[{at}]", unapplied) else UNAPPLIED for at, one in enumerate(entries)
        ]
    fields = {"targets": lists[""]} if "" in lists else {**whole, **lists}
    try:
        mapspace = validate(MapspaceFields, json.dumps(fields).encode(), MAPSPACE_FILE, "")
    except InputError as error:
        raise placed(InputError(error.what, place=error.place, expected=error.expected), place) from None
    keeps: dict[str, tuple[Operand, ...]] = {}
    for name, constraints in (("constraints", mapspace.get("constraints")), ("targets", mapspace.get("targets"))):
        for at, one in enumerate(constraints or ()):
            where = f"{place}[{at}]" if "" in lists else f"{place}.{name}[{at}]"
            spaces = {key: value for key, value in one.items() if key not in ("target", "type")}
            if one != UNAPPLIED:
                keeps[one["target"]] = operands_kept(spaces, where)
    return keeps


def _is_keeping(constraint: object, place: str, unapplied: list[str] | None) -> bool:
    """Return True unless the constraint is of another type, whose fields differ; raises InputError to refuse it."""
    kind = constraint.get("type") if isinstance(constraint, dict) else None
    if not isinstance(constraint, dict) or not isinstance(kind, str) or kind in KEEPING:
        return True
    target = constraint.get("target")
    if unapplied is None:
        what = f"a constraint of {quoted(target)} is of the type {quoted(kind)}"
        raise InputError(what, place=f"{place}.type", expected=ONLY_KEEPING)
    unapplied.append(f"{kind} constraint of {target}")
    return False


def operands_kept(spaces: Mapping[str, Any], place: str, *, only_kept: bool = False) -> tuple[Operand, ...]:
    """Return the operands that a memory keeps: all but those bypassed, or with `only_kept` those kept alone.

    Raises InputError with the field's path.
    """
    try:
        fields = validate(SpacesFields, json.dumps(spaces).encode(), MAPSPACE_FILE, "")
    except InputError as error:
        raise placed(InputError(error.what, place=error.place, expected=error.expected), place) from None
    named = {field: _operands(names, f"{place}.{field}") for field, names in fields.items()}  # type: ignore[arg-type]
    kept = named.get("keep", frozenset()) | named.get("keep_only", frozenset())
    bypassed = named.get("bypass", frozenset()) | named.get("bypass_only", frozenset())
    if both := sorted(kept & bypassed):
        raise InputError(f"{OPERANDS[both[0]][0]} is kept and bypassed", place=place, expected="one of both")
    if only_kept or "keep_only" in named:
        return tuple(operand for operand in Operand if operand in kept)
    return tuple(operand for operand in Operand if operand not in bypassed)


def _operands(names: list[str], place: str) -> frozenset[Operand]:
    operand_of = {name: operand for operand, spellings in OPERANDS.items() for name in spellings}
    for name in names:
        if name not in operand_of:
            expected = f"some of {', '.join(operand_of)}"
            raise InputError(f"it lists {quoted(name)}", place=place, expected=expected)
    return frozenset(operand_of[name] for name in names)
