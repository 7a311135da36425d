"""A row of a store: a point as its study names it, with its answer; as a flat record for tables and filters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Final

from onchip.sweeps.expression import Value
from onchip.sweeps.point import Number, PointAnswer, PointFigures
from onchip.sweeps.values import Scalar

ASKED: Final = ("study", "number", "verb", "network", "accelerator", "objective")
FOUND: Final = (
    *("status", "objective_value", "lower_bound", "unit"),
    *(figure.name for figure in fields(PointFigures)),
    *("settled", "reason", "seconds", "key"),
)
COLUMNS: Final = (*ASKED, *FOUND)
"""Columns of every row; options, parameters and costs are between the two groups."""


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A point of a study; `options` are the given ones, `parameters` and `costs` are by the study's names."""

    study_sha256: str
    study: str
    number: int
    key: str
    verb: str
    network: str
    accelerator: str
    objective: str
    options: Mapping[str, object] = field(hash=False)
    parameters: Mapping[str, Scalar] = field(hash=False)
    costs: Mapping[str, Number] = field(hash=False)
    network_sha256: str
    machine_sha256: str
    sram_bytes: int | None
    answer: PointAnswer

    @property
    def record(self) -> dict[str, Value]:
        """Return the row as a flat record of plain values, for tables, files and filters."""
        answer = self.answer
        options = {
            name: value if isinstance(value, str | int | float | bool) else str(value)
            for name, value in self.options.items()
        }
        return {
            "study": self.study,
            "number": self.number,
            "verb": self.verb,
            "network": self.network,
            "accelerator": self.accelerator,
            "objective": self.objective,
            **options,
            **self.parameters,
            **self.costs,
            "status": str(answer.status),
            "objective_value": answer.objective_value,
            "lower_bound": answer.lower_bound,
            "unit": answer.unit,
            **asdict(answer.figures),
            "settled": answer.settled_by is not None,
            "reason": answer.reason,
            "seconds": answer.seconds,
            "key": self.key,
        }


def columns_of(records: Iterable[Mapping[str, Value]]) -> tuple[str, ...]:
    """Return the names of all columns, including options and parameters of only some rows."""
    named = dict.fromkeys(name for record in records for name in record)
    return (*ASKED, *(name for name in named if name not in COLUMNS), *FOUND)
