"""Capacity curves of networks, compared with the exhaustive search at every single capacity."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from onchip.answer.document import Reading
from onchip.answer.operator_tiles import TilesOption
from onchip.answer.options.verb_options import CapacityOptions
from onchip.answer.problem import Count, Objective
from onchip.answer.result import Status
from onchip.api.plan import plan_problem
from onchip.api.target import roomy_problem
from onchip.arch.memory import Memory
from onchip.arch.sharing import Share
from onchip.errors import UsageError
from onchip.formats.own.graph_json import graph_to_json
from onchip.model.capacity.bounds import operator_need
from onchip.search.budget.limits import Limits
from onchip.sweeps.capacity import CapacityRequest, capacity_curve, unit_of
from oracles.one_scratchpad import least_traffic, random_graph
from oracles.states import random_graph_with_states
from support.diamond import diamond_fields
from support.series import series

SECONDS_OF_A_SEARCH = 0.05


def least_at(curve: Sequence[tuple[int, int | None, int | None]], capacity: int) -> int | None:
    (value,) = [value for first, last, value in curve if first <= capacity and (last is None or capacity <= last)]
    return value


@pytest.mark.parametrize("seed", series(range(12), 4))
@pytest.mark.parametrize("alignment_bytes", [1, 4])
def test_the_curve_is_the_least_at_every_capacity(tmp_path: Path, seed: int, alignment_bytes: int) -> None:
    graph = random_graph(seed, operators=5)
    path = tmp_path / "graph.json"
    path.write_text(graph_to_json(graph))

    outcome = capacity_curve(CapacityRequest(str(path), options=CapacityOptions(alignment_bytes=alignment_bytes)))

    assert outcome.is_proven
    curve = [(step.first, step.last, step.value) for step in outcome.steps]
    problem = roomy_problem(graph, Count.ACTIVATIONS, alignment_bytes)
    for capacity in range(curve[0][0], problem.memories[0].capacity_bytes + 1):
        at = replace(problem, memories=(Memory("sram", capacity, alignment_bytes),))
        assert least_at(curve, capacity) == least_traffic(at), capacity
    below = replace(problem, memories=(Memory("sram", curve[0][0] - 1, alignment_bytes),))
    assert least_traffic(below) is None


def test_the_curve_of_the_diamond_is_the_one_worked_out_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "diamond.json"
    path.write_text(json.dumps(diamond_fields()))

    outcome = capacity_curve(CapacityRequest(str(path)))

    assert [(step.first, step.last, step.value) for step in outcome.steps] == [(130, 159, 100), (160, None, 0)]
    assert [outcome.names_at(step) for step in outcome.steps] == [("M_R",), ("M_P",)]


def test_a_step_of_the_unit_is_the_least_that_matters(tmp_path: Path) -> None:
    problem = roomy_problem(random_graph(3, operators=5), Count.ACTIVATIONS)
    sizes = [tensor.size_bytes for tensor in problem.counted_tensors]
    assert all(size % unit_of(problem) == 0 for size in sizes)
    assert unit_of(roomy_problem(problem.graph, Count.ACTIVATIONS, 64)) == 1


def test_without_time_what_is_known_is_said() -> None:
    outcome = capacity_curve(CapacityRequest("densenet121", limits=Limits(1e-6)))
    assert not outcome.is_proven
    assert outcome.steps


def test_without_a_machine_nothing_says_what_a_transfer_takes() -> None:
    for objective in (Objective.DMA_CYCLES, Objective.DMA_ENERGY):
        with pytest.raises(UsageError, match="expected an accelerator, or traffic"):
            capacity_curve(CapacityRequest("lenet5", objective=objective))


def test_a_machine_of_several_scratchpads_is_refused() -> None:
    with pytest.raises(UsageError, match="several scratchpads: dtcm, axi_sram"):
        capacity_curve(CapacityRequest("lenet5", objective=Objective.DMA_CYCLES, accelerator="cortex-m7-like"))


@pytest.mark.parametrize("seed", range(6))
def test_least_cycles_of_transfers_are_the_least_at_every_capacity(tmp_path: Path, seed: int) -> None:
    graph = random_graph(seed, operators=5)
    path = tmp_path / "graph.json"
    path.write_text(graph_to_json(graph))
    asked = CapacityRequest(str(path), objective=Objective.DMA_CYCLES, accelerator=machine(tmp_path, bits_per_cycle=16))

    outcome = capacity_curve(asked)

    assert outcome.is_proven
    problem = outcome.problem
    curve = [(step.first, step.last, step.value) for step in outcome.steps]
    for capacity in range(curve[0][0], problem.memories[0].capacity_bytes + 1):
        memories = (replace(problem.memories[0], capacity_bytes=capacity),)
        assert least_at(curve, capacity) == least_traffic(replace(problem, memories=memories)), capacity


@pytest.mark.parametrize("seed", range(8))
def test_a_least_arena_is_one_step_from_itself_on(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "graph.json"
    path.write_text(graph_to_json(random_graph(seed, operators=5)))
    outcome = capacity_curve(CapacityRequest(str(path), objective=Objective.PEAK))
    ((first, last, value),) = [(step.first, step.last, step.value) for step in outcome.steps]
    assert (first, last) == (value, None)
    memory = Memory("sram", first - 1)
    assert plan_problem(replace(outcome.problem, memories=(memory,))).status is Status.INFEASIBLE


@pytest.mark.parametrize("objective", [Objective.TRAFFIC, Objective.PEAK])
def test_a_curve_of_a_network_with_state_is_that_of_plans_at_every_capacity(
    tmp_path: Path, objective: Objective
) -> None:
    """A persistent state that is overwritten may fit where no operator has room for its old and its new value."""
    below_loaded = 0
    for seed in range(30):
        path = tmp_path / "graph.json"
        path.write_text(graph_to_json(random_graph_with_states(seed, 3, greatest_size=3)))
        outcome = capacity_curve(
            CapacityRequest(str(path), objective=objective, options=CapacityOptions(share=Share.ALL))
        )
        curve = [(step.first, step.last, step.value) for step in outcome.steps]
        for capacity in range(max(1, curve[0][0] - 3), outcome.problem.memories[0].capacity_bytes + 1):
            memories = (replace(outcome.problem.memories[0], capacity_bytes=capacity),)
            value = plan_problem(replace(outcome.problem, memories=memories)).objective_value
            assert value == (None if capacity < curve[0][0] else least_at(curve, capacity)), (seed, capacity)
        if objective is Objective.TRAFFIC:
            assert curve[0][0] == outcome.budgets.required_bytes
        needs = [operator_need(outcome.problem, one).need_bytes for one in outcome.problem.graph.operators]
        below_loaded += curve[0][0] < max(needs)
    assert below_loaded > 0


def machine(folder: Path, bits_per_cycle: int) -> str:
    path = folder / "chip.yaml"
    path.write_text(
        "format: onchip-accelerator\nversion: 1\nname: chip\n"
        "memories: [{name: sram, capacity: 1KiB, holds: [input, weight, output], scratchpad: true}]\n"
        f"dram: {{ports: [{{direction: read_write, bits_per_cycle: {bits_per_cycle}}}]}}\n"
    )
    return str(path)


def test_in_tiles_the_curve_begins_below_the_largest_operator_and_falls() -> None:
    request = CapacityRequest("lenet5", reading=Reading(bits=8), limits=Limits(4.0))

    whole, tiled = (
        capacity_curve(request),
        capacity_curve(replace(request, options=CapacityOptions(tiles=TilesOption.AUTO))),
    )

    assert tiled.steps[0].first < whole.steps[0].first
    values = [step.value for step in tiled.steps if step.value is not None]
    assert values == sorted(values, reverse=True)
    assert all(step.value is None or step.value >= step.lower_bound for step in tiled.steps)
    assert values[-1] == whole.steps[-1].value == 0
