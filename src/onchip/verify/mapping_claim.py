"""Checks the claim made for a mapping; a cost model supplies the mapping's value."""

from __future__ import annotations

from collections.abc import Iterator

from onchip.answer.document import Claim
from onchip.answer.result import Status
from onchip.verify.rules import Rule, Violation

RELATIVE_TOLERANCE = 1e-9
"""Tolerance of energies: sums of real numbers, whose last digits depend on the order of addition."""


def is_value_of(claim: Claim, value: float) -> bool:
    """Return True if the claimed objective value equals this value, whether or not it is rounded to a whole number."""
    return abs(value - claim.objective_value) <= 0.5 + RELATIVE_TOLERANCE * abs(value)


def mapping_claim_violations(claim: Claim, subject: str, value: float | None) -> Iterator[Violation]:
    """Yield the violations of the claim for a mapping of the layer `subject`; a `value` of None is not compared."""
    said, bound = claim.objective_value, claim.lower_bound
    if value is not None and not is_value_of(claim, value):
        detail = f"{said} is claimed for {claim.objective}, it is {value:.17g}"
        yield Violation(Rule.OBJECTIVE_DIFFERS, f"{subject}: result.objective_value", detail)
    detail = f"{bound} is claimed, and an objective value of {said}"
    if bound > said:
        yield Violation(Rule.BOUND_ABOVE_OBJECTIVE, f"{subject}: result.lower_bound", detail)
    if claim.status is Status.OPTIMAL and bound < said:
        yield Violation(Rule.OPTIMAL_UNPROVEN, f"{subject}: result.status", f"OPTIMAL is claimed; {detail}")
    if claim.status in (Status.INFEASIBLE, Status.UNKNOWN):
        detail = f"{claim.status} is claimed, but there is a mapping"
        yield Violation(Rule.ANSWER_DENIED, f"{subject}: result.status", detail)
