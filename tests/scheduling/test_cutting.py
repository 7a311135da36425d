"""Other stacks for a whole schedule, chosen from fronts: it is only better for them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.schedule import ScheduledStack
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.ir.graph import Graph
from onchip.model.program.compute_cost import nest_cost
from onchip.scheduling.moves.cutting import Cutter, TiledRun
from onchip.scheduling.program.attempt import AttemptMaker, ScheduleAttempt
from onchip.scheduling.program.composition import NoMappingError
from onchip.scheduling.program.places import Places
from onchip.search.budget.limits import Limits, Run
from onchip.verify.schedule.machine import ScheduleSetting
from onchip.verify.schedule.verifier import verify_schedule
from support.small_schedules import ALONE, FULLY, TILED, grid_chip, maker, skip_network


def is_legal(attempt: ScheduleAttempt, network: Graph, accelerator: Accelerator) -> bool:
    setting = ScheduleSetting(network, accelerator, attempt.tiles.graph, 16)
    return not verify_schedule(setting, attempt.found().composition.schedule, None, nest_cost).violations


@pytest.mark.parametrize("objective", [ScheduleObjective.LATENCY, ScheduleObjective.EDP])
def test_a_layer_that_divides_badly_runs_in_tiles_that_divide(objective: ScheduleObjective) -> None:
    network, accelerator = skip_network(5, 5), grid_chip({"OX": 4, "OY": 4})
    making = maker(accelerator, network)
    making.question = replace(making.question, objective=objective)
    start = making.made(ALONE, Places())

    cutter = Cutter(making)
    found = cutter.improved(start, Run())

    assert found.value < start.value
    assert any(stack.tiling is not None for stack in found.stacks)
    assert is_legal(found, network, accelerator)
    for front in cutter.fronts.values():
        assert (
            not any(
                one.figures.is_no_more_than(other.figures)
                for one, other in pairwise((*front.options, *front.options[:1]))
            )
            or len(front.options) == 1
        )
    assert cutter.improved(found, Run()).value <= found.value


def test_where_units_divide_all_or_there_is_no_time_nothing_changes() -> None:
    even = maker(grid_chip({"OX": 4, "OY": 4}), skip_network(4, 4)).made(ALONE, Places())
    assert Cutter(maker(grid_chip({"OX": 4, "OY": 4}), skip_network(4, 4))).improved(even, Run()) is even

    making = maker(grid_chip({"OX": 4, "OY": 4}), skip_network(5, 5))
    odd = making.made(ALONE, Places())
    assert Cutter(making).improved(odd, Run(Limits(1e-9))) is odd


def test_what_has_no_mappings_in_tiles_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    making = maker(grid_chip({"OX": 4, "OY": 4}), skip_network(5, 5))
    start = making.made(ALONE, Places())

    def refuse(*_: object) -> None:
        raise NoMappingError("first", "nothing fits")

    monkeypatch.setattr(AttemptMaker, "made", refuse)
    cutter = Cutter(making)
    assert cutter.improved(start, Run()) is start
    assert not cutter.fronts


WORST = ScheduledStack(TILED.operators, Tiling(1, 1, OverlapMode.RECOMPUTE))


@pytest.mark.slow
def test_a_stack_in_bad_tiles_is_cut_into_operators_that_others_run_alone() -> None:
    network, accelerator = skip_network(5, 5), grid_chip({"OX": 4, "OY": 4})
    making = maker(accelerator, network)
    apart, start = making.made(ALONE, Places()), making.made((WORST, ALONE[3]), Places())

    cutter = Cutter(making)
    found = cutter.improved(start, Run(), [apart], [TiledRun(WORST, Places())])

    assert WORST.operators in cutter.fronts
    assert [len(stack.operators) for stack in found.stacks] == [1, 1, 1, 1]
    assert found.value < min(start.value, apart.value)
    assert is_legal(found, network, accelerator)


def test_operators_alone_are_cut_into_a_run_that_takes_less_in_tiles() -> None:
    network, accelerator = skip_network(4, 4), grid_chip({"OX": 2}, 100)
    making = maker(accelerator, network)
    apart = making.made(ALONE, Places())
    inside = {(0, name): "far" for name in "ab"}
    run = TiledRun(ScheduledStack(TILED.operators, Tiling(4, 2, FULLY)), Places(inside, inside))

    found = Cutter(making).improved(apart, Run(), (), [run])

    assert found.value < apart.value
    assert found.stacks[0].operators == TILED.operators
    assert is_legal(found, network, accelerator)


@pytest.mark.slow
def test_a_run_is_looked_at_in_strips_of_fewer_tiles_and_not_without_time() -> None:
    making = maker(grid_chip({"OX": 2}), skip_network(8, 8))
    apart = making.made(ALONE, Places())
    run = TiledRun(ScheduledStack(TILED.operators, Tiling(1, 1, FULLY)), Places())

    cutter = Cutter(making)
    cutter.improved(apart, Run(), (), [run])

    tilings = {one.stack.tiling for one in cutter.fronts[TILED.operators].options}
    assert len(tilings) > 1
    late = Cutter(making)
    assert late.improved(apart, Run(Limits(1e-9)), (), [run]) is apart
    assert TILED.operators not in late.fronts
