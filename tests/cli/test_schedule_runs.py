"""Real networks, scheduled and run on real bytes: a small LeNet, a reduced FSRCNN, and models of other projects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from onchip.api.networks import read_network
from onchip.formats.own.graph_json import graph_to_json
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role, Tensor
from support.diamond import Program
from support.onnx_networks import LIGHT_MODELS
from support.series import series
from support.toy_chip import CHIP

FACTOR = 30
"""An FSRCNN of 18 x 32 pixels instead of 540 x 960."""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Write a machine with registers for elements of 32 bits, and 64 KiB of buffer."""
    path = tmp_path / "machine.yaml"
    path.write_text(CHIP.replace("2KiB", "64KiB"))
    return path


def cut_small(tensor: Tensor) -> Tensor:
    if tensor.role is Role.PARAMETER or tensor.shape is None or len(tensor.shape) != 4:
        return tensor
    images, channels, rows, columns = tensor.shape
    shape = (images, channels, rows // FACTOR, columns // FACTOR)
    return Tensor.of_shape(tensor.name, shape, tensor.bits or 8, tensor.role)


def schedule_and_run(
    onchip: Program, network: object, machine: Path, *options: object, seconds: float = 4
) -> tuple[str, int]:
    """Schedule and run; return the kernels that ran and the number of tensors compared."""
    schedule = machine.with_name("schedule.json.gz")
    asked = ("--accelerator", machine, "--time-limit", seconds, "-o", schedule, *options)
    assert onchip("schedule", network, *asked).code == 0
    assert onchip("check", schedule, network).code == 0
    ran = onchip("run", schedule, network, "--json")
    assert ran.code == 0
    assert ran.json["run"]["difference"] is None
    assert ran.json["run"]["relative_difference"] == 0
    return ran.json["kernels"], ran.json["run"]["compared"]


def test_lenet5_runs(onchip: Program, machine: Path) -> None:
    kernels, compared = schedule_and_run(onchip, "lenet5", machine, seconds=1)
    assert kernels == "integer arithmetic"
    assert compared >= 10


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["recompute", "fully-cached"])
def test_an_fsrcnn_cut_small_runs_fused_and_tiled(onchip: Program, machine: Path, tmp_path: Path, mode: str) -> None:
    whole = read_network("fsrcnn")
    small: Graph = replace(whole, tensors=tuple(map(cut_small, whole.tensors)))
    path = tmp_path / "small.json"
    path.write_text(graph_to_json(small))
    given = ("--bits", 8, "--groups", "one", "--tile", "16x9", "--mode", mode)
    kernels, compared = schedule_and_run(onchip, path, machine, *given)
    assert kernels == "integer arithmetic"
    assert compared > len(small.tensors)


@pytest.mark.parametrize(("name", "bits"), series([("squeezenet", 32), ("shufflenet", None)], 1))
def test_a_model_runs_on_its_own_nodes_where_elements_have_their_own_bits(
    onchip: Program, machine: Path, name: str, bits: object
) -> None:
    (model,) = (path for path in LIGHT_MODELS if path.name == f"light_{name}.onnx")
    own = (
        *(() if bits is None else ("--bits", bits)),
        "--partial-bits",
        32,
        "--groups",
        "layers",
        "--placements",
        "dram",
    )
    assert schedule_and_run(onchip, model, machine, *own)[0] == "onnxruntime"


@pytest.mark.slow
def test_a_model_of_other_bits_runs_on_integers(onchip: Program, machine: Path) -> None:
    (model,) = (path for path in LIGHT_MODELS if path.name == "light_shufflenet.onnx")
    assert schedule_and_run(onchip, model, machine, "--bits", "8", "--groups", "layers")[0] == "integer arithmetic"
