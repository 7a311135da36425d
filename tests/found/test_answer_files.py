"""Answer files that `check` once passed although they were wrong or incomplete."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import yaml

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


def test_metadata_that_is_not_text_is_refused(onchip: Program) -> None:
    ended = onchip("check", FILES / "metadata-not-utf8.onnx", FILES / "metadata-network.onnx")
    assert ended.code == 2
    assert "is not text; expected UTF-8" in ended.err
