"""The nearest legal and the nearest illegal schedule for every rule of schedules."""

from __future__ import annotations

from dataclasses import replace

import pytest

import onchip.verify.schedule.tiles
from onchip.answer.result import Status
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.verify.rules import Rule
from support.mutants import reported_anywhere, reported_by
from support.schedule_cases import (
    HALF,
    RESIDENT,
    STREAMED,
    STREAMED_HOMES,
    TILED,
    ScheduleCase,
    mapped,
    price_without_energy,
    tensor,
    whole_stacks,
)
from support.schedule_refusals import (
    ADDED_AT_HOME,
    BANDED,
    CLAIM_REFUSALS,
    FORKED,
    FORKED_STACK,
    PROGRAM_REFUSALS,
    ROWS,
    STRUCTURE_REFUSALS,
    WEIGHED,
    ScheduleRefusal,
)

SCHEDULE_REFUSALS = (*STRUCTURE_REFUSALS, *PROGRAM_REFUSALS, *CLAIM_REFUSALS)
MODULES = ("costs", "machine", "nests", "streaming", "tiles", "verifier", "windows")
OTHERS = {Rule.TOO_MANY_TILES, Rule.OUTSIDE_CHECK_FAILED}
"""Rules with tests of their own: below, and in tests/verify/test_outside_checks.py."""


def test_every_rule_of_schedules_has_a_refusal() -> None:
    reported = reported_by(*(f"schedule/{module}" for module in MODULES))
    assert {rule for refusal in SCHEDULE_REFUSALS for rule in refusal.rules} >= reported - OTHERS


@pytest.mark.slow
def test_every_rule_there_is_is_reported_somewhere() -> None:
    assert reported_anywhere() >= set(Rule) - {Rule.LAYER_DIFFERS}


@pytest.mark.parametrize("refusal", SCHEDULE_REFUSALS, ids=str)
def test_the_nearest_legal_schedule_is_accepted(refusal: ScheduleRefusal) -> None:
    verdict = refusal.legal.verdict()
    assert verdict.violations == ()
    assert verdict.is_legal
    assert verdict.figures is not None


@pytest.mark.parametrize("refusal", SCHEDULE_REFUSALS, ids=str)
def test_the_nearest_illegal_schedule_is_refused_for_that_rule_alone(refusal: ScheduleRefusal) -> None:
    verdict = refusal.illegal.verdict()
    assert [violation.rule for violation in verdict.violations] == list(refusal.rules), verdict.violations
    assert verdict.violations[0].subject == refusal.subject
    assert not verdict.is_legal
    assert all("\n" not in str(violation) for violation in verdict.violations)


def test_more_tile_operators_than_a_schedule_may_have_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert onchip.verify.schedule.tiles.MOST_TILES == 50_000
    monkeypatch.setattr(onchip.verify.schedule.tiles, "MOST_TILES", 4)
    assert TILED.verdict().is_legal
    monkeypatch.setattr(onchip.verify.schedule.tiles, "MOST_TILES", 3)
    assert [violation.rule for violation in TILED.verdict().violations] == [Rule.TOO_MANY_TILES]


@pytest.mark.parametrize(
    ("case", "energy_fj", "latency_cycles", "traffic_bytes", "peak_bytes", "arenas"),
    [
        # x: 16 bytes through far, 10 + 2 and 2 + 1 pJ each; y the other way; w1 and w2: 20 bytes, 10 + 2; 2 Computes.
        # x 0-18, w1 18-38, conv1 38-48; w2 waits for w1's place, 48-52, conv2 52-62, y 62-80.
        (RESIDENT, 16 * 15_000 * 2 + 20 * 12_000 + 3_000, 80, 52, 130, (("near", 112), ("far", 18))),
        # Three operands have twelve or twenty bits each: 3 bytes read and 3 written, twice.
        (STREAMED, 3_000, 20, 12, 0, (("near", 0), ("far", 0))),
        # w1 0-20, conv1 20-30 (x: 12 bits), conv2 30-40 (w2: 12 bits, y: 20); sums and a tile of x next to a.
        (HALF, 18 * 12_000 + 3_000, 40, 18 + 2 + 2 + 3, 18 + 32 + 76, (("near", 108), ("far", 26))),
        (TILED, 6_000, 40, 24, 0, (("near", 0), ("far", 0))),
        (BANDED, 4_500, 30, 3 + 2 * 5, 96, (("near", 96), ("far", 0))),
        # w1 0-20, conv1 20-30 (x: 12 bits, a: 20), conv2 30-40 (24 bits and 20).
        (WEIGHED, 18 * 12_000 + 3_000, 40, 18 + 2 + 3 + 3 + 3, 18, (("near", 0), ("weights", 18))),
        # 12 bytes in and 12 out: rows of 6 bytes each.
        (ROWS, 24 * 10_000, 24, 24, 12, (("near", 0), ("far", 12))),
    ],
)
def test_figures_of_schedules_are_those_worked_out_by_hand(
    case: ScheduleCase, energy_fj: int, latency_cycles: int, traffic_bytes: int, peak_bytes: int, arenas: object
) -> None:
    figures = case.verdict().figures
    assert figures is not None
    assert (figures.energy_fj, figures.latency_cycles) == (energy_fj, latency_cycles)
    assert figures.edp == energy_fj * latency_cycles
    assert (figures.traffic_bytes, figures.peak_bytes, figures.arenas) == (traffic_bytes, peak_bytes, arenas)


