"""Demand passes through views that move data: the bound of a schedule counts the operators before them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from onchip.api.schedule import ScheduleRequest, read_schedule_question
from onchip.arch.energies import stated
from support.onnx_networks import integers, model, value

FOLDER = Path(__file__).parent
PADS = [0, 0, 1, 1, 0, 0, 1, 1]


def convolutions(*, is_padded_apart: bool) -> onnx.ModelProto:
    """Return two convolutions; the zeros around the second's input come from a Pad or from its own padding."""
    rng = np.random.default_rng(0)
    shapes = {"w0": (8, 4, 3, 3), "w1": (6, 8, 3, 3)}
    weights = [numpy_helper.from_array(rng.random(shape).astype(np.float32), name) for name, shape in shapes.items()]
    nodes = [helper.make_node("Conv", ["x", "w0"], ["a"], name="conv0", pads=[1] * 4)]
    if is_padded_apart:
        nodes.append(helper.make_node("Pad", ["a", "pads"], ["padded"], name="pad"))
        nodes.append(helper.make_node("Conv", ["padded", "w1"], ["y"], name="conv1"))
    else:
        nodes.append(helper.make_node("Conv", ["a", "w1"], ["y"], name="conv1", pads=[1] * 4))
    return model(nodes, [value("x", (1, 4, 10, 9))], ["y"], [*weights, integers("pads", PADS)])


@pytest.mark.parametrize("accelerator", ["simba", "meta-prototype-df"])
def test_a_pad_costs_the_operators_before_it_nothing_of_their_bound(accelerator: str, tmp_path: Path) -> None:
    bounds = []
    for is_padded_apart in (False, True):
        path = tmp_path / f"{is_padded_apart}.onnx"
        onnx.save(convolutions(is_padded_apart=is_padded_apart), path)
        bounds.append(read_schedule_question(ScheduleRequest(str(path), accelerator, bits=8)).relaxation)
    inside, apart = bounds
    assert apart.mac_pj == inside.mac_pj
    assert apart.energy_fj >= 0.99 * inside.energy_fj
    assert apart.traffic_bytes == inside.traffic_bytes


def test_a_transposed_convolution_counts_though_its_reader_skips_pixels() -> None:
    question = read_schedule_question(ScheduleRequest(str(FOLDER / "loose-convtranspose.onnx"), "simba", bits=8))
    array = question.accelerator.array
    assert array is not None
    macs = 8 * 6 * 9 * 14 * 13  # each input pixel counts nine taps, including those that padding cuts off at two edges
    assert stated(question.relaxation.mac_pj) > 0.9 * macs * (array.mac_energy_pj or 0)
