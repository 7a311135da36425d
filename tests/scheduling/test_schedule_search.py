"""The search of schedules: legal and deterministic, within its limits, no worse than with the groups that are given."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from onchip.answer.document import Reading
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import ScheduleOptions
from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.api.schedule import ScheduleRequest, schedule_network
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.program.compute_cost import nest_cost
from onchip.scheduling.params import ScheduleParams
from onchip.scheduling.program.attempt import AttemptMaker, ScheduleAttempt
from onchip.scheduling.program.composition import FoundSchedule, NoMappingError, ScheduleQuestion
from onchip.scheduling.program.places import Places
from onchip.scheduling.search.solve import ScheduleSearch, short_branches_first, solve_schedule
from onchip.search.budget.limits import Limits, Progress, Run
from onchip.verify.schedule.machine import ScheduleSetting
from onchip.verify.schedule.verifier import verify_schedule
from support.series import series
from support.small_schedules import ALONE, PRECISION, skip_chip, skip_network

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
ONLY_STARTS = ScheduleParams(rounds_without_limit=0)


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
        replace(options, partial_bits=8, uses_cache=False),
        reading=Reading(bits=8),
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


def solved(
    objective: ScheduleObjective,
    options: ScheduleOptions,
    case: tuple[tuple[int, int], tuple[int, int]] = ((2, 2), (40, 100)),
    run: Run | None = None,
) -> FoundSchedule:
    network, chip = case
    question = ScheduleQuestion(skip_network(*network), skip_chip(*chip), PRECISION, objective, uses_cache=False)
    found = solve_schedule(question, options, run or Run()).answer
    assert found is not None
    return found


@pytest.mark.parametrize("options", [ScheduleOptions("layers"), ScheduleOptions("one", (2, 2))])
@pytest.mark.parametrize("objective", series(ScheduleObjective, 1))
def test_two_runs_without_a_time_limit_find_the_same_schedule(
    objective: ScheduleObjective, options: ScheduleOptions
) -> None:
    first, again = (solved(objective, options) for _ in range(2))
    assert first.composition.schedule == again.composition.schedule


@pytest.mark.slow
@pytest.mark.parametrize("objective", [ScheduleObjective.TRAFFIC, ScheduleObjective.EDP])
def test_two_runs_over_every_group_find_the_same_schedule(objective: ScheduleObjective) -> None:
    first, again = (solved(objective, ScheduleOptions()) for _ in range(2))
    assert first.composition.schedule == again.composition.schedule


CASES = [((4, 4), (60, 200)), ((4, 4), (24, 400)), ((8, 2), (100, 100)), ((2, 8), (60, 1000))]
"""Networks by their channels and rows, and machines by the bytes of their two memories."""


@pytest.mark.parametrize("seconds", series([0.02, 0.5], 1))
@pytest.mark.parametrize("number", series(range(len(CASES)), 1))
@pytest.mark.parametrize("objective", ScheduleObjective)
def test_every_limited_search_ends_with_a_legal_schedule(
    objective: ScheduleObjective, number: int, seconds: float
) -> None:
    case = CASES[number]
    assert_legal(solved(objective, ScheduleOptions(), case, Run(Limits(seconds))), case)


@pytest.mark.parametrize("after", series([1, 3, 6], 2))
def test_an_interrupted_search_ends_with_the_best_schedule_that_it_has_told(after: int) -> None:
    interrupt, told = Event(), list[int]()
    case, objective = CASES[0], ScheduleObjective.ENERGY

    def hear(progress: Progress) -> None:
        if progress.best is not None:
            told.append(progress.best)
        if len(told) >= after:
            interrupt.set()

    run = Run(Limits(20.0), hear, interrupt=interrupt)
    found = solved(objective, ScheduleOptions(), case, run)

    assert_legal(found, case)
    assert objective.value_of(found.figures) <= min(told)


def assert_legal(found: FoundSchedule, case: tuple[tuple[int, int], tuple[int, int]]) -> None:
    network, chip = case
    setting = ScheduleSetting(skip_network(*network), skip_chip(*chip), found.tiles.graph, PRECISION.sum_bits)
    verdict = verify_schedule(setting, found.composition.schedule, None, nest_cost)
    assert not verdict.violations
    assert verdict.figures is not None
    figures, theirs = found.figures, verdict.figures
    assert (figures.energy_fj, figures.latency_cycles, figures.traffic_bytes) == (
        theirs.energy_fj,
        theirs.latency_cycles,
        theirs.traffic_bytes,
    )


def test_a_join_follows_the_longest_of_its_branches() -> None:
    kinds = {"first": ("x",), "long": ("first",), "longer": ("long",), "short": ("first",), "join": ("longer", "short")}
    operators = [Operator(name, "Add" if name == "join" else "Relu", read, (name,)) for name, read in kinds.items()]
    roles = {"x": Role.INPUT, "join": Role.OUTPUT}
    names = ("x", *kinds)
    tensors = tuple(Tensor.of_shape(name, (1, 1, 2, 2), 8, roles.get(name, Role.ACTIVATION)) for name in names)
    assert short_branches_first(Graph("join", tensors, tuple(operators))) == (
        "first",
        "short",
        "long",
        "longer",
        "join",
    )


def test_the_answer_is_the_best_of_several_starts() -> None:
    """Only starts are tried, and they differ."""
    question = ScheduleQuestion(
        skip_network(4, 4), skip_chip(40, 120), PRECISION, ScheduleObjective.LATENCY, uses_cache=False
    )
    told: list[Progress] = []
    search = ScheduleSearch(question, ScheduleOptions(), Run(listener=told.append), params=ONLY_STARTS)

    value = search.solved().objective_value

    values = [attempt.value for attempt in search.attempts]
    assert min(values) < max(values)
    assert value == min(values) == min(one.best for one in told if one.best is not None)


def test_an_earlier_schedule_is_the_answer_if_no_time_is_left_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    question = ScheduleQuestion(skip_network(), skip_chip(), PRECISION, ScheduleObjective.TRAFFIC, uses_cache=False)
    earlier = ScheduleSearch(question, ScheduleOptions(), Run(), params=ONLY_STARTS).solved().answer
    assert earlier is not None
    made, makers = AttemptMaker.made, list[AttemptMaker]()

    def made_once(maker: AttemptMaker, stacks: Sequence[ScheduledStack], places: Places) -> ScheduleAttempt:
        if any(one is maker for one in makers):
            raise ScheduleError("no time for its tile operators")
        makers.append(maker)
        return made(maker, stacks, places)

    monkeypatch.setattr(AttemptMaker, "made", made_once)
    options = ScheduleOptions(start=earlier.composition.schedule)
    found = ScheduleSearch(question, options, Run(), params=ONLY_STARTS).solved()
    assert found.objective_value == earlier.figures.traffic_bytes


@pytest.mark.parametrize("objective", series([ScheduleObjective.ENERGY, ScheduleObjective.LATENCY], 0))
def test_an_earlier_answer_is_never_made_worse(objective: ScheduleObjective) -> None:
    question = ScheduleQuestion(skip_network(), skip_chip(), PRECISION, objective, 0)
    earlier = solve_schedule(question, ScheduleOptions(), Run())
    assert earlier.answer is not None
    options = ScheduleOptions(start=earlier.answer.composition.schedule)

    class OnlyTheStart(ScheduleSearch):
        """A search that keeps the given start and makes no moves."""

        def _start_layer_by_layer(self) -> None: ...
        def _start_from_plan(self) -> None: ...
        def _start_from_blocks(self) -> None: ...
        def _improve_in_rounds(self) -> None: ...

    again = OnlyTheStart(question, options, Run()).solved()

    assert again.objective_value is not None
    assert earlier.objective_value is not None
    assert again.objective_value <= earlier.objective_value


def test_a_group_of_which_several_operators_have_no_mapping_runs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The repair of the first of these operators splits the whole group, so that the second needs none of its own."""
    network = skip_network()
    question = ScheduleQuestion(network, skip_chip(), PRECISION, ScheduleObjective.TRAFFIC, uses_cache=False)
    search, made = ScheduleSearch(question, ScheduleOptions(), Run(), params=ONLY_STARTS), AttemptMaker.made
    search._alone = search._maker.made(ALONE, Places())
    names = tuple(one.name for one in network.operators)

    def made_alone(maker: AttemptMaker, stacks: Sequence[ScheduledStack], places: Places) -> ScheduleAttempt:
        if len(stacks) < len(names):
            raise NoMappingError(f"{names[0]}#0", "no mapping fits", [f"{names[1]}#0"])
        return made(maker, stacks, places)

    monkeypatch.setattr(AttemptMaker, "made", made_alone)
    group = ScheduledStack(names, Tiling(1, 1, OverlapMode.RECOMPUTE))
    repaired = search._repaired((group,), Places())
    assert repaired is not None
    assert sorted(one.operators[0] for one in repaired.stacks) == sorted(names)
