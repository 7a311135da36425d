"""What the files of all answers say alike: what an answer was made from, and how the network was read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from re import fullmatch
from typing import NotRequired

from typing_extensions import TypedDict

from onchip.answer.document import Source
from onchip.errors import InputError
from onchip.formats.canonical import to_json
from onchip.formats.validation import quoted


class SourceFields(TypedDict):
    """What the answer was made from; `sha256` may be absent in answers of other tools."""

    name: str
    sha256: NotRequired[str]


class PixelFields(TypedDict):
    """A tile of a stack's last output."""

    columns: int
    rows: int


def source_of(fields: SourceFields, place: str, error: type[InputError]) -> Source:
    """The source that the fields say; raises `error` for a hash that is none."""
    sha256 = fields.get("sha256")
    if sha256 is not None and not fullmatch("[0-9a-f]{64}", sha256):
        raise error(f"it is {quoted(sha256)}", place=f"{place}.sha256", expected="64 hexadecimal digits")
    return Source(fields["name"], sha256)


def source_fields(source: Source) -> dict[str, object]:
    """The fields of a source; a hash that is not known is left out."""
    return {"name": source.name} if source.sha256 is None else {"name": source.name, "sha256": source.sha256}


def check_sizes(sizes: Mapping[str, int | None], dims: Mapping[str, int], error: type[InputError]) -> None:
    """Raises `error` where a size or a bound dimension of `reading` is below 1; None is no size."""
    for name, size in (*sizes.items(), *((f"dims.{name}", size) for name, size in dims.items())):
        if size is not None and size < 1:
            raise error(f"it is {size}", place=f"reading.{name}", expected="at least 1")


def lines(values: Iterable[object], error: type[InputError]) -> str:
    """The entries of a JSON list, a line for each; raises `error` for what JSON cannot say."""
    return ",".join(f"\n  {to_json(value, error)}" for value in values)
