from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.diamond import Program
from support.reports import facts_of
from support.toy_chip import CHIP

MACHINE = """
format: onchip-accelerator
version: 1
name: small
memories:
  - {name: sram, capacity: CAPACITY, holds: [input, weight, output], scratchpad: true}
dram: {access_bits: 8, read_energy_pj: 1, write_energy_pj: 1, ports: [{direction: read_write, bits_per_cycle: 8}]}
dma: {queues: 1, setup_cycles: 0}
"""


def tensor(name: str, role: str, channels: int = 4) -> dict[str, object]:
    return {"name": name, "shape": [channels, 2], "bits": 8, "role": role}


@pytest.fixture
def stated(tmp_path: Path) -> Path:
    """Write a network of two products whose files state cycles; the second also has channel tiles."""
    tensors = [tensor("x", "input"), tensor("v", "parameter"), tensor("h", "activation")]
    tensors += [tensor("w", "parameter"), tensor("y", "output")]
    operators = [
        {"name": "a", "kind": "MatMul", "inputs": ["x"], "parameters": ["v"], "outputs": ["h"], "cycles": 3},
        {
            "name": "b",
            "kind": "MatMul",
            "inputs": ["h"],
            "parameters": ["w"],
            "outputs": ["y"],
            "cycles": 8,
            "splits": {"axis": "channels", "inputs": "whole", "ways": [{"parts": 4, "cycles": 2}]},
        },
    ]
    path = tmp_path / "stated.json"
    fields = {"format": "onchip-graph", "version": 1, "name": "stated", "tensors": tensors, "operators": operators}
    path.write_text(json.dumps(fields))
    return path


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(MACHINE.replace("CAPACITY", "64B"))
    return path


@pytest.fixture
def timed(onchip: Program, stated: Path, machine: Path, tmp_path: Path) -> Path:
    path = tmp_path / "timed.json"
    ended = onchip("plan", stated, "--accelerator", machine, "--objective", "latency", "-o", path, "--json")
    assert ended.code == 0, ended.err
    found = ended.json
    assert (found["status"], found["objective_unit"], found["method"]) == ("OPTIMAL", "cycles", "timed")
    assert found["objective_value"] == found["lower_bound"] == 4 * 8  # bytes moved
    assert sum(found["latency_parts"].values()) == found["objective_value"]
    return path


def test_the_last_operator_runs_in_bands_and_the_plan_says_so(timed: Path, onchip: Program, stated: Path) -> None:
    plan = json.loads(timed.read_text())
    assert plan["reading"]["bands"] == {"b": 4}
    assert plan["durations"] == {"queues": 1, "setup_cycles": 0, "has_one_channel": True, "cycles": {}}
    ended = onchip("check", timed, stated)
    assert ended.code == 0, ended.out


def test_the_timeline_ends_when_the_plan_says(timed: Path, onchip: Program, stated: Path, machine: Path) -> None:
    ended = onchip("time", timed, stated, "--accelerator", machine, "--json")
    assert ended.json["total_cycles"] == 32
    assert sum(ended.json["latency_parts"].values()) == 32


def test_a_trace_of_the_plan_is_in_time_without_a_machine(
    timed: Path, onchip: Program, stated: Path, tmp_path: Path
) -> None:
    path = tmp_path / "trace.json"
    assert onchip("export", timed, stated, "--to", "trace", "-o", path).code == 0
    trace = json.loads(path.read_text())
    assert sum(trace["otherData"]["latency_parts"].values()) == 32
    assert max(one["ts"] + one["dur"] for one in trace["traceEvents"] if one.get("cat") == "operator") <= 32


def test_the_page_of_the_plan_has_its_own_timeline(timed: Path, onchip: Program, stated: Path, tmp_path: Path) -> None:
    path = tmp_path / "plan.html"
    assert onchip("report", timed, stated, "-o", path).code == 0
    figure = facts_of(path.read_text())["figures"]["timeline-plot"]
    assert (figure["x"], figure["lanes"]) == ([0, 32], ["array", "DMA 0", "DRAM"])
    assert [row["name"] for row in figure["memories"]] == ["sram"]


def test_the_graph_of_the_plan_has_each_band_with_its_cycles(
    timed: Path, onchip: Program, stated: Path, tmp_path: Path
) -> None:
    path = tmp_path / "bands.json"
    assert onchip("export", timed, stated, "--to", "graph", "-o", path).code == 0
    operators = {one["name"]: one for one in json.loads(path.read_text())["operators"]}
    assert list(operators) == ["a", "b#0", "b#1", "b#2", "b#3"]
    assert operators["b#1"]["cycles"] == 2


