"""A question to a compiled search with its answer, and short digests of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from hashlib import sha256

import numpy as np

DIGITS = 12


@dataclass(frozen=True, slots=True)
class Answered:
    """A question and its answer; `value` is a readable part of the answer: a cost, a bound or a number of rows."""

    question: object
    value: object
    answer: object

    @property
    def row(self) -> tuple[str, str, str]:
        """Return the value in clear, the digest of the answer and the digest of the question."""
        return str(plain(self.value)), digest(self.answer), digest(self.question)


def digest(value: object) -> str:
    """Return the first digits of the SHA-256 of a value, the same in every process and on every machine."""
    return sha256(repr(plain(value)).encode()).hexdigest()[:DIGITS]


def plain(value: object) -> object:
    """Return a value as nested lists of names, numbers and texts; raises TypeError for an object of another kind."""
    if isinstance(value, Enum):
        return value.name
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return [[plain(key), plain(one)] for key, one in value.items()]
    if isinstance(value, list | tuple | range):
        return [plain(one) for one in value]
    if isinstance(value, set | frozenset):
        return sorted(map(plain, value), key=repr)
    if is_dataclass(value):
        return [type(value).__name__, *(plain(getattr(value, field.name)) for field in fields(value))]
    raise TypeError(f"{type(value).__name__} has no digest")
