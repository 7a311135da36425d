"""What a second prover says of a claimed bound."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.packing import Overflow, Packing
from onchip.answer.program import Plan


class Ruling(StrEnum):
    """Whether nothing better than the claimed bound exists, something does, or neither was found out in time."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Finding:
    """The ruling on `claimed_bound`, a lower bound in the unit of the objective.

    REFUTED comes with `better`, an answer that has been verified, and with `better_value`, its objective value, which
    is below the bound. `detail` says in a few words what decided: a proof, a model, or what ran out. `seconds` are
    those that the prover took.
    """

    ruling: Ruling
    claimed_bound: int
    better_value: int | None
    better: Plan | Packing | Overflow | LayerMapping | None
    seconds: float
    detail: str
