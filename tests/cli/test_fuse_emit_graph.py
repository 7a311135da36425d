"""`onchip fuse --emit-graph`: from a network through a graph file of tiles to output values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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

ONE_STACK = ("--groups", "one", "--tile", "3x4")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCHIP_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def network(tmp_path: Path) -> Path:
    path = tmp_path / "three.json"
    path.write_text(three_convolutions())
    return path


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
