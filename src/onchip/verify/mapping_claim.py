"""Is what is claimed of a mapping so? Its value by a cost model is handed in."""

from __future__ import annotations

from collections.abc import Iterator

from onchip.answer.document import Claim
from onchip.answer.result import Status
from onchip.verify.rules import Rule, Violation

RELATIVE_TOLERANCE = 1e-9
"""Energies are sums of real numbers, which differ in their last digits by the order of adding."""


def is_value_of(claim: Claim, value: float) -> bool:
    """Whether the objective value claimed is this one, rounded to a whole number or not."""
    return abs(value - claim.objective_value) <= 0.5 + RELATIVE_TOLERANCE * abs(value)


def mapping_claim_violations(claim: Claim, subject: str, value: float | None) -> Iterator[Violation]:
    """Yield what is wrong with the claim of a mapping of the layer `subject`; no value: it is not compared."""
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
