"""Sweeps in which operators may run again: every row equals the optimum over all instruction sequences."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import onchip
from onchip.answer.problem import Objective, Order, Problem, Recomputation
from onchip.arch.memory import Memory
from onchip.errors import UsageError
from onchip.formats.own.graph_json import read_graph
from oracles.recomputation import least_cost_with_recomputation
from support.diamond import Json, Program

SIZES = {"x": 1, "s": 4, "u": 1, "v": 6, "w": 1, "y": 1}
EDGES = {"make": ("x", "s"), "first": ("s", "u"), "widen": ("u", "v"), "narrow": ("v", "w"), "join": ("ws", "y")}
CAPACITIES = (7, 8, 10, 11)


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """Write a network with a map that is cheap to recompute: join reads it late, and another map needs its room."""
    fields: Json = {
        "format": "onchip-graph",
        "version": 1,
        "name": "waiting",
        "tensors": [
            {"name": name, "shape": [size], "bits": 8, "role": {"x": "input", "y": "output"}.get(name, "activation")}
            for name, size in SIZES.items()
        ],
        "operators": [
            {"name": name, "kind": "Softmax", "inputs": [*reads], "outputs": [written]}
            for name, (reads, written) in EDGES.items()
        ],
    }
    path = tmp_path / "waiting.json"
    path.write_text(json.dumps(fields))
    return path


def least(network: Path, capacity: int, costs: dict[str, int] | None, objective: str) -> int | None:
    """Return the least cost found by the oracle; without `costs` a further run costs more than everything else."""
    graph = read_graph(network)
    again = Recomputation(costs or dict.fromkeys(EDGES, 10**6))
    asked = Problem(graph, (Memory("sram", capacity),), Objective(objective), Order.FREE, recomputation=again)
    return least_cost_with_recomputation(asked, with_addresses=True)


@pytest.mark.slow
def test_each_point_is_planned_with_and_without_running_again(network: Path, tmp_path: Path) -> None:
    options = {"recompute": ["never", "allowed"], "recompute_price": 500_000}
    rows = onchip.sweep([network], store=tmp_path / "s.db", sram=CAPACITIES, options=options)

    found = {(row.parameters["sram"], row.options.get("recompute", "never")): row.answer for row in rows}
    halves = {name: -(-SIZES[written] // 2) for name, (_, written) in EDGES.items()}
    for capacity in CAPACITIES:
        assert found[capacity, "never"].objective_value == least(network, capacity, None, "traffic")
        assert found[capacity, "allowed"].objective_value == least(network, capacity, halves, "traffic")
    assert {answer.status for answer in found.values()} == {"OPTIMAL"}
    assert found[8, "allowed"].objective_value != found[8, "never"].objective_value


@pytest.mark.slow
def test_what_follows_of_other_capacities_is_what_is_computed(network: Path, tmp_path: Path) -> None:
    options, store = {"recompute": "allowed"}, tmp_path / "s.db"
    rows = onchip.sweep([network], minimize="recomputation", store=store, sram="7B..12B", options=options)
    cycles = {name: SIZES[written] for name, (_, written) in EDGES.items()}
    assert len(rows) == 6
    for row in rows:
        capacity = int(row.parameters["sram"])
        assert row.answer.objective_value == least(network, capacity, cycles, "recomputation")


@pytest.mark.slow
def test_a_plan_of_a_sweep_is_checked_with_what_runs_again(onchip: Program, network: Path, tmp_path: Path) -> None:
    store, plan = tmp_path / "s.db", tmp_path / "plan.json"
    how = ("--option", "recompute=allowed", "--option", "recompute_price=0")
    said = onchip("sweep", network, "--sram", "8B", *how, "--store", store, "--json")
    key = said.json["rows"][0]["key"]
    assert onchip("sweep", "--store", store, "--answer", key, "-o", plan).code == 0
    document = json.loads(plan.read_text())
    assert document["reading"]["recompute"] == "allowed"
    assert [one for one in document["instructions"] if one == {"compute": "make"}] == 2 * [{"compute": "make"}]
    assert onchip("check", plan, network).code == 0


@pytest.mark.parametrize("value", [-1, True, "much"])
def test_a_price_is_a_number_of_at_least_0(network: Path, tmp_path: Path, value: object) -> None:
    options = {"recompute": "allowed", "recompute_price": value}
    with pytest.raises(UsageError, match="recompute_price"):
        onchip.sweep([network], store=tmp_path / "s.db", sram=[8], options=options)
