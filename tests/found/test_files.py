"""Files that were once accepted although they are wrong, or misread."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pytest
import yaml

from onchip.arch.memory import Operand
from onchip.errors import InputError
from onchip.formats.foreign_files import load_any_accelerator, read_layers
from onchip.ir.layer import GREATEST_NUMBER, Layer
from support.diamond import Program

FILES = Path(__file__).parent / "files"
DIAMOND = FILES / "diamond.graph.json"
WITHOUT_A_LAYER = FILES / "diamond-layer-removed.mapping.yaml"


def test_a_mapping_file_without_a_layer_is_illegal(onchip: Program) -> None:
    ended = onchip("check", WITHOUT_A_LAYER, DIAMOND)
    assert ended.code == 1
    assert "layer-missing" in ended.out
    assert "left_wide" in ended.out
    assert "1 of 4 layers have no mapping" in " ".join(ended.out.split())


def test_a_partial_mapping_file_is_legal_if_that_is_asked_for(onchip: Program) -> None:
    ended = onchip("check", WITHOUT_A_LAYER, DIAMOND, "--partial", "--json")
    assert ended.code == 0
    assert "1 of 4 layers have no mapping: left_wide" in ended.json["not_checked"]


def test_a_mapping_file_without_layers_is_illegal(onchip: Program, tmp_path: Path) -> None:
    fields = yaml.safe_load(WITHOUT_A_LAYER.read_text())
    path = tmp_path / "empty.yaml"
    path.write_text(yaml.safe_dump({**fields, "layers": []}))
    assert onchip("check", path, DIAMOND).code == 1


@pytest.mark.parametrize("is_in_one_entry", [True, False])
def test_a_layer_with_two_mappings_is_refused(is_in_one_entry: bool, onchip: Program, tmp_path: Path) -> None:
    text = WITHOUT_A_LAYER.read_text()
    fields, again = yaml.safe_load(text), yaml.safe_load(text)
    if is_in_one_entry:
        fields["layers"][0]["names"] *= 2
    else:
        fields["layers"].append(again["layers"][0])
    path = tmp_path / "twice.yaml"
    path.write_text(yaml.safe_dump(fields))
    ended = onchip("check", path, DIAMOND)
    assert ended.code == 2
    assert "layer 'left' stands twice" in ended.err


def test_only_a_mapping_file_may_be_partial(onchip: Program, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    assert onchip("plan", DIAMOND, "--sram", "1MiB", "-o", plan).code == 0
    ended = onchip("check", plan, DIAMOND, "--partial")
    assert ended.code == 2
    assert "--partial" in ended.err


VARIABLE = FILES / "variable-overlaps-output.tflite"
PLACES = (0, -1, -1, 16, 64, 32)
"""Offsets in the file: of the input, two constants, the variable and two outputs."""


def with_places(path: Path, places: Sequence[int]) -> Path:
    """Write the model with other offsets."""
    content, there = VARIABLE.read_bytes(), np.array(PLACES, "<i4").tobytes()
    assert content.count(there) == 1
    path.write_bytes(content.replace(there, np.array(places, "<i4").tobytes()))
    return path


def test_a_variable_of_an_arena_plan_shares_no_byte_with_any_tensor(onchip: Program, tmp_path: Path) -> None:
    ended = onchip("check", VARIABLE, VARIABLE)
    assert ended.code == 1
    assert "overlap: 'st'" in ended.out
    apart = with_places(tmp_path / "apart.tflite", (0, -1, -1, 16, 64, 80))
    assert onchip("check", apart, apart).code == 0


@pytest.mark.parametrize("tensor", range(len(PLACES)))
def test_an_offset_below_minus_one_is_illegal_for_every_tensor(tensor: int, onchip: Program, tmp_path: Path) -> None:
    places = [-2 if at == tensor else place for at, place in enumerate(PLACES)]
    path = with_places(tmp_path / "negative.tflite", places)
    ended = onchip("check", path, path)
    assert ended.code == 1
    assert "negative-offset" in ended.out


def test_a_variable_that_the_runtime_places_is_listed(onchip: Program, tmp_path: Path) -> None:
    path = with_places(tmp_path / "open.tflite", (0, -1, -1, -1, 64, 32))
    ended = onchip("check", path, path, "--json")
    assert ended.code == 0
    assert ended.json["not_checked"][0] == "where 1 tensor will lie, which the runtime decides"


HUGE = GREATEST_NUMBER + 1


@pytest.mark.parametrize("size", [HUGE, HUGE + 1, 2**63, 2**64 + 1, 10**30])
@pytest.mark.parametrize("field", ["stride", "dilation", "padding", "n", "g", "input_bits", "output_bits"])
def test_a_number_beyond_the_exact_range_is_refused(field: str, size: int) -> None:
    values = {"stride": (1, size), "dilation": (size, 1), "padding": (size, 0, 0, 0)}
    with pytest.raises(InputError, match=r"expected (at most 9007199254740991|at least those|less padding)"):
        Layer(**{"p": 4, field: values.get(field, size)})  # type: ignore[arg-type]


def test_an_input_beyond_the_exact_range_is_refused() -> None:
    with pytest.raises(InputError, match="rows or columns of the input is"):
        Layer(p=2**20, stride=(2**40, 1))
    with pytest.raises(InputError, match="elements of the input is"):
        Layer(c=2**20, p=2**10, q=2**10, stride=(2**20, 2**20))
    assert Layer(p=2, stride=(GREATEST_NUMBER - 1, 1)).input_pixels == (GREATEST_NUMBER, 1)


@pytest.mark.parametrize("option", ["stride", "dilation"])
def test_a_layer_as_text_is_refused_in_one_line(option: str, onchip: Program) -> None:
    ended = onchip("map", f"conv:k4c4p4q4r3s3:{option}{HUGE}", "--accelerator", "simba", "--time-limit", "2")
    assert ended.code == 2
    assert f"{option} is {HUGE}" in ended.err


def test_a_stride_of_a_timeloop_problem_is_refused_in_one_line(onchip: Program, tmp_path: Path) -> None:
    path = tmp_path / "problem.yaml"
    path.write_text(f"problem: {{shape: cnn-layer, N: 1, K: 8, C: 4, P: 5, Q: 6, R: 3, S: 3, Wstride: {HUGE}}}\n")
    ended = onchip("map", path, "--accelerator", "simba", "--time-limit", "2")
    assert ended.code == 2
    assert f"stride is {HUGE}" in ended.err


TIMELOOP: Final = Path(__file__).parent / "machines"


def test_a_register_file_of_32_instances_in_each_row_is_read_as_128_blocks() -> None:
    machine = load_any_accelerator(str(TIMELOOP / "block-size.arch.yaml"), str(TIMELOOP / "block-size.keep.yaml"))
    weights = machine.levels[0]
    assert weights.memory.name == "Weights"
    assert weights.memory.capacity_bytes == 128 * 32
    assert weights.access is not None
    assert weights.access.access_bits == 256


def test_nodes_of_version_0_4_are_read() -> None:
    machine = load_any_accelerator(str(TIMELOOP / "nodes.arch.yaml"))
    held = {level.memory.name: (level.memory.capacity_bytes, level.memory.holds) for level in machine.levels}
    assert held == {
        "oreg": (32, (Operand.OUTPUT,)),
        "wreg": (16, (Operand.WEIGHT,)),
        "scratch": (16 * 1024, (Operand.INPUT, Operand.OUTPUT)),
    }
    assert machine.array is not None
    assert machine.array.macs == 16


def test_an_inline_matrix_product_is_read() -> None:
    assert read_layers(TIMELOOP / "gemm.yaml") == {"gemm": Layer(n=32, k=16, c=64)}


def test_constraints_may_stand_as_a_list() -> None:
    machine = load_any_accelerator(str(TIMELOOP / "block-size.arch.yaml"), str(TIMELOOP / "list.keep.yaml"))
    assert machine.levels[-1].memory.holds == (Operand.INPUT, Operand.OUTPUT)
