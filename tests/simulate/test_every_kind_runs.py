"""Schedules of a tiny network for each kind of operator: legal, and a run equals the reference."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Final

import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.case.test_case import TestCase

from support.diamond import Program
from support.series import series
from support.small_schedules import schedule_check_and_run
from support.tflite_models import (
    TfliteModel,
    a_network_of_many_kinds,
    a_network_of_what_moves_elements,
    bytes_side_by_side,
)

FOLDER = Path(__file__).parents[1] / "data/tflite"
PARTS: Final = 8
"""The number of parts of the test over ONNX's kinds."""


@pytest.fixture(scope="module")
def cases() -> list[tuple[str, TestCase]]:
    """Return the first of onnx's own one-node test models for each kind."""
    found: dict[str, TestCase] = {}
    with warnings.catch_warnings(action="ignore"):  # warnings about the models' values
        for case in collect_testcases(None):
            nodes = [] if case.model is None else case.model.graph.node
            if len(nodes) == 1:
                found.setdefault(nodes[0].op_type, case)
    return sorted(found.items())


def with_constants(case: TestCase) -> onnx.ModelProto:
    """Return the model with all inputs but the first as constants, if their values are tensors."""
    network = onnx.ModelProto()
    if case.model is not None:
        network.CopyFrom(case.model)
    values = case.data_sets[0][0][1:] if case.data_sets else []
    if values and all(hasattr(each, "dtype") for each in values):
        names = [one.name for one in network.graph.input[1:]]
        del network.graph.input[1:]
        network.graph.initializer.extend(map(numpy_helper.from_array, values, names))
    return network


def stated(bits: int | None) -> tuple[object, ...]:
    """Return the option for bits; without any, elements have the model's own types."""
    return () if bits is None else ("--bits", bits)


def runs_or_is_refused(onchip: Program, path: Path, folder: Path, bits: int | None) -> None:
    """Check that a network runs, or that `schedule` or `run` refuses it with exit code 2."""
    answer = folder / "schedule.json"
    ended = onchip("schedule", path, "--accelerator", "simba", *stated(bits), "--no-cache", "-o", answer)
    assert ended.code in (0, 2), (path.name, ended.err)
    if ended.code == 0:
        assert onchip("check", answer, path).code == 0, path.name
        run = onchip("run", answer, path)
        assert run.code in (0, 2), (path.name, run.out, run.err)


@pytest.mark.slow
@pytest.mark.parametrize("bits", [None, 8])
@pytest.mark.parametrize("part", range(PARTS))
def test_operators_of_onnx_are_scheduled_and_run(
    part: int, bits: int | None, cases: list[tuple[str, TestCase]], onchip: Program, tmp_path: Path
) -> None:
    for kind, case in cases[part::PARTS]:
        for name, network in (("inputs", case.model), ("constants", with_constants(case))):
            path = tmp_path / f"{kind}.{name}.onnx"
            assert network is not None
            onnx.save(network, path)
            runs_or_is_refused(onchip, path, tmp_path, bits)


@pytest.mark.parametrize("bits", series([8, None], 1))
@pytest.mark.parametrize(
    "make", series([a_network_of_what_moves_elements, bytes_side_by_side, a_network_of_many_kinds], 2)
)
def test_operators_of_tflite_are_scheduled_and_run(
    make: Callable[[], TfliteModel], bits: int | None, onchip: Program, tmp_path: Path
) -> None:
    path = make().write(tmp_path / "network.tflite")
    schedule_check_and_run(onchip, path, tmp_path, "simba", *stated(bits), "--time-limit", "2")


def test_a_transposed_convolution_that_reads_its_output_shape_runs(onchip: Program, tmp_path: Path) -> None:
    schedule_check_and_run(onchip, FOLDER / "seanet_transpose_conv2.tflite", tmp_path, "simba")
