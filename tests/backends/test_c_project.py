"""Plans as C projects: every tensor has its offset of the plan, and plans that no kernel can follow are refused."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper
from onnx.helper import make_node

from onchip.answer.document import Reading
from onchip.answer.problem import Count, Objective
from onchip.api.plan import Request
from onchip.api.target import CapacityBudget, Target
from onchip.arch.sharing import Share
from support.arena_exports import allocations, edited
from support.c_projects import (
    ROOM,
    SANITIZED,
    array_sizes,
    built,
    exported,
    made_and_run,
    needs_a_compiler,
    planned,
    refusal,
    saved,
)
from support.onnx_networks import model, value
from support.onnx_operators import fused_chain, long_skip

pytestmark = needs_a_compiler
TWO_SCRATCHPADS = """
format: onchip-accelerator
version: 1
name: two
memories:
  - {name: near, capacity: 24KiB, holds: [input, output], scratchpad: true, alignment: 8}
  - {name: far, capacity: 24KiB, holds: [input, output], scratchpad: true, alignment: 8}
"""


@pytest.fixture(autouse=True)
def onnxruntime_is_there() -> None:
    pytest.importorskip("onnxruntime")


@pytest.fixture
def network(tmp_path: Path) -> Path:
    return saved(fused_chain(Random(3)), tmp_path)


def in_peak(network: Path, share: Share) -> Request:
    return Request(str(network), Reading(), Target(sram=2**20, alignment_bytes=4), Objective.PEAK, share=share)


@pytest.mark.slow
def test_an_arena_has_exactly_the_bytes_that_the_plan_says(network: Path) -> None:
    project = built(network, flags="-O2")
    assert project.is_right
    sizes = array_sizes(project.folder)
    assert sizes["arena_sram"] == project.project.arenas["sram"]
    assert sizes["network_dram"] == project.project.dram_bytes


def test_a_plan_that_spills_runs_with_copies_in_both_directions(tmp_path: Path) -> None:
    path = saved(long_skip(Random(1)), tmp_path)
    project = built(path, Request(str(path), Reading(), Target(sram=CapacityBudget.M_R, alignment_bytes=4)))
    text = (project.folder / "network.c").read_text()
    assert text.count("dma_copy(network_dram") > 1
    assert project.is_right, project.said


@pytest.mark.slow
def test_a_plan_in_place_runs(network: Path) -> None:
    together, alone = built(network, in_peak(network, Share.ALL)), built(network, in_peak(network, Share.NONE))
    assert together.is_right, together.said
    assert together.project.arenas["sram"] < alone.project.arenas["sram"]


def test_two_scratchpads_are_two_arenas(network: Path, tmp_path: Path) -> None:
    accelerator = tmp_path / "two.yaml"
    accelerator.write_text(TWO_SCRATCHPADS)
    asked = Request(str(network), Reading(), Target(accelerator=str(accelerator)))
    project = built(network, asked)
    assert project.is_right, project.said
    assert set(project.project.arenas) == {"near", "far"}


def test_the_check_fails_where_an_output_is_another(network: Path) -> None:
    folder, _ = exported(network, planned(network))
    values = (folder / "values.h").read_text()
    before, _, expected = values.partition("expected_y[10] = {")
    first = expected.split(",")[0].strip()
    (folder / "values.h").write_text(f"{before}expected_y[10] = {{{expected.replace(first, '0.75f', 1)}")
    assert made_and_run(folder)[1] == 1


@pytest.mark.slow
def test_the_check_fails_where_a_tensor_lies_on_another(network: Path) -> None:
    folder, _ = exported(network, planned(network))
    text = (folder / "network.c").read_text()
    _, _, call = text.partition("binary_f32(")
    left, right = re.findall(r"arena_sram \+ (\d+)", call)[:2]
    assert left != right
    (folder / "network.c").write_text(text.replace(f"arena_sram + {right})", f"arena_sram + {left})"))
    assert made_and_run(folder)[1] == 1


@pytest.mark.slow
def test_a_copy_can_be_replaced(network: Path) -> None:
    folder, _ = exported(network, planned(network))
    (folder / "dma.c").write_text(
        '#include "dma.h"\nvoid dma_copy(void *t, const void *s, size_t b)\n{\n    (void)t, (void)s, (void)b;\n}\n'
    )
    assert made_and_run(folder)[1] == 1


def test_a_project_is_the_same_bytes_every_time(network: Path) -> None:
    plan = planned(network)
    first = {path.name: path.read_bytes() for path in exported(network, plan)[0].rglob("*") if path.is_file()}
    second = {path.name: path.read_bytes() for path in exported(network, plan)[0].rglob("*") if path.is_file()}
    assert first == second


@pytest.mark.slow
def test_files_of_an_earlier_project_are_not_compiled(network: Path) -> None:
    folder, _ = exported(network, planned(network))
    (folder / "constants" / "of_another_network.c").write_text("no C at all\n")
    folder, _ = exported(network, planned(network))
    assert made_and_run(folder)[1] == 0


@pytest.mark.slow
def test_random_weights_stand_for_the_models(network: Path) -> None:
    plan = planned(network)
    own = (exported(network, plan)[0] / "values.h").read_text()
    folder, _ = exported(network, plan, random_weights=5)
    assert (folder / "values.h").read_text() != own
    assert made_and_run(folder, SANITIZED)[1] == 0


@pytest.mark.slow
def test_names_that_no_identifier_and_no_comment_takes_are_changed(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.ones((3, 2), np.float32), "*/ w\\\n")
    nodes = [
        make_node("MatMul", ["x/1", weight.name], ["x 1"], name="/* evil */ \\"),
        make_node("Relu", ["x 1"], ["é"]),
    ]
    path = saved(model(nodes, [value("x/1", [4, 3])], ["é"], [weight]), tmp_path)
    project = built(path, Request(str(path), Reading(), ROOM, Objective.PEAK))
    assert project.is_right, project.said


@pytest.mark.parametrize(
    ("node", "kind", "expected"),
    [
        (make_node("Det", ["x"], ["y"]), TensorProto.FLOAT, "'y': there is no kernel for Det;"),
        (make_node("Add", ["x", "x"], ["y"]), TensorProto.DOUBLE, "'y': there is no kernel for Add of float64;"),
        (make_node("Pad", ["x", "p"], ["y"], mode="edge"), TensorProto.FLOAT, "no kernel for Pad in mode edge;"),
    ],
)
def test_an_operator_without_a_kernel_is_named(node: object, kind: int, expected: str, tmp_path: Path) -> None:
    pads = numpy_helper.from_array(np.array([1, 1, 1, 1], np.int64), "p")
    path = saved(model([node], [value("x", [4, 4], kind)], ["y"], [pads]), tmp_path)  # type: ignore[list-item]
    assert expected in refusal(path, planned(path))


def test_what_a_project_cannot_obey_is_refused(network: Path, tmp_path: Path) -> None:
    counted = planned(network, Request(str(network), Reading(count=Count.ALL), ROOM, Objective.PEAK))
    assert "reading: count: a C project" in refusal(network, counted)
    narrow = planned(network, Request(str(network), Reading(bits=8), ROOM, Objective.PEAK))
    assert "reading: bits: a C project" in refusal(network, narrow)


def test_floats_at_odd_addresses_are_refused(tmp_path: Path) -> None:
    path = saved(model([make_node("Relu", ["x"], ["y"])], [value("x", [4])], ["y"]), tmp_path)
    plan = planned(path, Request(str(path), Reading(), Target(sram=2**10), Objective.PEAK))
    edited(plan, lambda document: allocations(document)["x"].update(offset_bytes=101))
    assert "tensor 'x' lies at 101, where no float can be read" in refusal(path, plan)


@pytest.mark.parametrize(
    ("inputs", "outputs", "why"),
    [(["x"], ["y", "mask"], "with more than one output"), (["x", "half", "training"], ["y"], "that trains")],
)
def test_a_dropout_that_does_more_than_hand_on_is_refused(
    inputs: list[str], outputs: list[str], why: str, tmp_path: Path
) -> None:
    half = TensorProto(name="half", data_type=TensorProto.FLOAT, float_data=[0.5])
    training = TensorProto(name="training", data_type=TensorProto.BOOL, raw_data=b"\1")
    constants = [one for one in (half, training) if one.name in inputs]
    path = saved(model([make_node("Dropout", inputs, outputs)], [value("x", [4])], outputs, constants), tmp_path)
    assert f"operator 'y': there is no kernel for Dropout {why}" in refusal(path, planned(path))
