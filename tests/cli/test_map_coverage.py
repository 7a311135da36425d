"""`map` on operators without a loop nest: the cost of moving their data, and the share of each kind of cost."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from pathlib import Path

import pytest

from onchip.answer.schedule import ScheduledStack
from onchip.api.map import moved_operators
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import write_graph
from onchip.formats.own.mapping_yaml import read_mappings
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.program.compute_cost import OperandAtHome, cost_without_nest
from onchip.ops.layers_of import Precision, layers_of, with_elements_of
from onchip.ops.nests import operands_of
from onchip.reports.mapping.outcome import coverage
from onchip.reports.shared.facts import CoveredBy
from onchip.transform.groups.tiled import tile_graph
from support.diamond import Program
from support.toy_chip import CHIP


def network(*, has_product: bool = True) -> Graph:
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


@pytest.fixture
def chip(tmp_path: Path) -> Path:
    path = tmp_path / "chip.yaml"
    path.write_text(CHIP)
    return path


def test_each_operand_is_read_or_written_once_in_dram(chip: Path) -> None:
    """DRAM moves 64 bits per access at 400 pJ, and 64 bits a cycle; a tensor is padded to a whole byte."""
    softmax, gather = moved_operators(layers_of(network()), load_accelerator(str(chip)))

    reads, writes = [24 * 8, ceil(24 * 3 / 8) * 8], [5 * 16, ceil(60 * 3 / 8) * 8]
    assert (softmax.read_bits, softmax.written_bits) == (reads[0], reads[1])
    assert softmax.energy_pj == 400 * (ceil(reads[0] / 64) + ceil(reads[1] / 64))
    assert softmax.latency_cycles == ceil(reads[0] / 64) + ceil(reads[1] / 64)
    assert (gather.read_bits, gather.written_bits) == (reads[1] + writes[0], writes[1])
    assert gather.energy_pj == 400 * sum(ceil(bits / 64) for bits in (reads[1], *writes))
    assert (softmax.operations, gather.operations) == (24, 60)


@pytest.mark.parametrize("name", ["simba", "eyeriss-like", "tpu-like-df"])
def test_a_schedule_that_streams_everything_pays_the_same(name: str) -> None:
    graph, accelerator = with_elements_of(network(), 8), load_accelerator(name)
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
    layers = layers_of(network())
    nests, moved = coverage(layers, moved_operators(layers, load_accelerator("simba")))

    assert (nests.way, nests.operators, nests.operations) == (CoveredBy.LOOP_NESTS, 1, 2 * 12 * 12)
    assert (moved.way, moved.operators, moved.operations) == (CoveredBy.DATA_MOVEMENT, 2, 24 + 60)
    assert (nests.share, moved.share) == (288 / 372, 84 / 372)


@pytest.mark.slow
def test_the_verdict_has_them_apart_from_the_layers(onchip: Program, chip: Path, tmp_path: Path) -> None:
    path = tmp_path / "moving.json"
    write_graph(network(), path)
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
    write_graph(network(has_product=False), path)
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
    write_graph(network(), path)
    shown = onchip("schedule", path, "--accelerator", chip)
    assert "without a loop nest, costed as data movement: Softmax (1), GatherElements (1)" in shown.out
    assert "warning" not in shown.out
