"""Tests of `onchip fuse --emit-graph`, and of operators that cannot be fused."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from onchip.answer.document import Reading
from onchip.answer.stacks import OverlapMode
from onchip.api.networks import read_network
from onchip.arch.memory import DRAM
from onchip.formats.own.graph_json import read_graph
from onchip.formats.own.strategy_json import read_strategy
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.transform.slices.bands import untiled
from support.diamond import Ended, Program
from support.fused_files import CHIP, three_convolutions
from support.onnx_networks import make_node, model, value, weight
from support.tiled import whole_tensor_differences

# `onchip fuse --emit-graph`: from a network through a graph file of tiles to output values


ONE_STACK = ("--groups", "one", "--tile", "3x4")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCHIP_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def two_outputs(tmp_path: Path) -> Path:
    """Write a network whose first convolution's output is read by both other layers and is a network output."""
    path = tmp_path / "two.json"
    path.write_text(
        three_convolutions().replace('"name": "m0", "role": "activation"', '"name": "m0", "role": "output"')
    )
    return path


@pytest.fixture
def fuse_it(onchip: Program, tmp_path: Path) -> Program:
    """Return a function that runs `onchip fuse` on the network."""
    chip = tmp_path / "chip.yaml"
    chip.write_text(CHIP.replace("capacity: 1B", "capacity: 2B"))

    def run_it(*arguments: object) -> Ended:
        return onchip("fuse", "--bits", 8, *arguments, "--accelerator", chip, "--method", "loma")

    return run_it


@pytest.fixture
def fuse(fuse_it: Program, network: Path) -> Program:
    def run_it(*arguments: object) -> Ended:
        return fuse_it(network, *arguments)

    return run_it


def is_the_network(tiled: Graph, network: Path, bits: int = 8) -> bool:
    graph = read_network(str(network), Reading(bits))
    return untiled(tiled) == graph and whole_tensor_differences(tiled, graph) == ()


@pytest.mark.parametrize("mode", OverlapMode)
def test_the_graph_is_planned_checked_and_run(
    fuse: Program, onchip: Program, network: Path, tmp_path: Path, mode: OverlapMode
) -> None:
    tiled, plan = tmp_path / "tiled.json.gz", tmp_path / "plan.json"
    ended = fuse(*ONE_STACK, "--mode", mode, "--emit-graph", tiled)
    assert (ended.code, ended.err) == (0, "")
    assert is_the_network(read_graph(tiled), network)
    assert onchip("plan", tiled, "--sram", "m_r", "--method", "belady", "-o", plan).code == 0
    assert onchip("check", plan, tiled).code == 0
    ended = onchip("run", plan, tiled, "--json")
    assert (ended.code, ended.json["right"]) == (0, True)
    assert ended.json["kernels"] == "integer arithmetic"
    assert ended.json["run"]["relative_difference"] == 0


@pytest.mark.parametrize("stacks", ["optimal", "greedy", "layers", "0,1-2"])
def test_an_inner_map_that_is_an_output_has_its_values(
    fuse_it: Program, onchip: Program, two_outputs: Path, tmp_path: Path, stacks: str
) -> None:
    strategy, tiled, plan = (tmp_path / name for name in ("strategy.json", "tiled.json", "plan.json"))
    given = ("--groups", stacks, "--tile", "3x4", "--mode", "fully-cached")
    assert fuse_it(two_outputs, *given, "-o", strategy, "--emit-graph", tiled).code == 0
    assert is_the_network(read_graph(tiled), two_outputs)
    assert {tensor.part_of or tensor.name for tensor in read_graph(tiled).with_role(Role.OUTPUT)} == {"m0", "y"}
    first = read_strategy(strategy).answer.stacks[0]
    assert (first.layers, first.output_home) == (("conv0",), DRAM)
    assert onchip("plan", tiled, "--sram", "m_r", "--method", "belady", "-o", plan).code == 0
    assert onchip("check", plan, tiled).code == 0
    ended = onchip("run", plan, tiled, "--json")
    assert (ended.code, ended.json["right"], ended.json["run"]["relative_difference"]) == (0, True, 0)


@pytest.mark.slow
def test_an_inner_map_that_is_an_output_is_written_to_dram_and_read_from_there(
    fuse_it: Program, network: Path, two_outputs: Path
) -> None:
    maps, weights = 4 * 8 * 8, 2 * 4 * 4 * 9
    moved = [
        fuse_it(path, "--json", "--objective", "dram", "--tile-sizes", "divisors").json["dram_bits"]
        for path in (network, two_outputs)
    ]
    assert moved == [8 * (2 * maps + weights), 8 * (4 * maps + weights)]