def test_a_latency_that_is_not_the_plans_is_a_violation(timed: Path, onchip: Program, stated: Path) -> None:
    plan = json.loads(timed.read_text())
    plan["result"] |= {"objective_value": 31, "lower_bound": 31}
    timed.write_text(json.dumps(plan))
    ended = onchip("check", timed, stated)
    assert ended.code == 1
    assert "31" in ended.out
    assert "32" in ended.out


@pytest.mark.parametrize("field", ["durations", "rates"])
def test_a_plan_that_does_not_say_how_long_things_last_is_refused(
    field: str, timed: Path, onchip: Program, stated: Path
) -> None:
    plan = json.loads(timed.read_text())
    del plan[field]
    timed.write_text(json.dumps(plan))
    ended = onchip("check", timed, stated)
    assert ended.code == 2
    assert field in ended.err
    assert ended.err.count("\n") == 1


def test_a_given_order_is_kept(onchip: Program, stated: Path, machine: Path) -> None:
    ended = onchip("plan", stated, "--accelerator", machine, "--objective", "latency", "--order", "given", "--json")
    assert ended.json["objective_value"] == 32


def test_what_fits_in_no_way_is_infeasible(onchip: Program, stated: Path, machine: Path) -> None:
    machine.write_text(MACHINE.replace("CAPACITY", "12B"))
    ended = onchip("plan", stated, "--accelerator", machine, "--objective", "latency", "--json")
    assert ended.code == 3
    assert ended.json["operator"] == "a"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--method", "exact"), "dma-cycles"),
        (("--order", "min-peak"), "free, given"),
        (("--placement", "static"), "dynamic"),
    ],
)
def test_what_is_not_supported_is_said(
    options: tuple[str, ...], expected: str, onchip: Program, stated: Path, machine: Path
) -> None:
    ended = onchip("plan", stated, "--accelerator", machine, "--objective", "latency", *options)
    assert ended.code == 2
    assert expected in ended.err


@pytest.mark.parametrize("objective", ["latency", "dma-cycles", "dma-energy"])
@pytest.mark.parametrize("size", ["64", "m_r"])
def test_a_size_alone_says_nothing_of_time_or_energy(onchip: Program, stated: Path, size: str, objective: str) -> None:
    ended = onchip("plan", stated, "--sram", size, "--objective", objective)
    assert ended.code == 2
    assert ended.err.startswith(f"onchip: --objective {objective}: {objective} needs transfer rates")


@pytest.mark.parametrize("verb", ["plan", "capacity"])
@pytest.mark.parametrize("objective", ["dma-cycles", "dma-energy"])
def test_a_machine_that_says_too_little_is_named_with_its_file(
    onchip: Program, stated: Path, tmp_path: Path, verb: str, objective: str
) -> None:
    path = tmp_path / "mute.yaml"
    memory = "{name: sram, capacity: 64, scratchpad: true}"
    path.write_text(f"format: onchip-accelerator\nversion: 1\nname: mute\nmemories:\n  - {memory}\n")
    ended = onchip(verb, stated, "--accelerator", path, "--objective", objective)
    assert ended.code == 2
    assert ended.err.startswith(f"onchip: {path}: accelerator 'mute'")


def test_plans_of_least_latency_are_not_audited(timed: Path, onchip: Program, stated: Path) -> None:
    ended = onchip("audit", timed, stated)
    assert ended.code == 2
    assert "latency" in ended.err


def test_without_an_array_files_have_to_state_cycles(onchip: Program, diamond: Path, machine: Path) -> None:
    ended = onchip("plan", diamond, "--accelerator", machine, "--objective", "latency")
    assert ended.code == 2
    assert ended.err.startswith(f"onchip: {machine}: accelerator ")
    assert "array" in ended.err


