"""A point of a study and what is found of it."""

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
    """What is known of a point: what its method claims, or that computing it came to no end."""

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
    """What other sizes of a memory say of one: a smaller's answer, as its compressed file, and a larger's bound."""

    document: bytes | None = field(repr=False)
    value: Number | None
    lower_bound: Number


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One question, and what it has of a study: the values of its parameters and its costs.

    `key` is a hash of everything that decides the answer, and of nothing else. `accelerator` is what the user calls
    the machine; `sram_bytes` is the size where it is one scratchpad that holds everything. `options` are those that
    differ from what the verb does without them. `neighbours` are known before it is asked, and change no optimum.
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
    """What is counted of an answer, each None where the verb does not count it: bytes, cycles, picojoules."""

    traffic_bytes: int | None = None
    non_compulsory_bytes: int | None = None
    peak_bytes: int | None = None
    arena_bytes: int | None = None
    latency_cycles: int | None = None
    energy_pj: float | None = None


@dataclass(frozen=True, slots=True)
class PointAnswer:
    """What is known of a point. `reason` says why there is no answer; `document` is the answer's file, compressed.

    `settled_by` is the key of the point whose answer this one's is, where nothing was computed.
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
        """Whether there is an answer."""
        return self.objective_value is not None
