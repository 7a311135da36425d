"""`onchip fuse` with operators that cannot be fused: their cost is the data that they move."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from support.diamond import Program
from support.fused_files import CHIP

SHAPE = [1, 4, 6, 6]
ELEMENTS = 4 * 6 * 6
BOUNDS = ("begin", "end", "axes")
LSTM_MACS = 2 * 16 * 3 + 16 * 4
"""The first step has no state to multiply."""
FAST = ("--bits", "8", "--method", "loma", "--tile-sizes", "divisors", "--no-cache")


@pytest.fixture
def chip(tmp_path: Path) -> Path:
    path = tmp_path / "chip.yaml"
    path.write_text(CHIP)
    return path


def chain(path: Path, *kinds: str) -> Path:
    """Save a chain of operators over maps of one shape; each operator reads the preceding map."""
    names = [f"m{at}" for at in range(len(kinds) + 1)]
    nodes, weights = [], []
    for at, kind in enumerate(kinds):
        read = [names[at]]
        if kind == "Conv":
            weights.append(helper.make_tensor(f"w{at}", TensorProto.FLOAT, [4, 4, 3, 3], [1.0] * 144))
            read.append(f"w{at}")
        node = helper.make_node(kind, read, [names[at + 1]], name=f"{kind.lower()}{at}")
        node.attribute.extend([helper.make_attribute("pads", [1, 1, 1, 1])] if kind == "Conv" else [])
        nodes.append(node)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in (names[0], names[-1])]
    return saved(path, helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights))


def recurrent(path: Path) -> Path:
    """Save an LSTM of two steps, three inputs and four hidden units, with all of its outputs as network outputs."""
    sizes = {"w": [1, 16, 3], "r": [1, 16, 4]}
    weights = [
        helper.make_tensor(name, TensorProto.FLOAT, size, [0.5] * (size[1] * size[2])) for name, size in sizes.items()
    ]
    source = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 1, 3])
    shapes = {"y": [2, 1, 1, 4], "h": [1, 1, 4], "c": [1, 1, 4]}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    node = helper.make_node("LSTM", ["x", "w", "r"], list(shapes), name="lstm", hidden_size=4)
    return saved(path, helper.make_graph([node], "recurrent", [source], ends, weights))


def saved(path: Path, graph: onnx.GraphProto) -> Path:
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.mark.parametrize("objective", ["energy", "latency", "edp", "dram"])
def test_a_network_of_which_nothing_can_be_fused_costs_what_it_moves(
    onchip: Program, tmp_path: Path, chip: Path, objective: str
) -> None:
    """DRAM moves 64 bits for 400 or 450 pJ, and 64 bits a cycle."""
    network, strategy = chain(tmp_path / "soft.onnx", "Softmax", "Softmax"), tmp_path / "strategy.json"
    ended = onchip(
        "fuse", network, "--accelerator", chip, "--objective", objective, "--bits", "8", "-o", strategy, "--json"
    )
    assert ended.code == 0, ended.err
    answer = ended.json
    words = 2 * ELEMENTS * 8 // 64
    energy, cycles = words * (400 + 450), 2 * words
    values = {"energy": 1000 * energy, "latency": cycles, "edp": 1000 * energy * cycles, "dram": 4 * ELEMENTS * 8}
    assert (answer["status"], answer["objective_value"]) == ("FEASIBLE", values[objective])
    assert answer["bound_among"] == values[objective] > answer["lower_bound"] > 0
    assert answer["optimal_among"] == answer["space"]
    assert (answer["energy_pj"], answer["latency_cycles"], answer["macs"]) == (energy, cycles, 0)
    assert answer["stacks"] == []
    assert [(one["operator"], one["energy_pj"]) for one in answer["outside"]] == [
        ("softmax0", energy / 2),
        ("softmax1", energy / 2),
    ]
    checked = onchip("check", strategy, network, "--accelerator", chip, "--json")
    assert checked.code == 0, checked.out
    assert checked.json["recomputed"][0]["objective_value"] == values[objective]


def test_an_lstm_is_answered_and_shown(onchip: Program, tmp_path: Path, chip: Path) -> None:
    network, page = recurrent(tmp_path / "lstm.onnx"), tmp_path / "page.html"
    ended = onchip("fuse", network, "--accelerator", chip, "--report", page, "--groups", "one", "--tile", "1x1", *FAST)
    assert ended.code == 0, ended.err
    words = " ".join(ended.out.split())
    assert f"{LSTM_MACS} multiply-accumulates outside of all groups have no cost: LSTM (1)" in words
    assert "1 data movement (100.0% of the operations)" in words
    assert "Operators outside of groups" in page.read_text()
    again = onchip("fuse", network, "--accelerator", chip, "--time-limit", "2", "--json", *FAST)
    assert (again.code, again.json["optimal_among"]) == (0, again.json["space"])


def test_what_is_moved_outside_is_added_to_the_figures_of_the_stacks(
    onchip: Program, tmp_path: Path, chip: Path
) -> None:
    """A softmax between two convolutions: each runs alone, its maps go through DRAM, and the softmax adds its moves."""
    ask = ("--accelerator", chip, *FAST, "--json")
    whole = onchip("fuse", chain(tmp_path / "a.onnx", "Conv", "Softmax", "Conv"), *ask).json
    single = onchip("fuse", chain(tmp_path / "b.onnx", "Conv"), *ask).json
    softmax = onchip("fuse", chain(tmp_path / "c.onnx", "Softmax"), *ask).json
    for field in ("objective_value", "energy_pj", "latency_cycles", "dram_bits", "macs"):
        assert whole[field] == pytest.approx(2 * single[field] + softmax[field])
    assert [stack["layers"] for stack in whole["stacks"]] == [["conv0"], ["conv2"]]


def test_the_file_lists_what_is_outside_and_the_check_insists(onchip: Program, tmp_path: Path, chip: Path) -> None:
    network, strategy = chain(tmp_path / "a.onnx", "Conv", "Softmax", "Conv"), tmp_path / "strategy.json"
    assert onchip("fuse", network, "--accelerator", chip, *FAST, "-o", strategy).code == 0
    fields = json.loads(strategy.read_text())
    assert fields["outside"] == ["softmax1"]
    for outside, rule in ((["softmax1", "softmax2"], "unknown-layer"), ([], "layer-missing")):
        strategy.write_text(json.dumps({**fields, "outside": outside}))
        checked = onchip("check", strategy, network, "--accelerator", chip)
        assert checked.code == 1
        assert rule in checked.out
    fields["result"]["dram_bits"] -= 2 * ELEMENTS * 8
    strategy.write_text(json.dumps(fields))
    assert "figure-differs" in onchip("check", strategy, network, "--accelerator", chip).out


def test_the_verdict_says_what_runs_in_which_way(onchip: Program, tmp_path: Path, chip: Path) -> None:
    """A convolution and an exponential run alone in their stacks, a softmax and a sine outside, and one is a view."""
    weights = [helper.make_tensor("w", TensorProto.FLOAT, [4, 4, 3, 3], [1.0] * 144)]
    weights += [
        helper.make_tensor(name, TensorProto.INT64, [1], [at]) for name, at in zip(BOUNDS, (1, 6, 2), strict=True)
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Softmax", ["a"], ["b"], name="soft"),
        helper.make_node("Exp", ["b"], ["c"], name="exp"),
        helper.make_node("Slice", ["c", "begin", "end", "axes"], ["d"], name="crop"),
        helper.make_node("Sin", ["d"], ["y"], name="sin"),
    ]
    shapes = {"x": SHAPE, "y": [1, 4, 5, 6]}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    network = saved(tmp_path / "ways.onnx", helper.make_graph(nodes, "ways", ends[:1], ends[1:], weights))
    ask = ("fuse", network, "--accelerator", chip, *FAST)
    answer = onchip(*ask, "--json").json
    operations = {"fused": 0, "layer by layer": 37 * ELEMENTS, "data movement": ELEMENTS + 4 * 5 * 6, "views": 0}
    found = {one["way"]: (one["operators"], one["operations"]) for one in answer["coverage"]}
    assert found == dict(zip(operations, zip((0, 2, 2, 1), operations.values(), strict=True), strict=True))
    assert sum(one["share"] for one in answer["coverage"]) == pytest.approx(1)
    words = "5 operators: 2 layer by layer (95.3% of the operations), 2 data movement (4.7% of the operations), 1 views"
    assert words in onchip(*ask).out.replace("\n", " ")


@pytest.mark.parametrize("kinds", [("Conv", "Softmax", "Conv", "Conv"), ("Softmax",)])
def test_the_network_in_tiles_keeps_what_is_outside_as_it_is(
    onchip: Program, tmp_path: Path, chip: Path, kinds: tuple[str, ...]
) -> None:
    network, tiled, plan = chain(tmp_path / "a.onnx", *kinds), tmp_path / "tiled.json", tmp_path / "plan.json"
    ended = onchip("fuse", network, "--accelerator", chip, *FAST, "--tile", "2x3", "--emit-graph", tiled)
    assert ended.code == 0, ended.err
    kept = [one for one in json.loads(tiled.read_text())["operators"] if one["kind"] == "Softmax"]
    assert [one["name"] for one in kept] == [f"softmax{kinds.index('Softmax')}"]
    assert onchip("plan", tiled, "--sram", "m_r", "--method", "belady", "-o", plan).code == 0
    ran = onchip("run", plan, tiled, "--json")
    assert (ran.code, ran.json["right"]) == (0, True)


def test_convolutions_along_one_axis_run_in_tiles(onchip: Program, tmp_path: Path, chip: Path) -> None:
    """The three convolutions of rank three run in tiles of five columns; shared columns are computed once."""
    weights = [helper.make_tensor(f"w{at}", TensorProto.FLOAT, [2, 2, 3], [1.0] * 12) for at in range(3)]
    nodes = [
        helper.make_node("Conv", [f"m{at}", f"w{at}"], [f"m{at + 1}"], name=f"conv{at}", pads=[1, 1]) for at in range(3)
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2, 24]) for name in ("m0", "m3")]
    network = saved(tmp_path / "rows.onnx", helper.make_graph(nodes, "rows", ends[:1], ends[1:], weights))
    tiled, plan = tmp_path / "tiled.json", tmp_path / "plan.json"
    ask = ("fuse", network, "--accelerator", chip, *FAST, "--groups", "one", "--tile", "5x1", "--mode", "fully-cached")
    answer = onchip(*ask, "--emit-graph", tiled, "--json").json
    assert [(len(one["layers"]), one["tiles"]) for one in answer["stacks"]] == [(3, 5)]
    assert answer["macs"] == 3 * 2 * 2 * 3 * 24
    assert onchip("plan", tiled, "--sram", "m_r", "--method", "belady", "-o", plan).code == 0
    assert onchip("run", plan, tiled, "--json").json["right"] is True


def test_fuse_and_schedule_count_alike_what_a_slice_reads(onchip: Program, tmp_path: Path, chip: Path) -> None:
    """The slice leaves 120 of 144 elements: 120 are read and 120 are written."""
    weights = [
        helper.make_tensor(name, TensorProto.INT64, [1], [at]) for name, at in zip(BOUNDS, (1, 6, 2), strict=True)
    ]
    nodes = [helper.make_node("Slice", ["x", *BOUNDS], ["y"], name="crop")]
    shapes = {"x": SHAPE, "y": [1, 4, 5, 6]}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    network = saved(tmp_path / "cut.onnx", helper.make_graph(nodes, "cut", ends[:1], ends[1:], weights))
    fused = onchip("fuse", network, "--accelerator", chip, *FAST, "--json").json
    ask = ("--accelerator", chip, "--bits", "8", "--groups", "layers", "--placements", "dram", "--no-cache")
    scheduled = onchip("schedule", network, *ask, "--json").json
    bounds = len(BOUNDS)
    assert fused["dram_bits"] // 8 == scheduled["traffic"]["total"] == 2 * 120 + bounds
    assert fused["energy_pj"] == pytest.approx(scheduled["energy_pj"])
