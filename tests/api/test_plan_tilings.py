"""`plan --tiles`: the tiling found, the scope of status and bound, and the file that records it."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest

from onchip.answer.document import RECOMPUTED_MACS, Reading
from onchip.answer.operator_tiles import TilesOption
from onchip.answer.problem import Count, Objective, Order
from onchip.answer.result import Status
from onchip.api.check import check_plan
from onchip.api.plan import THIS_TILING, WHOLE_OPERATORS, Request, plan_network
from onchip.api.run import RunValues, run_plan
from onchip.api.target import Target
from onchip.errors import UntiledError
from onchip.formats.own.graph_json import write_graph
from onchip.formats.own.plan_json import write_plan
from onchip.model.timeline.mac_count import MacCount
from onchip.reports.program.outcome import Outcome
from onchip.search.budget.limits import Limits
from onchip.verify.rules import Rule
from support.tiled import Network, convolution

WHOLE_NEED = 12 * 64 * 2
"""Bytes of the depthwise convolution's two maps."""


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """Save an inverted bottleneck of 2, 12 and 2 channels with 8 x 8 pixels."""
    small = Network(8)
    image = small.input(1, 2, 8, 8)
    wide = convolution(small, image, 12, (1, 1)) or ""
    deep = convolution(small, wide, 12, (3, 3), groups=12) or ""
    narrow = convolution(small, deep, 2, (1, 1)) or ""
    small.add("Add", [image, narrow], small.shape(image))
    path = tmp_path / "network.json"
    write_graph(small.graph(), path)
    return path


def planned(
    network: Path,
    sram_bytes: int | None,
    tiles: TilesOption | None = None,
    objective: Objective = Objective.TRAFFIC,
    count: Count = Count.ACTIVATIONS,
) -> Outcome:
    return plan_network(Request(str(network), Reading(count=count), Target(sram_bytes), objective, tiles=tiles))


def test_tiles_are_the_default_where_an_operator_does_not_fit(network: Path) -> None:
    result = planned(network, WHOLE_NEED // 2).result
    assert (result.status, result.objective_value, result.space) == (Status.OPTIMAL, 0, None)


def test_whole_operators_are_the_default_where_all_fit(network: Path) -> None:
    outcome = planned(network, None, objective=Objective.PEAK)
    assert (outcome.result.status, outcome.result.space) == (Status.OPTIMAL, WHOLE_OPERATORS)
    assert len(outcome.problem.graph.operators) == 4


def test_never_keeps_operators_whole(network: Path) -> None:
    assert planned(network, WHOLE_NEED // 2, TilesOption.NEVER).result.status is Status.INFEASIBLE


@pytest.mark.parametrize("count", list(Count))
def test_the_least_arena_of_a_tiling_is_not_claimed_to_be_that_of_all(network: Path, count: Count) -> None:
    result = planned(network, None, TilesOption.AUTO, Objective.PEAK, count).result
    assert result.objective_value is not None
    assert result.objective_value < WHOLE_NEED / 2
    assert result.status is Status.FEASIBLE
    assert result.lower_bound < result.objective_value
    assert result.optimal_among in (THIS_TILING, None)


def test_a_scratchpad_smaller_than_the_smallest_part_is_proven_infeasible(network: Path) -> None:
    with pytest.raises(UntiledError) as refused:
        planned(network, 9)
    assert refused.value.is_proven


@pytest.mark.parametrize("objective", [Objective.TRAFFIC, Objective.PEAK])
def test_a_plan_file_records_its_tiles(network: Path, objective: Objective, tmp_path: Path) -> None:
    outcome, file = planned(network, WHOLE_NEED // 2, TilesOption.AUTO, objective), tmp_path / "plan.json"
    assert outcome.document is not None
    assert outcome.document.reading.tiles
    write_plan(outcome.document, file)
    check = check_plan(file, str(network), Target(), {})
    assert check.verdict.is_legal
    assert check.sha256 == outcome.document.graph.sha256


def test_in_the_given_order_the_tiles_of_an_operator_follow_one_another(network: Path, tmp_path: Path) -> None:
    asked = Request(str(network), Reading(), Target(WHOLE_NEED // 2), order=Order.GIVEN, tiles=TilesOption.AUTO)
    outcome, file = plan_network(asked), tmp_path / "plan.json"
    names = [one.name if one.tile is None else one.tile.operator for one in outcome.problem.graph.operators]
    assert len(names) > len(set(names))
    assert [name for name, _ in groupby(names)] == list(dict.fromkeys(names))
    assert outcome.document is not None
    write_plan(outcome.document, file)
    assert check_plan(file, str(network), Target(), {}).verdict.is_legal


def test_several_scratchpads_have_operators_tiled_one_by_one(tmp_path: Path) -> None:
    asked = Request("lenet5", target=Target(accelerator="nvdla-like@32KiB"), tiles=TilesOption.AUTO)
    outcome, file = plan_network(replace(asked, reading=Reading(count=Count.ALL))), tmp_path / "plan.json"
    assert outcome.document is not None
    assert outcome.document.reading.tiles
    write_plan(outcome.document, file)
    assert check_plan(file, "lenet5", Target(), {}).verdict.is_legal


@pytest.mark.parametrize("count", list(Count))
def test_tiles_compute_the_values_of_the_network(network: Path, count: Count, tmp_path: Path) -> None:
    outcome, file = planned(network, None, TilesOption.AUTO, Objective.PEAK, count), tmp_path / "plan.json"
    assert outcome.document is not None
    assert outcome.document.reading.tiles
    write_plan(outcome.document, file)
    execution = run_plan(file, str(network), RunValues())
    assert execution.is_right


def test_recomputed_borders_need_less_and_are_counted_again(tmp_path: Path) -> None:
    """Two inverted bottlenecks: rows of the wide maps are computed again within the limit on recomputation."""
    network = Network(8)
    source = network.input(1, 2, 12, 1)
    for _ in range(2):
        wide = convolution(network, source, 12, (1, 1)) or ""
        source = convolution(network, convolution(network, wide, 12, (3, 1), groups=12) or "", 2, (1, 1)) or ""
    path, plan = tmp_path / "network.json", tmp_path / "plan.json"
    write_graph(network.graph(), path)
    limits = Limits(node_limit=200)
    request = Request(str(path), objective=Objective.PEAK, tiles=TilesOption.AUTO, limits=limits)
    arenas = []
    for most_again in (0.0, 0.2, 1.0):
        outcome = plan_network(replace(request, most_again=most_again))
        assert outcome.document is not None
        assert outcome.document.claim is not None
        write_plan(outcome.document, plan)
        macs = outcome.document.claim.figures[RECOMPUTED_MACS]
        once = sum(map(MacCount(network.graph()).macs, network.operators))
        assert macs <= most_again * once
        assert check_plan(plan, str(path), Target(), {}).verdict.is_legal
        assert run_plan(plan, str(path), RunValues()).is_right
        arenas.append(outcome.result.objective_value or 0)
    assert arenas == sorted(arenas, reverse=True)
    assert arenas[-1] < arenas[0]
    assert macs > 0
    plan.write_text(plan.read_text().replace(f'"{RECOMPUTED_MACS}": {macs}', f'"{RECOMPUTED_MACS}": 0'))
    (violation,) = check_plan(plan, str(path), Target(), {}).verdict.violations
    assert (violation.rule, violation.subject) == (Rule.FIGURE_DIFFERS, RECOMPUTED_MACS)
