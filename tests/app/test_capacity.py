"""Curves of networks, held against the exhaustive search at every single capacity."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from onchip.answer.problem import Count, Objective
from onchip.app.capacity import CapacityRequest, capacity_curve, unit_of
from onchip.arch.memory import Memory
from onchip.errors import UsageError
from onchip.formats.own.graph_json import graph_to_json
from onchip.solve.run.budgets import roomy_problem
from onchip.solve.run.limits import Limits
from oracles.one_scratchpad import least_traffic, random_graph
from support.diamond import diamond_fields


def least_at(curve: list[tuple[int, int | None, int | None]], capacity: int) -> int | None:
    (value,) = [value for first, last, value in curve if first <= capacity and (last is None or capacity <= last)]
    return value


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("alignment_bytes", [1, 4])
def test_the_curve_is_the_least_at_every_capacity(tmp_path: Path, seed: int, alignment_bytes: int) -> None:
    graph = random_graph(seed, operators=5)
    path = tmp_path / "graph.json"
    path.write_text(graph_to_json(graph))

    outcome = capacity_curve(CapacityRequest(str(path), alignment_bytes=alignment_bytes))

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


def test_other_objectives_are_refused() -> None:
    with pytest.raises(UsageError, match="expected traffic"):
        capacity_curve(CapacityRequest("lenet5", objective=Objective.PEAK))
