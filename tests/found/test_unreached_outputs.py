"""Outputs of a transposed convolution that no tap reaches are written, and count in every figure."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from support.diamond import Program
from support.onnx_networks import model, value
from support.series import with_slow
from support.small_schedules import schedule_check_and_run

FOLDER = Path(__file__).parent


def transposed_convolution(random: Random) -> onnx.ModelProto:
    """Return a transposed convolution with any stride, dilation and output padding, and perhaps a reader."""
    group = random.choice((1, 2))
    channels, outputs = group * random.choice((1, 2)), group * random.choice((1, 2))
    sizes, kernel, strides = ([random.randint(1, top) for _ in range(2)] for top in (4, 3, 4))
    dilations, padding = [random.choice((1, 1, 2)) for _ in range(2)], [random.randrange(size) for size in strides]
    spans = zip(sizes, kernel, strides, dilations, padding, strict=True)
    pads = [random.randint(0, min(2, ((n - 1) * s + (k - 1) * d + o) // 2)) for n, k, s, d, o in spans]
    nodes = [
        helper.make_node(
            "ConvTranspose",
            ["x", "w", "b"],
            ["up"],
            name="up",
            strides=strides,
            dilations=dilations,
            output_padding=padding,
            pads=pads * 2,
            group=group,
        )
    ]
    weights = [("w", (channels, outputs // group, *kernel)), ("b", (outputs,))]
    match random.choice(("Conv", "Pad", "Softmax", "Slice")):
        case "Conv":
            weights.append(("v", (2, outputs, 1, 1)))
            nodes.append(helper.make_node("Conv", ["up", "v"], ["y"], name="c", strides=[random.randint(1, 2)] * 2))
        case "Pad":
            nodes.append(helper.make_node("Pad", ["up", "places"], ["y"], name="p"))
        case "Slice":
            nodes.append(helper.make_node("Slice", ["up", "starts", "ends", "axes"], ["y"], name="s"))
        case _:
            nodes.append(helper.make_node("Softmax", ["up"], ["y"], name="soft"))
    rng = np.random.default_rng(0)
    constants = [numpy_helper.from_array(rng.random(shape).astype(np.float32), name) for name, shape in weights]
    numbers = {"places": [0, 0, 1, 0, 0, 0, 0, 2], "starts": [0], "ends": [1], "axes": [2]}
    constants += [numpy_helper.from_array(np.array(each), name) for name, each in numbers.items()]
    return model(nodes, [value("x", (1, channels, *sizes))], ["y"], constants)


@pytest.mark.parametrize("objective", ["traffic", "energy", "latency"])
def test_the_bound_of_a_kernel_smaller_than_its_stride_is_reached(
    objective: str, onchip: Program, tmp_path: Path
) -> None:
    network = FOLDER / "convt-kernel2-stride3.onnx"
    found = schedule_check_and_run(onchip, network, tmp_path, "simba", "--objective", objective)
    assert found["traffic"]["total"] >= 16 + 4 + 121


@pytest.mark.parametrize("seed", with_slow(range(12), {6, 7}.__contains__))
def test_no_schedule_of_a_transposed_convolution_is_below_its_bound(seed: int, onchip: Program, tmp_path: Path) -> None:
    network = tmp_path / "network.onnx"
    onnx.save(transposed_convolution(Random(seed)), network)
    objective = ("traffic", "energy", "latency", "edp")[seed % 4]
    accelerator = ("simba", "meta-prototype-df")[seed // 4 % 2]
    schedule_check_and_run(onchip, network, tmp_path, accelerator, "--objective", objective)
