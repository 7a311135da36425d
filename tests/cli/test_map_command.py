"""Tests of `onchip map`: methods, networks, files, data movement and refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import ceil
from pathlib import Path

import onnx
import pytest
from onnx import helper

from onchip.answer.document import Document, Reading, Source
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.verb_options import MapOptions
from onchip.answer.result import SearchResult, Status, Stop
from onchip.answer.schedule import ScheduledStack
from onchip.api.map import MappingRequest, map_layers, moved_operators
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import write_graph
from onchip.formats.own.mapping_yaml import read_mappings
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.mapping.methods.registry import EVEN_MAPPINGS, METHODS, WITHOUT_BYPASS
from onchip.mapping.tile_search.exact import solve_exactly
from onchip.model.layer.cost import layer_cost
from onchip.model.program.compute_cost import OperandAtHome, cost_without_nest
from onchip.ops.layers_of import NetworkLayers, Precision, layers_of, with_elements_of
from onchip.ops.nests import operands_of
from onchip.reports.mapping.outcome import MappedLayer, MappingOutcome, coverage, mapping_proof
from onchip.reports.shared.facts import CoveredBy
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits, Run
from onchip.transform.groups.tiled import tile_graph
from onchip.verify.mapping import verify_mapping
from support.diamond import Program
from support.onnx_networks import model, value, weight
from support.series import series, with_slow
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
def twins(tmp_path: Path) -> Path:
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


def test_a_network_has_layers_and_totals(onchip: Program, chip: Path, twins: Path) -> None:
    ended = onchip("map", twins, "--accelerator", chip, "--json")

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


def test_a_layer_of_a_network(onchip: Program, chip: Path, twins: Path) -> None:
    ended = onchip("map", f"{twins}:second", "--accelerator", chip, "--json")
    assert (ended.code, ended.json["layer"]) == (0, "second")


def test_tables_and_loop_nests_for_people(onchip: Program, chip: Path, twins: Path) -> None:
    ended = onchip("map", twins, "--accelerator", chip, "--show")
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
def test_the_file_holds_what_was_shown(onchip: Program, chip: Path, twins: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.yaml"
    shown = onchip("map", twins, "--accelerator", chip, "--json", "-o", out).json["layers"][0]
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
    onchip("map", twins, "--accelerator", chip, "--no-cache", "-o", again)
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


def test_the_report_is_one_file(onchip: Program, chip: Path, twins: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    ended = onchip("map", twins, "--accelerator", chip, "--report", page)
    assert ended.code == 0
    text = page.read_text()
    assert "<title>" in text
    assert "--report" in text.split("<script", 1)[0]


def test_an_interruption_leaves_the_layers_after_it_unknown(chip: Path, twins: Path) -> None:
    @contextmanager
    def interrupted(limits: Limits, deadline: Deadline) -> Iterator[Run]:
        run = Run(limits, deadline=deadline)
        run.interrupt.set()
        yield run

    outcome = map_layers(MappingRequest(str(twins), str(chip), reading=Reading(bits=8)), interrupted)
    (one,) = outcome.mapped
    assert (one.result.status, one.result.stopped_by) == (Status.UNKNOWN, Stop.INTERRUPTED)
    assert outcome.totals is None


def test_progress_names_the_layer(chip: Path, twins: Path) -> None:
    phases: list[str] = []

    @contextmanager
    def listened(limits: Limits, deadline: Deadline) -> Iterator[Run]:
        yield Run(limits, lambda progress: phases.append(progress.phase), deadline=deadline)

    map_layers(MappingRequest(str(twins), str(chip), reading=Reading(bits=8)), listened)
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


# `map` on operators without a loop nest: the cost of moving their data, and the share of each kind of cost


def moving_network(*, has_product: bool = True) -> Graph:
    """Return a product, a Softmax of its output (or of the input), and a Gather of 3 bits an element."""
    tensors = [
        Tensor.of_shape("x", (2, 12), 8, Role.INPUT),
        Tensor.of_shape("w", (12, 12), 8, Role.PARAMETER),
        Tensor.of_shape("p", (2, 12), 8, Role.ACTIVATION),
        Tensor.of_shape("s", (2, 12), 3, Role.OUTPUT),
        Tensor.of_shape("i", (5,), 16, Role.PARAMETER),
        Tensor.of_shape("g", (5, 12), 3, Role.OUTPUT),
    ]
    operators = [
        Operator("product", "MatMul", ("x",), ("p",), ("w",)),
        Operator("softmax", "Softmax", ("p",), ("s",)),
        Operator("gather", "GatherElements", ("s",), ("g",), ("i",)),
    ]
    if not has_product:
        operators = [replace(operators[1], inputs=("x",)), operators[2]]
        tensors = [one for one in tensors if one.name not in ("w", "p")]
    return Graph("moving", tuple(tensors), tuple(operators))


def test_each_operand_is_read_or_written_once_in_dram(chip: Path) -> None:
    """DRAM moves 64 bits per access at 400 pJ, and 64 bits a cycle; a tensor is padded to a whole byte."""
    softmax, gather = moved_operators(layers_of(moving_network()), load_accelerator(str(chip)))

    reads, writes = [24 * 8, ceil(24 * 3 / 8) * 8], [5 * 16, ceil(60 * 3 / 8) * 8]
    assert (softmax.read_bits, softmax.written_bits) == (reads[0], reads[1])
    assert softmax.energy_pj == 400 * (ceil(reads[0] / 64) + ceil(reads[1] / 64))
    assert softmax.latency_cycles == ceil(reads[0] / 64) + ceil(reads[1] / 64)
    assert (gather.read_bits, gather.written_bits) == (reads[1] + writes[0], writes[1])
    assert gather.energy_pj == 400 * sum(ceil(bits / 64) for bits in (reads[1], *writes))
    assert (softmax.operations, gather.operations) == (24, 60)


@pytest.mark.parametrize("name", ["simba", "eyeriss-like", "tpu-like-df"])
def test_a_schedule_that_streams_everything_pays_the_same(name: str) -> None:
    graph, accelerator = with_elements_of(moving_network(), 8), load_accelerator(name)
    stacks = [ScheduledStack((operator.name,)) for operator in graph.operators]
    tiles = tile_graph(graph, stacks, Precision(8)).graph
    for moved in moved_operators(layers_of(graph), accelerator):
        streamed = [
            OperandAtHome(one.operand, one.bits, one.row_bits, None)
            for one in operands_of(tiles, tiles.operator[moved.operator])
        ]
        cost = cost_without_nest(streamed, accelerator)
        assert (moved.energy_pj, moved.latency_cycles) == (cost.energy_fj / 1000, cost.cycles)


def test_shares_are_of_all_operations() -> None:
    layers = layers_of(moving_network())
    nests, moved = coverage(layers, moved_operators(layers, load_accelerator("simba")))

    assert (nests.way, nests.operators, nests.operations) == (CoveredBy.LOOP_NESTS, 1, 2 * 12 * 12)
    assert (moved.way, moved.operators, moved.operations) == (CoveredBy.DATA_MOVEMENT, 2, 24 + 60)
    assert (nests.share, moved.share) == (288 / 372, 84 / 372)


@pytest.mark.slow
def test_the_verdict_has_them_apart_from_the_layers(onchip: Program, chip: Path, tmp_path: Path) -> None:
    path = tmp_path / "moving.json"
    write_graph(moving_network(), path)
    ended = onchip("map", path, "--accelerator", chip, "--bits", "16", "--json")

    assert ended.code == 0
    assert [one["operator"] for one in ended.json["left_out"]] == ["softmax", "gather"]
    assert [one["read_bits"] for one in ended.json["left_out"]] == [24 * 16, (24 + 5) * 16]
    assert [(one["way"], one["operators"]) for one in ended.json["coverage"]] == [
        ("loop nests", 1),
        ("data movement", 2),
    ]
    totals = ended.json["totals"]
    assert totals["energy_pj"] == pytest.approx(ended.json["layers"][0]["energy_pj"])
    assert totals["data_movement"]["energy_pj"] == sum(one["energy_pj"] for one in ended.json["left_out"])
    assert totals["data_movement"]["latency_cycles"] == sum(one["latency_cycles"] for one in ended.json["left_out"])


def test_a_network_without_any_loop_nest_has_an_answer(onchip: Program, chip: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "moving.json", tmp_path / "m.yaml"
    write_graph(moving_network(has_product=False), path)
    ended = onchip("map", path, "--accelerator", chip, "-o", out)

    assert ended.code == 0
    assert "data movement: 2 operators, 100.0% of the operations" in ended.out
    assert read_mappings(out).answer == ()
    assert onchip("check", out, path, "--accelerator", chip).code == 0


def network_without_costs() -> Graph:
    """Return a product, then an attention without a number of heads and an operator of an unknown kind."""
    shapes = {"x": (1, 2, 12), "p": (1, 2, 12), "w": (12, 12), "a": (1, 2, 12), "y": (1, 2, 12)}
    roles = {"x": Role.INPUT, "w": Role.PARAMETER, "y": Role.OUTPUT}
    tensors = (Tensor.of_shape(name, shape, 8, roles.get(name, Role.ACTIVATION)) for name, shape in shapes.items())
    operators = (
        Operator("product", "MatMul", ("x",), ("p",), ("w",)),
        Operator("attention", "Attention", ("p",), ("a",), (), {"input_shapes": [[1, 2, 12], [1, 2, 12], [1, 2, 12]]}),
        Operator("mixture", "custom.Experts", ("a",), ("y",)),
    )
    return Graph("uncosted", tuple(tensors), operators)


MACS_OF_ATTENTION = 2 * 2 * 2 * 12


@pytest.mark.parametrize(
    ("verb", "field", "lost"),
    [
        ("map", "left_out", {"mixture": None}),
        ("schedule", "without_nest", {"attention": MACS_OF_ATTENTION, "mixture": None}),
    ],
)
def test_operators_whose_products_no_figure_contains_are_named(
    verb: str, field: str, lost: dict[str, int | None], onchip: Program, chip: Path, tmp_path: Path
) -> None:
    """`map` maps both products of the attention; in a schedule the scores between them are no tensor."""
    path = tmp_path / "uncosted.json"
    write_graph(network_without_costs(), path)
    shown, listed = (onchip(verb, path, "--accelerator", chip, *json) for json in ((), ("--json",)))

    assert shown.code == listed.code == 0
    words = " ".join(shown.out.split())
    assert "warning: no figure contains the multiply-accumulates of " in words
    assert "custom.Experts 'mixture' (unknown number)" in words
    assert (f"Attention 'attention' ({MACS_OF_ATTENTION})" in words) == ("attention" in lost)
    assert {one["operator"]: one["macs"] for one in listed.json[field]} == lost
    nests, moved = listed.json["coverage"]
    assert (nests["operators"], moved["operators"]) == (3 - len(lost), len(lost))
    assert nests["operations"] + moved["operations"] == 2 * 12 * 12 + MACS_OF_ATTENTION + 2 * 12


def test_kinds_that_multiply_nothing_are_no_warning(onchip: Program, chip: Path, tmp_path: Path) -> None:
    path = tmp_path / "moving.json"
    write_graph(moving_network(), path)
    shown = onchip("schedule", path, "--accelerator", chip)
    assert "without a loop nest, costed as data movement: Softmax (1), GatherElements (1)" in shown.out
    assert "warning" not in shown.out


# `onchip map` on files: Timeloop's, ZigZag's, ONNX models and graphs exported from torch


ARCHITECTURE = """\
arch:
  arithmetic: {instances: 8, word-bits: 8}
  storage:
  - {name: Registers, entries: 4, instances: 8, word-bits: 8}
  - {name: Buffer, entries: 2048, instances: 1, word-bits: 8, block-size: 8}
  - {name: DRAM, technology: DRAM, instances: 1, word-bits: 8, block-size: 8}