@pytest.mark.parametrize("cost", ["mapping", "macs"])
def test_mappings_or_a_rule_say_how_long_operators_last(
    cost: str, onchip: Program, network: Path, tmp_path: Path
) -> None:
    machine, plan = tmp_path / "array.yaml", tmp_path / "plan.json"
    memory = "{name: sram, capacity: 64KiB, holds: [input, weight, output], scratchpad: true, access_bits: 64, "
    memory += "read_energy_pj: 1, write_energy_pj: 1, ports: [{direction: read_write, bits_per_cycle: 64}]}"
    lines = [line for line in MACHINE.splitlines() if "name: sram" not in line]
    at = lines.index("memories:") + 1
    lines[at:at] = [f"  - {memory}", "array: {dimensions: {K: 4, C: 2}, mac_energy_pj: 1}"]
    machine.write_text("\n".join(lines))
    ended = onchip(
        "plan", network, "--accelerator", machine, "--objective", "latency", "--bits", 8, "--cost", cost, "-o", plan
    )
    assert ended.code == 0, ended.err
    assert json.loads(plan.read_text())["durations"]["cycles"]
    assert onchip("check", plan, network).code == 0


@pytest.mark.parametrize("chip", ["simba", "eyeriss-like"])
def test_what_states_its_cycles_is_timed_on_an_array_of_any_dimensions(
    chip: str, onchip: Program, stated: Path, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    assert onchip("plan", stated, "--sram", "64B", "-o", plan).code == 0
    ended = onchip("time", plan, stated, "--accelerator", chip, "--json")
    assert ended.code == 0, ended.err
    assert ended.json["compute_cycles"] == 3 + 8


@pytest.mark.slow
def test_a_plan_in_several_scratchpads_is_checked_timed_explained_and_drawn(
    onchip: Program, stated: Path, tmp_path: Path
) -> None:
    apart = tmp_path / "apart.yaml"
    one = "  - {name: sram, capacity: CAPACITY, holds: [input, weight, output], scratchpad: true}\n"
    two = one.replace("input, weight", "input").replace("CAPACITY", "24B")
    two += one.replace("sram", "weights").replace("input, weight, output", "weight").replace("CAPACITY", "8B")
    apart.write_text(MACHINE.replace(one, two))
    plan, report = tmp_path / "apart.json", tmp_path / "apart.html"
    asked = ("--accelerator", apart, "--objective", "latency", "-o", plan, "--report", report, "--json")
    found = onchip("plan", stated, *asked).json
    assert found["lower_bound"] == 4 * 8 <= found["objective_value"]
    assert onchip("check", plan, stated).code == 0
    assert (
        onchip("time", plan, stated, "--accelerator", apart, "--json").json["total_cycles"] == found["objective_value"]
    )
    assert onchip("explain", plan, stated).code == 0
    memories = {"v": "weights", "w": "weights", "x": "sram", "h": "sram", "y": "sram"}
    placed = [one["allocate"] for one in json.loads(plan.read_text())["instructions"] if "allocate" in one]
    assert all(each["memory"] == memories[each["tensor"].partition("[")[0].partition("#")[0]] for each in placed)


@pytest.mark.slow
def test_tiles_of_what_does_not_fit_are_timed_run_and_explained_as_the_plan_says(
    onchip: Program, tmp_path: Path
) -> None:
    """Only mappings give the time of a tile on an array whose dimensions are no loops of a layer."""
    plan = tmp_path / "plan.json"
    asked = ("--accelerator", "simba@4640", "--count", "activations", "--bits", 8, "--tiles", "auto", "-o", plan)
    found = onchip("plan", "lenet5", *asked, "--objective", "latency", "--time-limit", 20, "--json")
    assert found.code == 0, found.err
    assert any("#" in name for name in json.loads(plan.read_text())["durations"]["cycles"])
    assert onchip("check", plan, "lenet5").code == 0
    assert onchip("run", plan, "lenet5").code == 0
    timed = onchip("time", plan, "lenet5", "--accelerator", "simba@4640", "--json")
    assert timed.json["total_cycles"] == found.json["objective_value"]
    assert onchip("explain", plan, "lenet5", "--accelerator", "simba@4640").code == 0


def test_an_array_whose_dimensions_are_named_for_no_loop_is_timed_too(
    onchip: Program, diamond: Path, tmp_path: Path
) -> None:
    plan, chip = tmp_path / "plan.json", tmp_path / "lanes.yaml"
    chip.write_text(CHIP)
    assert onchip("plan", diamond, "--sram", "m_r", "-o", plan).code == 0
    timed = onchip("time", plan, diamond, "--accelerator", chip, "--json")
    assert timed.json["total_cycles"] > 0
    assert onchip("explain", plan, diamond, "--accelerator", chip).code == 0
