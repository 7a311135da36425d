from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from onchip.answer.document import Document, Reading, Source
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.verb_options import MapOptions
from onchip.answer.result import SearchResult, Status, Stop
from onchip.api.map import MappingRequest, map_layers
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.mapping_yaml import read_mappings
from onchip.ir.layer import Layer
from onchip.mapping.methods.registry import EVEN_MAPPINGS, METHODS, WITHOUT_BYPASS
from onchip.mapping.tile_search.exact import solve_exactly
from onchip.model.layer.cost import layer_cost
from onchip.ops.layers_of import NetworkLayers
from onchip.reports.mapping.outcome import MappedLayer, MappingOutcome, mapping_proof
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits, Run
from onchip.verify.mapping import verify_mapping
from support.diamond import Program
from support.series import with_slow
from support.toy_chip import CHIP

CONV = "conv:n1k8c4p6q6r3s3:pad1"
LAYER = "gemm:m4n4k4"
FIELDS = (
    "status",
    "objective",
    "objective_value",
    "lower_bound",
    "energy_pj",
    "latency_cycles",
    "macs",
    "mapping",
    "seconds",
)


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the cache that all tests of this file share: a layer is searched once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def cache(solved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCHIP_CACHE", str(solved))


@pytest.fixture
def chip(tmp_path: Path) -> Path:
    path = tmp_path / "chip.yaml"
    path.write_text(CHIP)
    return path


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """Write a network of two equal convolutions, then a Concat."""
    conv = {"kind": "Conv", "parameters": ["w"], "attributes": {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}}
    graph = {
        "format": "onchip-graph",
        "version": 1,
        "name": "twins",
        "tensors": [
            {"name": "x", "shape": [1, 4, 6, 6], "bits": 8, "role": "input"},
            {"name": "w", "shape": [4, 4, 3, 3], "bits": 8, "role": "parameter"},
            {"name": "a", "shape": [1, 4, 6, 6], "bits": 8, "role": "activation"},
            {"name": "b", "shape": [1, 4, 6, 6], "bits": 8, "role": "activation"},
            {"name": "y", "shape": [1, 8, 6, 6], "bits": 8, "role": "output"},
        ],
        "operators": [
            {"name": "first", "inputs": ["x"], "outputs": ["a"], **conv},
            {"name": "second", "inputs": ["a"], "outputs": ["b"], **conv},
            {"name": "join", "kind": "Concat", "inputs": ["a", "b"], "outputs": ["y"]},
        ],
    }
    path = tmp_path / "twins.json"
    path.write_text(json.dumps(graph))
    return path


@pytest.mark.parametrize("method", with_slow([name for name in METHODS if name != "cosa"], {"hybrid"}.__contains__))
def test_one_layer_is_one_object(onchip: Program, chip: Path, method: str) -> None:
    ended = onchip("map", CONV, "--accelerator", chip, "--method", method, "--json")

    assert ended.code == 0
    answer = ended.json
    assert all(answer[field] is not None for field in FIELDS)
    assert answer["macs"] == 8 * 4 * 36 * 9
    assert answer["objective_value"] == round(answer["energy_pj"] * 1000)
    assert answer["lower_bound"] <= answer["objective_value"]
    assert answer["error"] is None
    parts = sum(one["energy_pj"] for one in answer["memory_energy_pj"])
    assert parts + answer["mac_energy_pj"] == pytest.approx(answer["energy_pj"])
    assert sum(answer["latency_parts"].values()) == pytest.approx(answer["latency_cycles"])


@pytest.mark.slow
def test_the_best_mapping_is_proven_and_no_rival_is_better(onchip: Program, chip: Path) -> None:
    values = {
        method: onchip("map", CONV, "--accelerator", chip, "--method", method, "--json").json
        for method in ("exact", "random", "hybrid")
    }
    assert values["exact"]["status"] == "OPTIMAL"
    assert values["exact"]["lower_bound"] == values["exact"]["objective_value"]
    assert all(values["exact"]["energy_pj"] <= one["energy_pj"] for one in values.values())


def test_the_status_is_shown_with_the_mappings_that_it_holds_for(onchip: Program, chip: Path) -> None:
    for method, words in (("exact", "mappings without bypass"), ("exact-even", "even mappings")):
        shown = onchip("map", CONV, "--accelerator", chip, "--method", method)
        assert f"bound covers {words}" in " ".join(shown.out.split())
        answer = onchip("map", CONV, "--accelerator", chip, "--method", method, "--json").json
        assert (answer["space"], answer["optimal_among"]) == (words, None)
        assert answer["lower_bound_of_any"] <= answer["lower_bound"]


def test_the_best_even_mapping_is_shown_as_such() -> None:
    machine = load_accelerator("simba")
    problem = LayerProblem(Layer(k=8), machine)
    mapping = solve_exactly(problem, MappingObjective.ENERGY, Run()).answer
    result = SearchResult(Status.FEASIBLE, mapping, 10, 5, 0.0, "exact", optimal_among=EVEN_MAPPINGS.name)
    one = MappedLayer(("layer",), problem.layer, result, None, mapping, None)
    layers = NetworkLayers(None, {"layer": problem.layer})
    document = Document(Source(""), Source("simba"), Reading(), ())
    asked = ("layer", layers, machine, "exact", "energy", "fJ", (one,), document)
    proof = mapping_proof(MappingOutcome(*asked, is_one_layer=True, mapspace=WITHOUT_BYPASS))
    assert (proof.status, proof.covers) == (Status.FEASIBLE, "mappings without bypass; optimal among even mappings")


def test_objectives(onchip: Program, chip: Path) -> None:
    found = {
        objective: onchip("map", LAYER, "--accelerator", chip, "--objective", objective, "--json").json
        for objective in MappingObjective
    }
    energy, latency, both = (found[objective] for objective in MappingObjective)
    assert latency["objective_value"] == latency["latency_cycles"] <= energy["latency_cycles"]
    assert both["objective_value"] == round(both["energy_pj"] * 1000 * both["latency_cycles"])
    assert energy["energy_pj"] <= both["energy_pj"]
    assert [one["objective_unit"] for one in found.values()] == ["fJ", "cycles", "fJ x cycles"]


def test_cosa_has_an_objective_of_its_own(onchip: Program) -> None:
    ended = onchip("map", "cosa:resnet50:_outputs_3356", "--accelerator", "simba-cosa", "--method", "cosa", "--json")
    assert ended.code == 0
    assert (ended.json["objective"], ended.json["status"]) == ("cosa", "OPTIMAL")
    assert isinstance(ended.json["objective_value"], float)
    assert 0 < ended.json["objective_value"] < 1000


def test_a_schedule_of_cosa_that_breaks_a_true_limit_is_told_and_not_handed_out(
    onchip: Program, chip: Path, tmp_path: Path
) -> None:
    """CoSA gives outputs three quarters of a memory, counted in elements of their final width."""
    refused = "cosa:resnet50:_outputs_input.83"
    out = tmp_path / "m.yaml"
    ended = onchip("map", refused, "--accelerator", "simba", "--method", "cosa", "--json", "-o", out)

    assert ended.code == 1
    assert (ended.json["status"], ended.json["mapping"], ended.json["energy_pj"]) == ("OPTIMAL", None, None)
    assert "capacity-exceeded: 'global_buffer'" in ended.json["error"]
    assert not out.exists()


def test_a_network_has_layers_and_totals(onchip: Program, chip: Path, network: Path) -> None:
    ended = onchip("map", network, "--accelerator", chip, "--json")

    assert ended.code == 0
    first, second = ended.json["layers"]
    assert (first["layer"], second["layer"], second["same_as"]) == ("first", "second", "first")
    assert first["mapping"] == second["mapping"]
    assert (first["same_as"], second["seconds"]) == (None, 0.0)
    totals = ended.json["totals"]
    assert (totals["layers"], totals["distinct"], totals["mapped"]) == (2, 1, 2)
    assert totals["energy_pj"] == pytest.approx(2 * first["energy_pj"])
    assert totals["latency_cycles"] == 2 * first["latency_cycles"]
    assert totals["objective_value"] == totals["lower_bound"] == 2 * first["objective_value"]
    assert [one["operator"] for one in ended.json["left_out"]] == ["join"]


def test_a_layer_of_a_network(onchip: Program, chip: Path, network: Path) -> None:
    ended = onchip("map", f"{network}:second", "--accelerator", chip, "--json")
    assert (ended.code, ended.json["layer"]) == (0, "second")


def test_tables_and_loop_nests_for_people(onchip: Program, chip: Path, network: Path) -> None:
    ended = onchip("map", network, "--accelerator", chip, "--show")
    assert ended.code == 0
    assert "first (x2)" in ended.out
    assert "2 layers in all" in ended.out
    assert "Concat (1)" in ended.out
    assert "1 operator: data movement" in ended.out
    assert "loop nests: 2 operators, 97.3% of the operations; data movement: 1 operator, 2.7%" in ended.out
    assert "// dram: input, weight, output" in ended.out
    assert "// register: weight" in ended.out
    assert "output[n, k, p, q] += input[n, c, height, width] * weight[k, c, r, s]" in ended.out


@pytest.mark.slow
def test_the_file_holds_what_was_shown(onchip: Program, chip: Path, network: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.yaml"
    shown = onchip("map", network, "--accelerator", chip, "--json", "-o", out).json["layers"][0]
    document = read_mappings(out)
    (one,) = document.answer
    accelerator = load_accelerator(str(chip))
    assert one.names == ("first", "second")
    assert document.graph.name == "twins"
    assert verify_mapping(LayerProblem(one.layer, accelerator), one.mapping) == ()
    assert layer_cost(LayerProblem(one.layer, accelerator), one.mapping).energy_pj == shown["energy_pj"]
    assert one.claim is not None
    assert one.claim.objective_value == shown["objective_value"]
    again = tmp_path / "again.yaml"
    onchip("map", network, "--accelerator", chip, "--no-cache", "-o", again)
    assert again.read_bytes() == out.read_bytes()


def test_what_was_proven_is_kept(onchip: Program, chip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("ONCHIP_CACHE", str(cache))
    onchip("map", LAYER, "--accelerator", chip, "--no-cache")
    assert not cache.exists()
    first = onchip("map", LAYER, "--accelerator", chip, "--json").json
    assert any(cache.rglob("*.json"))
    second = onchip("map", LAYER, "--accelerator", chip, "--json").json
    assert {**first, "seconds": 0} == {**second, "seconds": 0}


def test_random_choices_follow_from_the_seed(onchip: Program, chip: Path) -> None:
    def energy(seed: int) -> object:
        arguments = ("map", CONV, "--accelerator", chip, "--method", "random", "--seed", seed, "--json")
        return onchip(*arguments).json["energy_pj"]

    assert energy(1) == energy(1)
    assert len({energy(seed) for seed in range(4)}) > 1


def test_wider_elements_cost_more(onchip: Program, chip: Path) -> None:
    narrow, wide = (
        onchip("map", LAYER, "--accelerator", chip, "--bits", bits, "--json").json["energy_pj"] for bits in (8, 16)
    )
    assert narrow < wide


def test_from_python(chip: Path) -> None:
    outcome = map_layers(
        MappingRequest(LAYER, str(chip), options=MapOptions(uses_cache=False), reading=Reading(bits=8))
    )
    (one,) = outcome.mapped
    assert one.layer == Layer(n=4, k=4, c=4)
    assert one.mapping is not None
    assert one.cost is not None
    assert one.cost.energy_pj == layer_cost(LayerProblem(one.layer, outcome.accelerator), one.mapping).energy_pj


def test_the_report_is_one_file(onchip: Program, chip: Path, network: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    ended = onchip("map", network, "--accelerator", chip, "--report", page)
    assert ended.code == 0
    text = page.read_text()
    assert "<title>" in text
    assert "--report" in text.split("<script", 1)[0]


def test_an_interruption_leaves_the_layers_after_it_unknown(chip: Path, network: Path) -> None:
    @contextmanager
    def interrupted(limits: Limits, deadline: Deadline) -> Iterator[Run]:
        run = Run(limits, deadline=deadline)
        run.interrupt.set()
        yield run

    outcome = map_layers(MappingRequest(str(network), str(chip), reading=Reading(bits=8)), interrupted)
    (one,) = outcome.mapped
    assert (one.result.status, one.result.stopped_by) == (Status.UNKNOWN, Stop.INTERRUPTED)
    assert outcome.totals is None


def test_progress_names_the_layer(chip: Path, network: Path) -> None:
    phases: list[str] = []

    @contextmanager
    def listened(limits: Limits, deadline: Deadline) -> Iterator[Run]:
        yield Run(limits, lambda progress: phases.append(progress.phase), deadline=deadline)

    map_layers(MappingRequest(str(network), str(chip), reading=Reading(bits=8)), listened)
    assert phases[0] == "layer 1 of 1, first"


@pytest.mark.parametrize("accounting", ["zigzag", "defines"])
def test_what_another_tool_counts_is_proven_least_and_no_more_than_loma_finds(
    onchip: Program, chip: Path, accounting: str
) -> None:
    asked = ("map", CONV, "--accelerator", chip, "--accounting", accounting, "--json", "--method")
    least, found = (onchip(*asked, method).json for method in ("uneven", "loma"))
    assert (least["status"], least["accounting"]) == ("OPTIMAL", accounting)
    assert least["objective_value"] == round(1000 * least["energy_pj"])
    assert least["objective_value"] <= found["objective_value"] == round(1000 * found["energy_pj"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--method", "uneven"), "--method uneven needs another"),
        (("--accounting", "zigzag"), "--method exact has its own"),
    ],
)
def test_an_accounting_goes_with_the_methods_that_search_by_it(
    onchip: Program, chip: Path, arguments: tuple[str, ...], message: str
) -> None:
    ended = onchip("map", CONV, "--accelerator", chip, *arguments)
    assert ended.code == 2
    assert message in ended.err