def test_a_fork_runs_operator_by_operator_or_as_one_stack() -> None:
    assert FORKED.verdict().is_legal
    assert FORKED_STACK.verdict().is_legal


def test_the_second_map_of_an_addition_lies_where_inputs_do() -> None:
    verdict = ADDED_AT_HOME.verdict()
    assert verdict.violations == ()
    assert verdict.figures is not None
    assert verdict.figures.traffic_bytes == 3 * (2 + 3) + 2 * 16 + 3


def test_what_a_cost_model_has_said_is_not_checked() -> None:
    claimed, unclaimed = RESIDENT.verdict(), replace(RESIDENT, claim=None).verdict()
    assert claimed.not_checked[0] == "energy, cycles and DRAM bits of 2 mappings are those of the cost model"
    assert unclaimed.violations == ()
    assert claimed.not_checked == (*unclaimed.not_checked, "the lower bound itself")


def test_an_unknown_energy_can_not_be_claimed() -> None:
    unknown = replace(RESIDENT, prices=price_without_energy)
    figures = {"latency_cycles": 80, "traffic_bytes": 52}
    silent = unknown.claimed(objective="latency", objective_value=80, lower_bound=80, figures=figures)
    verdict = silent.verdict()
    assert verdict.violations == ()
    assert verdict.figures is not None
    assert (verdict.figures.energy_fj, verdict.figures.energy_pj, verdict.figures.edp) == (None, None, None)
    (violation,) = silent.claimed(figures={**figures, "latency_cycles": 81}).verdict().violations
    assert violation.detail == "81 is claimed, and it is 80"
    for energy_pj in (0, 720.0, 723.0):
        (violation,) = silent.claimed(figures={**figures, "energy_pj": energy_pj}).verdict().violations
        assert (violation.rule, violation.subject) == (Rule.FIGURE_DIFFERS, "result.energy_pj")
        assert "unknown, as the accelerator does not state all energies" in violation.detail
    for objective in ("energy", "edp"):
        (violation,) = silent.claimed(objective=objective, objective_value=0, lower_bound=0).verdict().violations
        assert (violation.rule, violation.subject) == (Rule.OBJECTIVE_DIFFERS, "result.objective_value")


def test_a_feasible_schedule_may_have_any_bound_below_its_value() -> None:
    feasible = RESIDENT.claimed(status=Status.FEASIBLE, lower_bound=0)
    assert feasible.verdict().violations == ()
    assert feasible.claimed(lower_bound=723_000).verdict().violations == ()


def test_what_is_wrong_with_a_workspace_stands_at_its_instruction() -> None:
    copied = RESIDENT.edited(6, "compute conv1", "copy conv1@workspace near dram")
    assert [(one.instruction, one.step) for one in copied.verdict().violations] == [(7, 1)]
    misplaced = RESIDENT.edited(5, "allocate conv1@workspace near 48", "allocate conv1@workspace far 100")
    assert [(one.instruction, one.step) for one in misplaced.verdict().violations] == [(6, 0)]


@pytest.mark.parametrize(("bits", "traffic_bytes"), [(8, 6 + 7), (16, 6 + 9)])
def test_outputs_that_no_nest_computes_are_written_with_their_own_bits(bits: int, traffic_bytes: int) -> None:
    """Two nests of three outputs each read 24 bits and write 20; two more outputs are zeros."""
    tensors = (
        tensor("x", (1, 1, 1, 3), Role.INPUT),
        tensor("w", (1, 1, 1, 2), Role.PARAMETER),
        Tensor.of_shape("y", (1, 1, 1, 8), bits, Role.OUTPUT),
    )
    spread = Operator("f", "ConvTranspose", ("x",), ("y",), ("w",), {"strides": [1, 3]})
    network, mapping = Graph("spread", tensors, (spread,)), mapped(0, Layer(q=3, output_bits=bits), STREAMED_HOMES)
    verdict = ScheduleCase(whole_stacks("f"), (mapping,), "compute f", network, tiles=network).verdict()
    assert verdict.violations == ()
    assert verdict.figures is not None
    assert verdict.figures.traffic_bytes == traffic_bytes
