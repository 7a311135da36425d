"""What the files of all answers say alike: what an answer was made from, and how the network was read."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from re import fullmatch
from typing import NotRequired

from typing_extensions import TypedDict

from onchip.answer.bindings import Bindings
from onchip.answer.document import Source
from onchip.errors import InputError
from onchip.formats.validation import quoted


class SourceFields(TypedDict):
    """A graph or an accelerator; `sha256` may be absent in answers of other tools, `notes` are an accelerator's."""

    name: str
    sha256: NotRequired[str]
    notes: NotRequired[list[str]]


class PixelFields(TypedDict):
    """A tile of a stack's last output."""

    columns: int
    rows: int


class BindingFields(TypedDict):
    """What stands for the sizes and values that a network file leaves open, by symbol or input."""

    dims: NotRequired[dict[str, int]]
    shapes: NotRequired[dict[str, list[int]]]
    values: NotRequired[dict[str, int | float | list[int | float]]]


def source_of(fields: SourceFields, place: str, error: type[InputError]) -> Source:
    """The source that the fields say; raises `error` for a hash that is none."""
    sha256 = fields.get("sha256")
    if sha256 is not None and not fullmatch("[0-9a-f]{64}", sha256):
        raise error(f"it is {quoted(sha256)}", place=f"{place}.sha256", expected="64 hexadecimal digits")
    return Source(fields["name"], sha256, tuple(fields.get("notes", ())))


def source_fields(source: Source) -> dict[str, object]:
    """Return the fields of a source, without an unknown hash and empty notes."""
    known = {"sha256": source.sha256, "notes": [*source.notes]}
    return {"name": source.name, **{name: value for name, value in known.items() if value}}


def bindings_of(fields: BindingFields, error: type[InputError]) -> Bindings:
    """What is bound; raises `error` for a negative size and for a value of no numbers."""
    dims, shapes = fields.get("dims", {}), fields.get("shapes", {})
    sizes = {f"dims.{name}": size for name, size in dims.items()}
    sizes |= {f"shapes.{name}[{axis}]": size for name, shape in shapes.items() for axis, size in enumerate(shape)}
    check_sizes(sizes, error, least=0)
    values = {
        name: tuple(value) if isinstance(value, list) else (value,) for name, value in fields.get("values", {}).items()
    }
    for name, value in values.items():
        if not value or not all(isfinite(number) for number in value):
            what = "it has no numbers" if not value else "a number of it is not finite"
            raise error(what, place=f"reading.values.{name}", expected="a finite number, or some")
    return Bindings(dims, {name: tuple(shape) for name, shape in shapes.items()}, values)


def binding_fields(bindings: Bindings) -> dict[str, object]:
    """The fields of what is bound: `dims` always, as in the first files, the others where there are some."""
    fields: dict[str, object] = {"dims": dict(sorted(bindings.dims.items()))}
    if bindings.shapes:
        fields["shapes"] = {name: list(shape) for name, shape in sorted(bindings.shapes.items())}
    if bindings.values:
        fields["values"] = {
            name: value[0] if len(value) == 1 else list(value) for name, value in sorted(bindings.values.items())
        }
    return fields


def check_sizes(sizes: Mapping[str, int | None], error: type[InputError], least: int = 1) -> None:
    """Raise `error` if a size of `reading` is below `least`; None is no size."""
    for name, size in sizes.items():
        if size is not None and size < least:
            raise error(f"it is {size}", place=f"reading.{name}", expected=f"at least {least}")
