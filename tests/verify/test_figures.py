"""Costs of a plan, compared with figures computed by hand."""

from __future__ import annotations

import pytest

from onchip.answer.problem import Objective
from onchip.verify.verifier import verify
from support.plan_tables import WORKED, Worked
from support.programs import CHAIN, SPILLED, TWO_SCRATCHPADS


@pytest.mark.parametrize("worked", WORKED, ids=str)
def test_figures_are_those_worked_out_by_hand(worked: Worked) -> None:
    verdict = verify(worked.case.problem, worked.case.plan)
    assert verdict.figures == worked.figures
    assert worked.agrees_with(verdict.figures, is_legal=verdict.is_legal)


def test_a_tensor_reloaded_at_another_offset_is_legal() -> None:
    verdict = verify(SPILLED.problem, SPILLED.plan)
    assert verdict.violations == ()
    assert verdict.figures.reloads == 4


def test_non_compulsory_traffic_is_what_remains_of_the_total() -> None:
    figures = verify(SPILLED.problem, SPILLED.plan).figures
    assert (figures.total, figures.compulsory, figures.non_compulsory) == (16, 8, 8)


def test_the_objective_traffic_is_the_cost_beyond_the_compulsory() -> None:
    by_name = {worked.what: worked.case for worked in WORKED}
    cycles = by_name["costs that are no bytes"]
    figures = verify(cycles.problem, cycles.plan).figures
    assert figures.non_compulsory == 0
    assert figures.objective_value(Objective.TRAFFIC) == figures.non_compulsory_cost == 50


def test_the_objective_peak_is_the_arena_not_the_live_bytes() -> None:
    figures = verify(CHAIN.problem, CHAIN.plan).figures
    assert (figures.objective_value(Objective.PEAK), figures.peak_bytes) == (12, 8)


def test_the_arena_of_several_scratchpads_is_their_sum() -> None:
    figures = verify(TWO_SCRATCHPADS.problem, TWO_SCRATCHPADS.plan).figures
    assert figures.arenas == (("left", 9), ("right", 8))
    assert figures.arena_bytes == 17


def test_a_plan_that_leaves_out_a_network_output_has_less_than_the_compulsory() -> None:
    figures = verify(CHAIN.problem, CHAIN.edited(8).plan).figures
    assert figures.non_compulsory == -5
