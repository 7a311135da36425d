"""Ties in a schedule's objective are broken by energy, then latency, then traffic."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.answer.options.schedule_objective import ScheduleObjective


@dataclass(frozen=True)
class Values:
    energy_fj: int
    latency_cycles: int
    traffic_bytes: int

    @property
    def edp(self) -> int:
        return self.energy_fj * self.latency_cycles


SMALL = st.integers(0, 3)
VALUES = st.builds(Values, SMALL, SMALL, SMALL)
BASE = Values(energy_fj=5, latency_cycles=5, traffic_bytes=5)


@given(VALUES, VALUES, st.sampled_from(ScheduleObjective))
def test_the_objective_decides_before_all_other_figures(
    one: Values, other: Values, objective: ScheduleObjective
) -> None:
    if objective.value_of(one) < objective.value_of(other):
        assert objective.key_of(one) < objective.key_of(other)


@given(VALUES, VALUES, st.sampled_from(ScheduleObjective))
def test_of_two_schedules_with_one_key_all_figures_are_the_same(
    one: Values, other: Values, objective: ScheduleObjective
) -> None:
    assert (objective.key_of(one) == objective.key_of(other)) == (one == other)


@given(VALUES, VALUES, st.sampled_from(ScheduleObjective))
def test_a_schedule_that_is_dominated_never_comes_first(
    one: Values, other: Values, objective: ScheduleObjective
) -> None:
    figures = ("energy_fj", "latency_cycles", "traffic_bytes")
    if all(getattr(one, name) <= getattr(other, name) for name in figures):
        assert objective.key_of(one) <= objective.key_of(other)


@pytest.mark.parametrize(
    ("objective", "better"),
    [
        ("latency", replace(BASE, energy_fj=4, traffic_bytes=9)),
        ("latency", replace(BASE, traffic_bytes=4)),
        ("traffic", replace(BASE, energy_fj=4, latency_cycles=9)),
        ("traffic", replace(BASE, latency_cycles=4)),
        ("energy", replace(BASE, latency_cycles=4, traffic_bytes=9)),
        ("energy", replace(BASE, traffic_bytes=4)),
        ("edp", replace(BASE, traffic_bytes=4)),
        ("edp", Values(energy_fj=1, latency_cycles=25, traffic_bytes=9)),
    ],
)
def test_ties_are_broken_by_energy_then_latency_then_traffic(objective: str, better: Values) -> None:
    kind = ScheduleObjective(objective)
    assert kind.value_of(better) == kind.value_of(BASE)
    assert min((BASE, better), key=kind.key_of) is better
