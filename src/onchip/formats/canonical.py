"""One way to write JSON, so that the same value is the same text and has the same hash."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from onchip.errors import InputError

_ON_ONE_LINE: Final = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(", ", ": "))
_CANONICAL: Final = json.JSONEncoder(allow_nan=False, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def to_json(value: object, error: type[InputError]) -> str:
    """`value` on one line; raises `error` for what JSON cannot say (NaN and the infinities)."""
    return _joined((value,), "", error, _ON_ONE_LINE)


def lines(values: Iterable[object], error: type[InputError]) -> str:
    """The entries of a JSON list, a line for each; raises `error` for what JSON cannot say."""
    text = _joined(tuple(values), ",\n  ", error, _ON_ONE_LINE)
    return f"\n  {text}" if text else ""


def canonical_sha256(value: object, error: type[InputError]) -> str:
    """SHA-256 of the canonical JSON (sorted keys, no spaces, UTF-8), as hexadecimal digits."""
    return sha256(_joined((value,), "", error, _CANONICAL).encode()).hexdigest()


def _joined(values: tuple[object, ...], between: str, error: type[InputError], encoder: json.JSONEncoder) -> str:
    try:
        text = between.join(map(encoder.encode, values))
        text.encode()
    except (TypeError, ValueError) as problem:
        raise error(f"it cannot be written as JSON: {problem}", expected="finite numbers and Unicode text") from None
    return text
