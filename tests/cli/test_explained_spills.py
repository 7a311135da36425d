"""The most expensive spills are explained one by one; the others are summed up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

from support.diamond import Program

SPILLED = 13


def kept_across_a_full_step() -> dict[str, object]:
    """Return a graph of tensors of 11 to 23 bytes, each live across a step that leaves no room for it."""
    ids = range(1, SPILLED + 1)
    tensors = [{"name": "x", "bytes": 5, "role": "input"}, {"name": "wide", "bytes": 60, "role": "activation"}]
    tensors += [{"name": f"kept{i}", "bytes": 10 + i, "role": "activation"} for i in ids]
    tensors += [{"name": "whole", "bytes": 60, "role": "output"}]
    tensors += [{"name": f"end{i}", "bytes": 1, "role": "output"} for i in ids]
    operators = [{"name": f"write{i}", "kind": "Op", "inputs": ["x"], "outputs": [f"kept{i}"]} for i in ids]
    operators += [{"name": "widen", "kind": "Op", "inputs": ["x"], "outputs": ["wide"]}]
    operators += [{"name": "fill", "kind": "Op", "inputs": ["wide"], "outputs": ["whole"]}]
    operators += [{"name": f"read{i}", "kind": "Op", "inputs": [f"kept{i}"], "outputs": [f"end{i}"]} for i in ids]
    return {"format": "onchip-graph", "version": 1, "name": "full", "tensors": tensors, "operators": operators}


def test_what_is_not_told_one_by_one_is_summed_up(onchip: Program, tmp_path: Path) -> None:
    network, plan = tmp_path / "full.json", tmp_path / "plan.json"
    network.write_text(json.dumps(kept_across_a_full_step()))
    assert onchip("plan", network, "--sram", "120", "--order", "given", "-o", plan).code == 0

    costs = [cause["cost"] for cause in onchip("explain", plan, network, "--json").json["absences"]]
    words = " ".join(onchip("explain", plan, network).out.split())

    assert costs == [2 * (10 + i) for i in range(SPILLED, 0, -1)]
    assert f"And 3 times more, at {sum(costs[10:])}; --json has all." in words


def test_bands_of_one_tensor_are_told_together(onchip: Program, tmp_path: Path) -> None:
    network, plan, graph = tmp_path / "full.json", tmp_path / "plan.json", kept_across_a_full_step()
    for tensor in cast("list[dict[str, object]]", graph["tensors"]):
        if (name := str(tensor["name"])).startswith("kept"):
            number, size = int(name.removeprefix("kept")), tensor.pop("bytes")
            tensor |= {"shape": [1, size], "bits": 8, "part_of": "map", "region": [[number - 1, number], [0, size]]}
    network.write_text(json.dumps(graph))
    assert onchip("plan", network, "--sram", "120", "--order", "given", "-o", plan).code == 0

    costs = [cause["cost"] for cause in onchip("explain", plan, network, "--json").json["absences"]]
    words = " ".join(onchip("explain", plan, network).out.split())

    assert f"13 tiles of map, 13 times at {sum(costs)}; the most expensive: kept13 (23 bytes) costs {costs[0]}" in words
    assert words.count("evicted in step") == 1
    assert "more, at" not in words
