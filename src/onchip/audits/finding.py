"""The finding of a second prover about a claimed bound."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.packing import Overflow, Packing
from onchip.answer.program import Plan


class Ruling(StrEnum):
    """The ruling on a bound: no better answer exists, one exists, or the time was not sufficient for a decision."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Finding:
    """The ruling on `claimed_bound`, a lower bound in the unit of the objective.

    REFUTED comes with `better`, a verified answer, and with `better_value`, its objective value, which is below the
    bound. `detail` names the deciding fact in a few words: a proof, a model, or an exhausted resource. `seconds` is the
    time that the prover took.
    """

    ruling: Ruling
    claimed_bound: int
    better_value: int | None
    better: Plan | Packing | Overflow | LayerMapping | None
    seconds: float
    detail: str
