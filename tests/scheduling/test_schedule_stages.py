"""Stage by stage first, then all choices together from there; tiles are tried as long as operators alone are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.schedule_options import ScheduleOptions
from onchip.answer.stacks import OverlapMode
from onchip.api.schedule import ScheduleRequest, schedule_network
from onchip.scheduling.program.question import FoundSchedule, ScheduleQuestion
from onchip.scheduling.search.solve import solve_schedule
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits, Run
from support.series import series
from support.skip_network import PRECISION, skip_chip, skip_network

GRID = """format: onchip-accelerator
version: 1
name: grid
array: {dimensions: {column: 8, row: 8}, mac_energy_pj: 0.5}
memories:
  - {name: weight_register, capacity: 1B, holds: [weight], serves: [],
     access_bits: 8, read_energy_pj: 0.01, write_energy_pj: 0.01,
     ports: [{direction: read, bits_per_cycle: 8}, {direction: write, bits_per_cycle: 8}]}
  - {name: sram, capacity: 4096B, holds: [input, weight, output], serves: [column, row], scratchpad: true,
     double_buffered: true, access_bits: 8, read_energy_pj: 20, write_energy_pj: 20,
     ports: [{direction: read, bits_per_cycle: 16384}, {direction: write, bits_per_cycle: 16384}]}
dram: {access_bits: 16, read_energy_pj: 1000, write_energy_pj: 1000,
       ports: [{direction: read_write, bits_per_cycle: 16}]}
"""
ATTRIBUTES = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}


def two_convolutions() -> str:
    roles = ("input", "activation", "output")
    maps = [{"name": f"t{at}", "shape": [1, 16, 16, 16], "bits": 8, "role": role} for at, role in enumerate(roles)]
    weights = [{"name": f"w{at}", "shape": [16, 16, 3, 3], "bits": 8, "role": "parameter"} for at in range(2)]
    operators = [
        {"name": f"conv{at}", "kind": "Conv", "inputs": [f"t{at}"], "parameters": [f"w{at}"]}
        | {"outputs": [f"t{at + 1}"], "attributes": ATTRIBUTES, "members": [f"conv{at}"]}
        for at in range(2)
    ]
    graph = {"format": "onchip-graph", "version": 1, "name": "two", "tensors": [*maps, *weights]}
    return json.dumps(graph | {"operators": operators})


def value_of(folder: Path, options: ScheduleOptions) -> int:
    request = ScheduleRequest(
        str(folder / "two.json"),
        str(folder / "grid.yaml"),
        ScheduleObjective.LATENCY,
        options,
        partial_bits=8,
        uses_cache=False,
    )
    value = schedule_network(request).result.objective_value
    assert value is not None
    return value


@pytest.mark.slow
def test_two_convolutions_end_no_later_than_in_tiles_that_were_given(tmp_path: Path) -> None:
    (tmp_path / "two.json").write_text(two_convolutions())
    (tmp_path / "grid.yaml").write_text(GRID)

    free = value_of(tmp_path, ScheduleOptions())

    assert free <= value_of(tmp_path, ScheduleOptions("one", (8, 16), OverlapMode.H_CACHED))


def solved(objective: ScheduleObjective, options: ScheduleOptions, seconds: float | None = None) -> FoundSchedule:
    question = ScheduleQuestion(skip_network(2, 2), skip_chip(40, 100), PRECISION, objective, uses_cache=False)
    found = solve_schedule(question, options, Run(Limits(seconds))).answer
    assert found is not None
    return found


CASES = [((4, 4), (60, 200)), ((4, 4), (24, 400)), ((8, 2), (100, 100)), ((2, 8), (60, 1000))]
"""Networks by their channels and rows, and machines by the bytes of their two memories."""


def solved_in_work(
    options: ScheduleOptions, objective: ScheduleObjective, work: float, case: tuple[tuple[int, int], ...] = CASES[0]
) -> FoundSchedule:
    """What so much counted work finds, whatever time that takes."""
    network, chip = case
    question = ScheduleQuestion(skip_network(*network), skip_chip(*chip), PRECISION, objective, uses_cache=False)
    run = Run(Limits(work), deadline=Deadline.after(1000.0)).for_work(work)
    found = solve_schedule(question, options, run).answer
    assert found is not None
    assert not found.are_stages_cut
    return found


@pytest.mark.parametrize("weighs_mappings", [False, True])
@pytest.mark.parametrize("objective", [ScheduleObjective.LATENCY, ScheduleObjective.EDP])
def test_the_same_work_finds_the_same_schedule(objective: ScheduleObjective, *, weighs_mappings: bool) -> None:
    """It counts steps and no clock, so that two runs end alike."""
    options = ScheduleOptions(weighs_mappings=weighs_mappings)
    first, again = (solved_in_work(options, objective, 0.2) for _ in range(2))
    assert first.composition.schedule == again.composition.schedule
    assert first.value_of_stages == again.value_of_stages


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("objective", [ScheduleObjective.LATENCY, ScheduleObjective.EDP, ScheduleObjective.TRAFFIC])
def test_all_choices_together_are_never_worse_than_stages_in_a_run_of_their_own(
    objective: ScheduleObjective, case: tuple[tuple[int, int], ...]
) -> None:
    """Both have the same limit, of which the stages have the same work."""
    apart = solved_in_work(ScheduleOptions(weighs_mappings=False), objective, 0.15, case)
    joint = solved_in_work(ScheduleOptions(), objective, 0.15, case)
    assert joint.value_of_stages == apart.value_of_stages == objective.value_of(apart.figures)
    assert objective.value_of(joint.figures) <= objective.value_of(apart.figures)


def test_stages_that_have_no_time_for_their_work_are_cut() -> None:
    question = ScheduleQuestion(
        skip_network(4, 4), skip_chip(60, 200), PRECISION, ScheduleObjective.LATENCY, uses_cache=False
    )
    late = Run(Limits(100.0), deadline=Deadline.after(100.0, seconds_ago=100.0))
    found = solve_schedule(question, ScheduleOptions(), late).answer
    assert found is not None
    assert found.are_stages_cut


@pytest.mark.parametrize("seconds", series([0.02, 0.5], 1))
@pytest.mark.parametrize("objective", ScheduleObjective)
def test_all_choices_together_are_never_worse_than_the_stages_they_began_from(
    objective: ScheduleObjective, seconds: float
) -> None:
    found = solved(objective, ScheduleOptions("layers"), seconds)
    assert found.value_of_stages is not None
    assert objective.value_of(found.figures) <= found.value_of_stages


@pytest.mark.parametrize("objective", series([ScheduleObjective.TRAFFIC, ScheduleObjective.EDP], 1))
def test_the_stages_are_what_is_found_where_nothing_is_weighed(objective: ScheduleObjective) -> None:
    apart = solved(objective, ScheduleOptions("layers", weighs_mappings=False))
    assert apart.value_of_stages == objective.value_of(apart.figures)
    assert solved(objective, ScheduleOptions("layers")).value_of_stages == apart.value_of_stages
