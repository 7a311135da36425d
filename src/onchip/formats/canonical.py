"""One way to write JSON, so that the same value is the same text and has the same hash."""

from __future__ import annotations

import json
from hashlib import sha256

from onchip.errors import InputError


def to_json(value: object, error: type[InputError]) -> str:
    """`value` on one line; raises `error` for what JSON cannot say (NaN and the infinities)."""
    return _dumps(value, error, sort_keys=False, separators=(", ", ": "))


def canonical_sha256(value: object, error: type[InputError]) -> str:
    """SHA-256 of the canonical JSON (sorted keys, no spaces, UTF-8), as hexadecimal digits."""
    return sha256(_dumps(value, error, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _dumps(value: object, error: type[InputError], *, sort_keys: bool, separators: tuple[str, str]) -> str:
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, sort_keys=sort_keys, separators=separators)
        text.encode()
    except (TypeError, ValueError) as problem:
        raise error(f"it cannot be written as JSON: {problem}", expected="finite numbers and Unicode text") from None
    return text
