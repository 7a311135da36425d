"""`onchip map` on files: Timeloop's, ZigZag's, ONNX models and graphs exported from torch."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import helper

from onchip.formats.own.graph_json import write_graph
from support.diamond import Program
from support.onnx_networks import model, value, weight
from support.series import series
from support.toy_chip import CHIP

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


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the cache that all tests of this file share: a layer is searched once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def cache(solved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCHIP_CACHE", str(solved))


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