def test_a_stack_over_an_output_is_refused(fuse_it: Program, two_outputs: Path, tmp_path: Path) -> None:
    ended = fuse_it(two_outputs, *ONE_STACK)
    assert ended.code == 2
    assert "the stack 'conv0' to 'add' is over an output of the network: 'conv0' does not end in it" in ended.err
    strategy, tiled = tmp_path / "strategy.json", tmp_path / "tiled.json"
    fuse_it(two_outputs, "--groups", "layers", "-o", strategy)
    fields = json.loads(strategy.read_text())
    fields["stacks"] = [{**fields["stacks"][-1], "layers": ["conv0", "conv1", "add"]}]
    strategy.write_text(json.dumps(fields))
    ended = fuse_it(two_outputs, "--check", strategy, "--emit-graph", tiled)
    assert ended.code == 1
    assert ended.out.startswith("output-lost: 'conv0': 'm0' leaves the network\n")
    assert not tiled.exists()


def test_a_given_strategy_is_emitted_as_the_one_that_was_found(fuse: Program, network: Path, tmp_path: Path) -> None:
    strategy, found, given = (tmp_path / name for name in ("strategy.json", "found.json", "given.json"))
    assert fuse(*ONE_STACK, "--bits", "16", "-o", strategy, "--emit-graph", found).code == 0
    assert fuse("--check", strategy, "--emit-graph", given).code == 0
    assert given.read_bytes() == found.read_bytes()
    assert is_the_network(read_graph(found), network, bits=16)


@pytest.mark.slow
def test_a_model_becomes_a_network_without_its_weights(fuse_it: Program, onchip: Program, tmp_path: Path) -> None:
    nodes = [
        make_node("Conv", ["x", "w"], ["a"], name="conv0", pads=[1, 1, 1, 1]),
        make_node("Relu", ["a"], ["b"], name="relu"),
        make_node("Conv", ["b", "v"], ["c"], name="conv1", pads=[1, 1, 1, 1]),
        make_node("Add", ["b", "c"], ["y"], name="add"),
        make_node("Flatten", ["y"], ["flat"], name="flatten"),
        make_node("Gemm", ["flat", "g"], ["z"], name="gemm"),
    ]
    weights = [weight("w", [4, 2, 3, 3]), weight("v", [4, 4, 3, 3]), weight("g", [256, 3])]
    file, tiled, plan = tmp_path / "model.onnx", tmp_path / "tiled.json", tmp_path / "plan.json"
    network = model(nodes, [value("x", [1, 2, 8, 8])], [value("z", [1, 3])], weights)
    file.write_bytes(network.SerializeToString())
    assert fuse_it(file, "--groups", "0-2,3", "--tile", "3x3", "--mode", "h-cached", "--emit-graph", tiled).code == 0
    assert is_the_network(read_graph(tiled), file)
    assert onchip("plan", tiled, "--sram", "m_r", "--method", "belady", "-o", plan).code == 0
    assert onchip("run", plan, tiled).code == 0
    assert onchip("check", plan, file).code != 0


def test_of_an_illegal_strategy_nothing_is_emitted(fuse: Program, tmp_path: Path) -> None:
    strategy, tiled = tmp_path / "strategy.json", tmp_path / "tiled.json"
    fuse(*ONE_STACK, "-o", strategy)
    strategy.write_text(strategy.read_text().replace('"rows": 4', '"rows": 40'))
    assert fuse("--check", strategy, "--emit-graph", tiled).code == 1
    assert not tiled.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--emit-graph", "tiled.txt"), "tiled.txt: --emit-graph: "),
        (("--emit-graph", "no/tiled.json"), "no/tiled.json: there is no directory 'no'"),
        (("--emit-graph", "tiled.json", "--bits", "4"), "--bits: "),
        (("--emit-graph", "tiled.json", "--granularity", "raw"), "--granularity: "),
    ],
)
def test_what_cannot_be_emitted_is_refused_before_the_search(
    fuse: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = fuse(*arguments)
    assert ended.code == 2
    assert message in ended.err
    assert not list(tmp_path.glob("tiled*"))


def test_the_network_is_not_replaced_by_its_tiles(fuse: Program, network: Path) -> None:
    ended = fuse(*ONE_STACK, "--emit-graph", network)
    assert ended.code == 2
    assert "is an input" in ended.err
    assert network.read_text() == three_convolutions()


# `onchip fuse` with operators that cannot be fused: their cost is the data that they move


SHAPE = [1, 4, 6, 6]
ELEMENTS = 4 * 6 * 6
BOUNDS = ("begin", "end", "axes")
LSTM_MACS = 2 * 16 * 3 + 16 * 4
"""The first step has no state to multiply."""
FAST = ("--bits", "8", "--method", "loma", "--tile-sizes", "divisors", "--no-cache")


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
