"""A point of a study and its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from onchip.answer.result import Status
from onchip.sweeps.values import Scalar
from onchip.sweeps.verbs import SweptVerb

Number: TypeAlias = "int | float"


class PointStatus(StrEnum):
    """The status of a point: its method's claim, or FAILED if the computation did not finish."""

    OPTIMAL = Status.OPTIMAL.value
    FEASIBLE = Status.FEASIBLE.value
    INFEASIBLE = Status.INFEASIBLE.value
    UNKNOWN = Status.UNKNOWN.value
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class SweptMachine:
    """A machine as the text of its accelerator file; `sha256` is that of its canonical fields."""

    name: str
    yaml: str
    sha256: str


@dataclass(frozen=True, slots=True)
class NeighbourAnswers:
    """Answers at other sizes of a memory: a smaller one's answer, as its compressed file, and a larger one's bound."""

    document: bytes | None = field(repr=False)
    value: Number | None
    lower_bound: Number


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """A question of a study, with the values of its parameters and its costs.

    `key` is a hash of exactly the data that decide the answer. `accelerator` is the user's name of the machine;
    `sram_bytes` is the size if the machine is one scratchpad that holds everything. `options` are those that differ
    from the verb's defaults. `neighbours` are earlier answers, which change no optimum.
    """

    key: str
    verb: SweptVerb
    network: str
    network_sha256: str
    accelerator: str
    machine: SweptMachine
    sram_bytes: int | None
    objective: str
    options: Mapping[str, object] = field(hash=False)
    parameters: Mapping[str, Scalar] = field(hash=False)
    costs: Mapping[str, Number] = field(default_factory=dict, hash=False)
    neighbours: NeighbourAnswers | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class PointFigures:
    """Figures of an answer in bytes, cycles and picojoules, each None if the verb does not compute it."""

    traffic_bytes: int | None = None
    non_compulsory_bytes: int | None = None
    peak_bytes: int | None = None
    arena_bytes: int | None = None
    latency_cycles: int | None = None
    energy_pj: float | None = None


@dataclass(frozen=True, slots=True)
class PointAnswer:
    """The answer of a point. `reason` explains a missing answer; `document` is the compressed answer file.

    `settled_by` is the key of the point whose answer this one shares, if nothing was computed.
    """

    status: PointStatus
    objective_value: Number | None = None
    lower_bound: Number | None = None
    unit: str = ""
    figures: PointFigures = PointFigures()
    seconds: float = 0.0
    reason: str | None = None
    document: bytes | None = field(default=None, repr=False)
    settled_by: str | None = None

    @property
    def has_value(self) -> bool:
        """Return True if there is an answer."""
        return self.objective_value is not None
