"""The row of frozen figures, and how two lists of them are compared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from pathlib import Path
from typing import Any, Final

OPTIMAL: Final = "OPTIMAL"
ROUNDING: Final = 1e-9
"""Sums of floats may differ by their order."""


@dataclass(frozen=True, slots=True)
class Row:
    """A question, the command that answers it with `PYTHONPATH=benchmarks`, and its figures by name."""

    name: str
    command: str
    values: Mapping[str, Any]


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file of results."""
    return [Row(**row) for row in json.loads(path.read_text())["results"]]


def differences(kept: Sequence[Row], found: Sequence[Row]) -> list[str]:
    """Return a line for each kept figure that was not found again, and for each new row; a new proof is none."""
    later = {row.name: row.values for row in found}
    lines = [f"{row.name}: it was not kept" for row in found if row.name not in {one.name for one in kept}]
    for row in kept:
        for name, value in row.values.items():
            own = later.get(row.name, {}).get(name)
            if not _is_equal(value, own) and not (name == "status" and own == OPTIMAL):
                lines.append(f"{row.name}: {name} is {own}, and was {value}")
    return lines


def _is_equal(one: object, other: object) -> bool:
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_is_equal, one, other))
    if isinstance(one, float) and isinstance(other, int | float):
        return isclose(one, other, rel_tol=ROUNDING)
    return one == other