"""
MAPSPACE = """\
mapspace:
  constraints:
  - {target: Registers, type: datatype, keep: [Weights], bypass: [Inputs, Outputs]}
"""
PROBLEM = "problem: {shape: cnn-layer, N: 1, K: 8, C: 4, P: 5, Q: 6, R: 3, S: 3, Wstride: 2}\n"
ZIGZAG = """\
- {id: 0, name: first, operator_type: Gemm, equation: "O[b][k]+=W[k][c]*I[b][c]", loop_dims: [B, K, C],
   loop_sizes: [2, 8, 4], operand_precision: {O: 24, O_final: 8, W: 8, I: 8}}
- {id: 1, name: second, operator_type: Gemm, equation: "O[b][k]+=W[k][c]*I[b][c]", loop_dims: [B, K, C],
   loop_sizes: [2, 4, 8], operand_precision: {O: 24, O_final: 8, W: 8, I: 8}}
"""


def written(folder: Path, **texts: str) -> list[Path]:
    paths = [folder / f"{name}.yaml" for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text)
    return paths


@pytest.mark.slow
def test_timeloops_files_are_mapped(onchip: Program, tmp_path: Path) -> None:
    chip, mapspace, layer = written(tmp_path, chip=ARCHITECTURE, mapspace=MAPSPACE, layer=PROBLEM)
    ended = onchip("map", layer, "--accelerator", chip, "--mapspace", mapspace, "--json")
    assert ended.code == 0
    assert (ended.json["layer"], ended.json["status"], ended.json["accelerator"]) == ("layer", "OPTIMAL", "chip")
    assert ended.json["bounds"] == {"N": 1, "K": 8, "C": 4, "P": 5, "Q": 6, "R": 3, "S": 3, "G": 1}
    assert [kept["memory"] for kept in ended.json["mapping"]["weight"]] == ["Registers", "Buffer"]
    assert [kept["memory"] for kept in ended.json["mapping"]["input"]] == ["Buffer"]


def test_a_wrong_line_of_a_timeloop_file_is_named(onchip: Program, tmp_path: Path) -> None:
    chip, layer = written(tmp_path, chip=ARCHITECTURE + MAPSPACE, layer=PROBLEM.replace("K: 8", "K: eight"))
    ended = onchip("map", layer, "--accelerator", chip)
    assert ended.code == 2
    [line] = ended.err.splitlines()
    assert line.startswith(f"onchip: {layer}: line 1: problem.K: K is 'eight'")


def test_a_mapspace_is_for_timeloops_files_alone(onchip: Program, tmp_path: Path) -> None:
    chip, mapspace, layer = written(tmp_path, chip=CHIP, mapspace=MAPSPACE, layer=PROBLEM)
    ended = onchip("map", layer, "--accelerator", chip, "--mapspace", mapspace)
    assert ended.code == 2
    assert "--mapspace is given for no Timeloop file" in ended.err


@pytest.mark.slow
def test_the_layers_of_a_zigzag_file_are_a_network(onchip: Program, tmp_path: Path) -> None:
    chip, layers = written(tmp_path, chip=CHIP, workload=ZIGZAG)
    ended = onchip("map", layers, "--accelerator", chip, "--json")
    assert ended.code == 0
    assert [one["layer"] for one in ended.json["layers"]] == ["first", "second"]
    one = onchip("map", f"{layers}:second", "--accelerator", chip, "--json")
    assert (one.json["layer"], one.json["macs"]) == ("second", 64)


@pytest.mark.slow
def test_an_onnx_model_is_mapped_layer_by_layer_and_the_rest_is_told(onchip: Program, tmp_path: Path) -> None:
    """An activation runs with its convolution, and an addition of two maps is a layer; a softmax is not one."""
    (chip,) = written(tmp_path, chip=CHIP)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="conv", pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("Add", ["b", "x"], ["c"], name="add"),
        helper.make_node("Softmax", ["c"], ["y"], name="softmax"),
    ]
    shape = (1, 4, 4, 4)
    network = model(nodes, [value("x", shape)], [value("y", shape)], [weight("w", (4, 4, 3, 3))])
    path = tmp_path / "network.onnx"
    onnx.save(network, path)
    ended = onchip("map", path, "--accelerator", chip, "--json")
    assert ended.code == 0
    assert [(one["layer"], one["macs"]) for one in ended.json["layers"]] == [("conv", 4 * 4 * 16 * 9), ("add", 64)]
    assert [(one["operator"], one["kind"]) for one in ended.json["left_out"]] == [("softmax", "Softmax")]


@pytest.mark.slow
def test_a_graph_exported_from_torch_is_mapped(onchip: Program, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (extra `torch`)")
    from onchip.formats.networks import graph_from_torch

    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten())
    module.append(torch.nn.Linear(64, 8))
    (chip,) = written(tmp_path, chip=CHIP)
    path = tmp_path / "network.json"
    write_graph(graph_from_torch(module, (torch.zeros(1, 3, 4, 4),), "small"), path)
    ended = onchip("map", path, "--accelerator", chip, "--json")
    assert ended.code == 0
    assert [one["macs"] for one in ended.json["layers"]] == [4 * 3 * 16 * 9, 64 * 8]
    assert ended.json["left_out"] == []


@pytest.mark.parametrize("asked", series(["{}:second", "{}"], 1))
def test_what_is_mapped_of_a_file_is_checked_by_the_same_name(onchip: Program, tmp_path: Path, asked: str) -> None:
    chip, _, work = written(tmp_path, chip=ARCHITECTURE, mapspace=MAPSPACE, work=ZIGZAG)
    found, layers = tmp_path / "found.yaml", asked.format(work)
    assert onchip("map", layers, "--accelerator", chip, "-o", found).code == 0
    assert onchip("check", found, layers, "--accelerator", chip).code == 0
    other = onchip("check", found, "lenet5", "--accelerator", chip)
    assert other.code == 1
    assert "the mapping is for 'work', and this is 'lenet5'" in " ".join(other.out.split())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("serves: []", "serves: [column]", "chip.yaml: memory 'register': unknown array dimension 'column'"),
        ("read_energy_pj: 5", "read_energy_pj: -5", "chip.yaml: line 8: memories[1]"),
        ("{lane: 4, row: 2}", "{lane: 4, row: 0}", "chip.yaml: line"),
        ("capacity: 4B", "capacity: 4B, double_buffered: 3", "chip.yaml: line 6: memories[0].double_buffered"),
        ("scratchpad: true,", "scratchpad: true, serves: [row],", None),
        ("serves: []", "serves: [lane, row]", None),
        ("array: {dimensions: {lane: 4, row: 2}, mac_energy_pj: 0.5}\n", "", "has no array"),
        (
            "access_bits: 64, read_energy_pj: 5, write_energy_pj: 6,",
            "",
            "read_energy_pj and write_energy_pj of memory 'buffer'",
        ),
    ],
)
def test_a_bad_machine_ends_in_one_line(
    onchip: Program, tmp_path: Path, old: str, new: str, message: str | None
) -> None:
    assert old in CHIP
    path = tmp_path / "chip.yaml"
    path.write_text(CHIP.replace(old, new, 1))
    ended = onchip("map", "gemm:m2n2k2", "--accelerator", path)
    if message is None:
        assert ended.code == 0
    else:
        assert (ended.code, ended.out) == (2, "")
        assert message in ended.err
        assert ended.err.count("\n") == 1


def test_a_memory_that_nothing_can_reach(onchip: Program, tmp_path: Path) -> None:
    """The buffer exists once per row, and the register below it serves all rows."""
    text = CHIP.replace("serves: []", "serves: [lane, row]").replace(
        "scratchpad: true,", "scratchpad: true, serves: [row],"
    )
    path = tmp_path / "chip.yaml"
    path.write_text(text)
    ended = onchip("map", "gemm:m2n2k2", "--accelerator", path)
    assert ended.code == 2
    assert "chip.yaml: weight: memory 'register' cannot be filled from memory 'buffer'" in ended.err


@pytest.mark.parametrize(
    ("bits", "buffer", "keepers"),
    [("32", "2KiB", ["register", "buffer"]), ("64", "2KiB", ["buffer"]), ("64", "4B", [])],
)
def test_elements_wider_than_a_memory_are_no_refusal(
    onchip: Program, tmp_path: Path, bits: str, buffer: str, keepers: list[str]
) -> None:
    """Mappings bypass that memory; if no memory has room, all operands come from DRAM."""
    path = tmp_path / "chip.yaml"
    path.write_text(CHIP.replace("2KiB", buffer))
    ended = onchip("map", "gemm:m2n2k2", "--accelerator", path, "--bits", bits, "--json")
    assert (ended.code, ended.json["status"]) == (0, "OPTIMAL")
    assert [kept["memory"] for kept in ended.json["mapping"]["weight"]] == keepers


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("conv:n1z2",), "conv:n1z2: 'n1z2' gives no sizes"),
        (("pool:n1",), "pool:n1: unknown layer or network"),
        (("gemm:m2n2k2", "--method", "best"), "--method: there is no method 'best'"),
        (("gemm:m99999999n99999999k99999999",), "multiply-accumulates"),
        (("gemm:m2n2k2", "--time-limit", "-1"), "--time-limit"),
        (("gemm:m2n2k2", "-o", "nowhere/m.yaml"), "there is no directory"),
        (("gemm:m2n2k2", "--report", "nowhere/m.html"), "there is no directory"),
    ],
)
def test_bad_arguments_end_in_one_line(onchip: Program, chip: Path, arguments: tuple[str, ...], message: str) -> None:
    ended = onchip("map", *arguments, "--accelerator", chip)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("verb", ["map", "schedule", "fuse"])
def test_sums_narrower_than_elements_are_named_by_their_option(onchip: Program, chip: Path, verb: str) -> None:
    ended = onchip(verb, "lenet5", "--accelerator", chip, "--bits", 16, "--partial-bits", 8)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert ended.err.startswith("onchip: --partial-bits: ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("problem: {N: 1,\n  K: 2\n", "line 3: malformed YAML: "),
        ("loops:\n\t- N", "line 2: malformed YAML: "),
        ("format: onchip-mapping\n", "the whole file describes no layer"),
    ],
)
def test_a_layer_file_that_is_no_yaml_is_named_with_its_line(
    onchip: Program, chip: Path, tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "layer.yaml"
    path.write_text(content)
    ended = onchip("map", path, "--accelerator", chip)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith(f"onchip: {path}: {message}")


def test_a_memory_without_the_port_that_a_layer_needs_is_named_with_its_file(onchip: Program, tmp_path: Path) -> None:
    path = tmp_path / "chip.yaml"
    of_buffer = "ports: [{direction: read_write, bits_per_cycle: 64}]}\ndram"
    assert of_buffer in CHIP
    path.write_text(CHIP.replace(of_buffer, of_buffer.replace("read_write", "read")))
    ended = onchip("map", "gemm:m2n2k2", "--accelerator", path)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert ended.err.startswith(f"onchip: {path}: layer 'gemm:m2n2k2': memory 'buffer': no port can write")
