"""JSON text in one form: equal values give equal text and equal hashes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final

from onchip.errors import InputError

_ON_ONE_LINE: Final = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(", ", ": "))
_CANONICAL: Final = json.JSONEncoder(allow_nan=False, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def to_json(value: object, error: type[InputError]) -> str:
    """Return `value` on one line. Raises `error` for NaN, infinities and text that is not Unicode."""
    return _joined((value,), "", error, _ON_ONE_LINE)


def lines(values: Iterable[object], error: type[InputError]) -> str:
    """Return the entries of a JSON list, one per line. Raises `error` as `to_json` does."""
    text = _joined(tuple(values), ",\n  ", error, _ON_ONE_LINE)
    return f"\n  {text}" if text else ""


def document_text(head: Mapping[str, object], fields: Mapping[str, object], error: type[InputError]) -> str:
    """Return the text of a JSON object: `head` on the first line, then one line for each field that is not None.

    The entries of a tuple stand on one line each. Raises `error` as `to_json` does.
    """
    parts = [head, *({name: value} for name, value in fields.items() if value is not None)]
    return "{" + ",\n ".join(_members(part, error) for part in parts) + "}\n"


def canonical_sha256(value: object, error: type[InputError]) -> str:
    """Return the SHA-256 of the canonical JSON (sorted keys, no spaces, UTF-8), as hexadecimal digits."""
    return sha256(_joined((value,), "", error, _CANONICAL).encode()).hexdigest()


def _members(fields: Mapping[str, object], error: type[InputError]) -> str:
    return ", ".join(f"{to_json(name, error)}: {_text(value, error)}" for name, value in fields.items())


def _text(value: object, error: type[InputError]) -> str:
    if isinstance(value, tuple):
        return f"[{lines(value, error)}]"
    has_lines = isinstance(value, dict) and any(isinstance(part, tuple) for part in value.values())
    return f"{{{_members(value, error)}}}" if isinstance(value, dict) and has_lines else to_json(value, error)


def _joined(values: tuple[object, ...], between: str, error: type[InputError], encoder: json.JSONEncoder) -> str:
    try:
        text = between.join(map(encoder.encode, values))
        text.encode()
    except (TypeError, ValueError) as problem:
        raise error(f"it cannot be written as JSON: {problem}", expected="finite numbers and Unicode text") from None
    return text
