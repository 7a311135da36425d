"""Status and bound of a plan with split operators hold for all splits, not only for the split that was chosen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onchip.answer.document import Reading, Split
from onchip.answer.problem import Objective
from onchip.answer.result import Status
from onchip.api.plan import Request, plan_network
from onchip.api.plan_tilings import NO_PLAN, THIS_TILING
from onchip.api.target import Target
from onchip.reports.program.outcome import Outcome

SIZE = 64
"""Bytes of each tensor of the network."""


def network(folder: Path, kind: str = "Relu", joined: str = "Add") -> Path:
    """Write a network: an input is read again at the end, after a step that needs three other tensors."""
    roles = {"x": "input", "y": "output"}
    shape = {"shape": [1, 1, 8, 8], "bits": 8}
    tensors = [{"name": name, **shape, "role": roles.get(name, "activation")} for name in "xabcy"]
    edges = {"a": (kind, ["x"]), "b": (kind, ["a"]), "c": (joined, ["a", "b"]), "y": (joined, ["x", "c"])}
    operators = [
        {"name": f"op_{written}", "kind": kind, "inputs": read, "outputs": [written], "attributes": {}}
        for written, (kind, read) in edges.items()
    ]
    path = folder / "network.json"
    fields = {"format": "onchip-graph", "version": 1, "name": "skip", "tensors": tensors, "operators": operators}
    path.write_text(json.dumps(fields))
    return path


def planned(path: Path, sram_bytes: int, split: Split, objective: Objective = Objective.TRAFFIC) -> Outcome:
    return plan_network(Request(str(path), Reading(split=split), Target(sram_bytes), objective))


def test_a_proven_plan_of_one_split_is_feasible_if_another_split_may_be_better(tmp_path: Path) -> None:
    path = network(tmp_path)
    auto, always = (planned(path, 3 * SIZE, split) for split in (Split.AUTO, Split.ALWAYS))

    assert auto.result.objective_value == SIZE
    assert (auto.result.status, auto.result.lower_bound) == (Status.FEASIBLE, 0)
    assert auto.result.optimal_among == THIS_TILING
    assert (always.result.status, always.result.objective_value) == (Status.OPTIMAL, 0)
    assert always.result.optimal_among is None


@pytest.mark.parametrize("split", [Split.AUTO, Split.ALWAYS])
@pytest.mark.parametrize("objective", [Objective.TRAFFIC, Objective.PEAK])
@pytest.mark.parametrize("sram_bytes", [2 * SIZE + 8, 5 * SIZE // 2, 3 * SIZE, 4 * SIZE])
def test_no_bound_is_above_what_another_split_reaches(
    sram_bytes: int, objective: Objective, split: Split, tmp_path: Path
) -> None:
    path = network(tmp_path)
    result = planned(path, sram_bytes, split, objective).result
    others = (planned(path, sram_bytes, other, objective).result for other in Split)
    reached = [other.objective_value for other in others if other.objective_value is not None]

    assert all(result.lower_bound <= value for value in reached)
    assert result.status is not Status.OPTIMAL or result.objective_value == min(reached)
    assert result.status is not Status.INFEASIBLE or not reached


def test_a_network_that_cannot_be_split_keeps_its_proof(tmp_path: Path) -> None:
    result = planned(network(tmp_path, "NonMaxSuppression", "NonMaxSuppression"), 3 * SIZE, Split.AUTO).result

    assert (result.status, result.optimal_among) == (Status.OPTIMAL, None)


def test_no_plan_without_spills_of_one_split_is_not_infeasible(tmp_path: Path) -> None:
    result = planned(network(tmp_path), 3 * SIZE, Split.AUTO, Objective.PEAK).result

    assert (result.status, result.why_not) == (Status.UNKNOWN, NO_PLAN)
