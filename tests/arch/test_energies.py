"""Missing energies of an accelerator are listed, refused if the objective needs them, and otherwise unknown figures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.arch.energies import unstated_accesses, unstated_energies, with_assumed_energies
from onchip.errors import AcceleratorError
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml
from onchip.ir.layer import Layer
from onchip.model.layer.cost import layer_cost
from support.diamond import Ended, Json, Program

GRAPH = """\
{"format": "onchip-graph", "version": 1, "name": "one",
 "tensors": [{"name": "x", "shape": [1, 4, 4, 4], "bits": 8, "role": "input"},
             {"name": "w", "shape": [4, 4, 1, 1], "bits": 8, "role": "parameter"},
             {"name": "y", "shape": [1, 4, 4, 4], "bits": 8, "role": "output"}],
 "operators": [{"name": "conv", "kind": "Conv", "inputs": ["x"], "parameters": ["w"], "outputs": ["y"]}]}
"""
CHIP = """\
format: onchip-accelerator
version: 1
name: chip
array: {dimensions: {K: 2}, mac_energy_pj: 1}
memories:
- {name: buffer, capacity: 4KiB, scratchpad: true, access_bits: 8, read_energy_pj: 1, write_energy_pj: 1}
dram: {access_bits: 8, read_energy_pj: 9, write_energy_pj: 9, ports: [{direction: read_write, bits_per_cycle: 64}]}
"""
NO_MAC = CHIP.replace(", mac_energy_pj: 1", "")
NO_BUFFER = CHIP.replace(", access_bits: 8, read_energy_pj: 1, write_energy_pj: 1", "")
NO_DRAM = CHIP.replace("access_bits: 8, read_energy_pj: 9, write_energy_pj: 9, ", "")
NO_MAC_BUFFER_DRAM = NO_MAC.replace(", access_bits: 8, read_energy_pj: 1, write_energy_pj: 1", "").replace(
    "access_bits: 8, read_energy_pj: 9, write_energy_pj: 9, ", ""
)
ACCESS = "access_bits, read_energy_pj and write_energy_pj of"
UNKNOWN = "energy unknown: accelerator 'chip' does not state "


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (CHIP, ()),
        (CHIP.replace("mac_energy_pj: 1", "mac_energy_pj: 0"), ()),
        (NO_MAC, ("mac_energy_pj of the array",)),
        (NO_BUFFER, (f"{ACCESS} memory 'buffer'",)),
        (NO_DRAM, (f"{ACCESS} dram",)),
        (CHIP.partition("dram:")[0], (f"{ACCESS} dram",)),
    ],
)
def test_unstated_energies_are_listed(text: str, missing: tuple[str, ...]) -> None:
    accelerator = accelerator_from_yaml(text, "chip.yaml")
    assert unstated_energies(accelerator) == missing
    assert unstated_accesses(accelerator) == tuple(one for one in missing if one.startswith(ACCESS))


@pytest.fixture
def asked(onchip: Program, tmp_path: Path) -> Callable[..., Ended]:
    """Return a function that asks a verb about the network on the machine that `text` describes."""

    def ask(verb: str, text: str, *options: object) -> Ended:
        chip, graph = tmp_path / "chip.yaml", tmp_path / "one.json"
        chip.write_text(text)
        graph.write_text(GRAPH)
        return onchip(verb, graph, "--accelerator", chip, *options)

    return ask


@pytest.mark.parametrize(
    ("text", "missing"),
    [(NO_MAC, "mac_energy_pj of the array"), (NO_BUFFER, f"{ACCESS} memory 'buffer'"), (NO_DRAM, f"{ACCESS} dram")],
)
@pytest.mark.parametrize(
    ("verb", "options"),
    [
        *(
            (verb, ("--objective", objective))
            for verb in ("map", "schedule", "fuse")
            for objective in ("energy", "edp")
        ),
        ("schedule", ("--pareto", "energy,latency")),
    ],
)
def test_objectives_of_energy_name_the_missing_fields(
    asked: Callable[..., Ended], tmp_path: Path, verb: str, options: tuple[str, ...], text: str, missing: str
) -> None:
    ended = asked(verb, text, *options)
    assert ended.code == 2
    place = f"onchip: {tmp_path / 'chip.yaml'}: accelerator 'chip'"
    assert ended.err.startswith(f"{place} does not state {missing}")


@pytest.fixture(scope="module")
def known() -> dict[tuple[str, ...], Json]:
    """Return the answers about the machine that states all energies, by verb and options."""
    return {}


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("map", ("--objective", "latency")),
        ("map", ("--objective", "latency", "--method", "loma")),
        ("map", ("--objective", "latency", "--method", "exact-even")),
        ("map", ("--method", "cosa")),
        ("schedule", ("--objective", "latency")),
        ("schedule", ("--objective", "traffic")),
        ("fuse", ("--objective", "latency")),
        ("fuse", ("--objective", "dram")),
    ],
)
@pytest.mark.parametrize("text", [NO_MAC, NO_BUFFER, NO_DRAM, NO_MAC_BUFFER_DRAM], ids=["mac", "buffer", "dram", "all"])
def test_other_objectives_are_answered_with_an_unknown_energy(
    asked: Callable[..., Ended],
    known: dict[tuple[str, ...], Json],
    onchip: Program,
    tmp_path: Path,
    verb: str,
    options: tuple[str, ...],
    text: str,
) -> None:
    file, page = tmp_path / "answer.json", tmp_path / "page.html"
    if (verb, *options) not in known:
        known[verb, *options] = asked(verb, CHIP, *options, "--json").json
    answers = known[verb, *options], asked(verb, text, *options, "--json").json
    same = ("objective_value", "lower_bound", "latency_cycles", "status")
    rows = [answer["layers"][0] if verb == "map" else answer for answer in answers]
    assert {name: rows[1][name] for name in same} == {name: rows[0][name] for name in same}
    assert rows[1]["energy_pj"] is None
    assert all(row.get("totals", {}).get("energy_delay_pj_cycles") is None for row in (answers[1], rows[1]))
    shown = asked(verb, text, *options, "--report", page, "-o", file)
    assert shown.code == 0
    assert shown.out.count(UNKNOWN) == 1
    assert "energy unknown" in page.read_text()
    assert "energy_pj: null" not in file.read_text()
    machine = () if verb == "schedule" else ("--accelerator", tmp_path / "chip.yaml")
    checked = onchip("check", file, tmp_path / "one.json", *machine)
    assert checked.code == 0
    assert UNKNOWN in checked.out


@pytest.mark.parametrize("text", [NO_MAC, NO_BUFFER, NO_MAC_BUFFER_DRAM], ids=["mac", "buffer", "all"])
def test_reports_of_a_schedule_say_that_its_energy_is_unknown(
    asked: Callable[..., Ended], onchip: Program, tmp_path: Path, text: str
) -> None:
    file, graph, page = tmp_path / "answer.json", tmp_path / "one.json", tmp_path / "page.html"
    asked("schedule", text, "--objective", "latency", "-o", file)
    for verb in ("explain", "time"):
        assert UNKNOWN in onchip(verb, file, graph).out
        assert onchip(verb, file, graph, "--json").code == 0
    assert onchip("report", file, graph, "-o", page).code == 0
    assert onchip("diff", file, file, graph).code == 0
    fields = json.loads(file.read_text())
    file.write_text(json.dumps({name: value for name, value in fields.items() if name != "result"}))
    assert onchip("explain", file, graph, "--json").json["objective"] == "latency"


@pytest.mark.parametrize(
    ("verb", "text", "claimed"),
    [
        ("schedule", NO_MAC, {"energy_pj": 0}),
        ("schedule", NO_BUFFER, {"energy_pj": 5696.0}),
        ("fuse", NO_MAC, {"energy_pj": 0}),
        ("fuse", NO_DRAM, {"energy_pj": 0}),
        ("fuse", NO_MAC, {"energies_pj": {"macs": {"mac": 0}}}),
        ("fuse", NO_BUFFER, {"energies_pj": {"buffer": {"activation": 0}}}),
        ("fuse", NO_MAC_BUFFER_DRAM, {"energies_pj": {"dram": {"weight": 7}}}),
    ],
)
def test_a_claim_of_an_unknown_energy_is_refused(
    asked: Callable[..., Ended], onchip: Program, tmp_path: Path, verb: str, text: str, claimed: dict[str, object]
) -> None:
    file = tmp_path / "answer.json"
    asked(verb, text, "--objective", "latency", "-o", file)
    fields = json.loads(file.read_text())
    for name, value in claimed.items():
        old = fields["result"].get(name)
        fields["result"][name] = {**old, **value} if isinstance(value, dict) and old else value
    file.write_text(json.dumps(fields))
    ended = onchip(
        "check", file, tmp_path / "one.json", *([] if verb == "schedule" else ["--accelerator", tmp_path / "chip.yaml"])
    )
    assert ended.code == 1
    assert "unknown, as the accelerator does not state all energies" in ended.out
    assert ended.out.count("figure-differs") == 1


@pytest.mark.slow
def test_points_of_a_sweep_have_no_energy(onchip: Program, tmp_path: Path) -> None:
    chip, graph = tmp_path / "chip.yaml", tmp_path / "one.json"
    chip.write_text(NO_MAC)
    graph.write_text(GRAPH)
    for verb in ("map", "schedule", "fuse"):
        objectives = ("--objective", "latency", "--objective", "energy")
        store = ("--store", tmp_path / f"{verb}.db", "--verb", verb, "--json")
        first, second = onchip("sweep", graph, "--accelerator", chip, *objectives, *store).json["rows"]
        assert (first["energy_pj"], second["status"]) == (None, "FAILED")
        assert first["latency_cycles"] > 0
        assert "mac_energy_pj" in second["reason"]


def test_costs_below_the_verbs_do_not_take_an_unknown_energy_as_zero() -> None:
    machine = accelerator_from_yaml(NO_MAC, "chip.yaml")
    problem = LayerProblem(Layer(k=4, c=4), machine)
    kept = (Kept("buffer", 2),)
    cost = layer_cost(problem, LayerMapping((Loop("C", 4), Loop("K", 4)), kept, kept, kept))
    assert (cost.mac_energy_pj, cost.stated_energy_pj) == (None, None)
    with pytest.raises(AcceleratorError, match="does not state all energies"):
        _ = cost.energy_pj
    with pytest.raises(AcceleratorError, match="does not state all energies"):
        MappingObjective.ENERGY.of(cost.stated_energy_pj, cost.cycles)
    assert MappingObjective.LATENCY.of(cost.stated_energy_pj, cost.cycles) == cost.cycles
    known = layer_cost(LayerProblem(problem.layer, with_assumed_energies(machine)), cost.mapping)
    assert (known.energy_pj, known.cycles) == (sum(cost.memory_energy_pj.values()), cost.cycles)


def test_a_plan_for_latency_needs_no_energies(onchip: Program, tmp_path: Path) -> None:
    chip, graph = tmp_path / "chip.yaml", tmp_path / "one.json"
    graph.write_text(GRAPH)
    cycles = []
    for text in (CHIP, NO_MAC, NO_BUFFER, NO_DRAM):
        chip.write_text(text)
        for objective in ("traffic", "latency", "dma-cycles"):
            ended = onchip("plan", graph, "--accelerator", chip, "--objective", objective, "--json")
            assert ended.code == 0
            cycles += [ended.json["objective_value"]] if objective == "latency" else []
    assert len(set(cycles)) == 1
