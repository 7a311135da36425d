"""Status and bound of a plan in tiles hold for all tilings, not only for the tiling that was chosen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onchip.answer.document import Reading
from onchip.answer.operator_tiles import TilesOption
from onchip.answer.problem import Objective, Order
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


def planned(
    path: Path, sram_bytes: int, objective: Objective = Objective.TRAFFIC, order: Order | None = None
) -> Outcome:
    asked = Request(str(path), Reading(), Target(sram_bytes), objective, order, tiles=TilesOption.AUTO)
    return plan_network(asked)


def test_a_proven_plan_of_one_tiling_is_feasible_if_another_tiling_may_be_better(tmp_path: Path) -> None:
    path = network(tmp_path)
    alone, fused = planned(path, 5 * SIZE // 2, order=Order.GIVEN), planned(path, 5 * SIZE // 2)

    assert alone.result.objective_value
    assert (alone.result.status, alone.result.lower_bound) == (Status.FEASIBLE, 0)
    assert alone.result.optimal_among == THIS_TILING
    assert (fused.result.status, fused.result.objective_value) == (Status.OPTIMAL, 0)
    assert fused.result.optimal_among is None


@pytest.mark.parametrize("objective", [Objective.TRAFFIC, Objective.PEAK])
@pytest.mark.parametrize("sram_bytes", [2 * SIZE + 8, 5 * SIZE // 2, 3 * SIZE, 4 * SIZE])
def test_no_bound_is_above_what_another_tiling_reaches(sram_bytes: int, objective: Objective, tmp_path: Path) -> None:
    path = network(tmp_path)
    results = [planned(path, sram_bytes, objective, order).result for order in (Order.FREE, Order.GIVEN)]
    reached = [one.objective_value for one in results if one.objective_value is not None]
    for result in results:
        assert all(result.lower_bound <= value for value in reached)
        assert result.status is not Status.OPTIMAL or result.objective_value == min(reached)
        assert result.status is not Status.INFEASIBLE or not reached


def test_a_network_that_cannot_be_tiled_keeps_its_proof(tmp_path: Path) -> None:
    result = planned(network(tmp_path, "NonMaxSuppression", "NonMaxSuppression"), 3 * SIZE).result

    assert (result.status, result.optimal_among) == (Status.OPTIMAL, None)


def test_no_plan_without_spills_of_one_tiling_is_not_infeasible(tmp_path: Path) -> None:
    result = planned(network(tmp_path), 5 * SIZE // 2, Objective.PEAK, Order.GIVEN).result

    assert (result.status, result.why_not) == (Status.UNKNOWN, NO_PLAN)
