"""Claims about a mapping, compared with its value by the cost model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onchip.answer.document import Claim
from onchip.answer.result import Status
from onchip.verify.mapping import is_value_of, mapping_claim_violations
from onchip.verify.rules import Rule

CLAIM = Claim("exact", Status.OPTIMAL, "energy", 1000, 1000, {})


def wrong(claim: Claim, value: float | None) -> list[tuple[Rule, str]]:
    return [(one.rule, one.subject) for one in mapping_claim_violations(claim, "conv1", value)]


@pytest.mark.parametrize("value", [1000.0, 999.5, 1000.5, 1000.25, None])
def test_a_claim_that_is_so_breaks_nothing(value: float | None) -> None:
    assert wrong(CLAIM, value) == []
    assert wrong(replace(CLAIM, status=Status.FEASIBLE, lower_bound=0), value) == []


@pytest.mark.parametrize("value", [998.0, 999.25, 1000.75, 0.0, 2000.0])
def test_another_value_than_is_claimed_is_said(value: float) -> None:
    assert wrong(CLAIM, value) == [(Rule.OBJECTIVE_DIFFERS, "conv1: result.objective_value")]
    (violation,) = mapping_claim_violations(CLAIM, "conv1", value)
    assert violation.detail == f"1000 is claimed for energy, it is {value:.17g}"


def test_large_values_differ_in_their_last_digits() -> None:
    """Energies are sums of real numbers: the order of adding changes them by a billionth."""
    large = replace(CLAIM, objective_value=10**12)
    assert is_value_of(large, 1e12 + 1000.0)
    assert is_value_of(large, 1e12 - 999.0)
    assert not is_value_of(large, 1e12 + 1002.0)
    assert not is_value_of(large, 1e12 - 1001.0)
    assert not is_value_of(replace(CLAIM, objective_value=0), 0.75)


@pytest.mark.parametrize(
    ("claim", "rule", "subject", "detail"),
    [
        (
            replace(CLAIM, lower_bound=1001),
            Rule.BOUND_ABOVE_OBJECTIVE,
            "conv1: result.lower_bound",
            "1001 is claimed, and an objective value of 1000",
        ),
        (
            replace(CLAIM, lower_bound=999),
            Rule.OPTIMAL_UNPROVEN,
            "conv1: result.status",
            "OPTIMAL is claimed; 999 is claimed, and an objective value of 1000",
        ),
        (
            replace(CLAIM, status=Status.INFEASIBLE),
            Rule.ANSWER_DENIED,
            "conv1: result.status",
            "infeasible is claimed, but there is a mapping",
        ),
        (
            replace(CLAIM, status=Status.UNKNOWN),
            Rule.ANSWER_DENIED,
            "conv1: result.status",
            "unknown is claimed, but there is a mapping",
        ),
    ],
)
def test_a_claim_that_contradicts_itself_is_said(claim: Claim, rule: Rule, subject: str, detail: str) -> None:
    for value in (1000.0, None):
        (violation,) = mapping_claim_violations(claim, "conv1", value)
        assert (violation.rule, violation.subject) == (rule, subject)
        assert violation.detail.lower() == detail.lower()


def test_a_claim_may_be_rounded_by_half_a_unit_where_nothing_else_is_inexact() -> None:
    assert is_value_of(replace(CLAIM, objective_value=0.5), 0.0)
