"""`onchip run` and `onchip time` through the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from support.diamond import Program
from support.onnx_networks import LIGHT_MODELS

(SQUEEZENET,) = (path for path in LIGHT_MODELS if "squeezenet" in path.name)


@pytest.fixture
def squeezenet_plan(onchip: Program, tmp_path: Path) -> Path:
    path = tmp_path / "squeezenet.plan.json"
    assert onchip("plan", SQUEEZENET, "--sram", "m_r", "-o", path).code == 0
    return path


def test_a_plan_of_a_graph_file_runs_on_made_up_kernels(onchip: Program, diamond: Path, planned: Path) -> None:
    ended = onchip("run", planned, diamond, "--json")
    assert ended.code == 0
    assert ended.json["right"] is True
    assert ended.json["kernels"] == "made up"
    run = ended.json["run"]
    assert run["difference"] is None
    assert run["compared"] == 5
    assert run["relative_difference"] is None
    assert run["moved"] == run["planned"] == {"total": 170, "loads": 90, "write_backs": 80}


def test_a_plan_of_a_model_runs_in_onnxruntime(onchip: Program, squeezenet_plan: Path) -> None:
    ended = onchip("run", squeezenet_plan, SQUEEZENET, "--random-weights", "7")
    assert ended.code == 0
    assert "onnxruntime" in ended.out
    assert "40 tensors equal bit for bit" in ended.out
    assert "greatest relative difference 0 (allowed 1e-05)" in ended.out
    assert ended.out.strip().endswith("the plan runs, and gives the right values")


def test_an_illegal_plan_is_not_run(onchip: Program, diamond: Path, planned: Path) -> None:
    plan = json.loads(planned.read_text())
    plan["instructions"] = [each for each in plan["instructions"] if each != {"compute": "left"}]
    planned.write_text(json.dumps(plan))
    for verb in (("run",), ("time", "--accelerator", "meta-prototype-df")):
        ended = onchip(*verb, planned, diamond)
        assert ended.code == 1
        assert "operator-never-run" in ended.out
        assert "the plan is not legal" in ended.out
    assert onchip("run", planned, diamond, "--json").json["run"] is None


def test_values_that_differ_end_with_1(onchip: Program, diamond: Path, planned: Path) -> None:
    from onchip.simulate.machine import Reference, run_in_given_order

    def wrong(*arguments: object) -> Reference:
        reference = run_in_given_order(*arguments)  # type: ignore[arg-type]
        return Reference({**reference.fingerprints, "r": b""}, reference.outputs)

    with patch("onchip.api.run.run_in_given_order", wrong):
        ended = onchip("run", planned, diamond)
        assert ended.code == 1
        assert "'r', written by an operator 'right', differs from the unplanned run" in " ".join(ended.out.split())
        assert "values or bytes differ" in ended.out
        difference = onchip("run", planned, diamond, "--json").json["run"]["difference"]
    assert (difference["tensor"], difference["found"]) == ("r", "written by an operator")


def test_bytes_that_differ_from_the_plan_end_with_1(onchip: Program, diamond: Path, planned: Path) -> None:
    from dataclasses import replace

    from onchip.simulate import machine

    honest = machine.run_plan_on_machine
    with patch("onchip.api.run.run_plan_on_machine", lambda *arguments: replace(honest(*arguments), loads=91)):
        ended = onchip("run", planned, diamond)
    assert ended.code == 1
    assert "91 bytes, planned 90" in ended.out


@pytest.mark.slow
def test_outputs_too_far_from_the_whole_models_end_with_1(onchip: Program, squeezenet_plan: Path) -> None:
    where = "onchip.simulate.kernels.onnx_kernels.OnnxKernels.difference_from_whole_model"
    for difference, code in ((1e-5, 0), (1.1e-5, 1), (float("inf"), 1)):
        with patch(where, lambda *_, difference=difference: difference):
            ended = onchip("run", squeezenet_plan, SQUEEZENET, "--json")
        assert ended.code == code
        assert ended.json["right"] is (code == 0)


def test_values_for_inputs_come_from_files(onchip: Program, diamond: Path, planned: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.npy"
    np.save(file, np.arange(40, dtype=np.uint8))
    assert onchip("run", planned, diamond, "--input", file).code == 0
    assert onchip("run", planned, diamond, "--input", f"x={file}").code == 0


def test_bad_values_for_inputs_are_refused(onchip: Program, diamond: Path, planned: Path, tmp_path: Path) -> None:
    file, text = tmp_path / "x.npy", tmp_path / "text.npy"
    np.save(file, np.zeros(3, np.uint8))
    text.write_text("no array")
    for given, message in (
        ((file,), "tensor 'x' holds 3 bytes"),
        ((f"s={file}",), "--input: 's="),
        ((file, file), "--input: "),
        ((text,), "text.npy cannot be read"),
        ((tmp_path / "none.npy",), "none.npy cannot be read"),
    ):
        ended = onchip("run", planned, diamond, *(part for one in given for part in ("--input", one)))
        assert ended.code == 2
        assert message in ended.err


@pytest.mark.slow
def test_other_bits_than_the_models_cannot_be_run(onchip: Program, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    assert onchip("plan", SQUEEZENET, "--sram", "m_r", "--bits", 8, "-o", path).code == 0
    ended = onchip("run", path, SQUEEZENET)
    assert ended.code == 2
    assert "reading.bits: the plan counts elements at 8 bits" in ended.err
    assert onchip("plan", SQUEEZENET, "--sram", "m_r", "--bits", 32, "-o", path).code == 0
    assert onchip("run", path, SQUEEZENET).code == 0


def test_a_network_without_model_has_no_weights_to_replace(onchip: Program, diamond: Path, planned: Path) -> None:
    ended = onchip("run", planned, diamond, "--random-weights", 1)
    assert ended.code == 2
    assert "--random-weights: the network has no weights to replace" in ended.err


def test_without_onnxruntime_one_line_names_the_extra(onchip: Program, squeezenet_plan: Path) -> None:
    with patch.dict(sys.modules, {"onnxruntime": None}):
        ended = onchip("run", squeezenet_plan, SQUEEZENET)
    assert ended.code == 2
    assert ended.err.count("\n") == 1
    assert "pip install 'onchip[run]'" in ended.err


def test_a_plan_is_timed_on_an_accelerator(onchip: Program, squeezenet_plan: Path) -> None:
    ended = onchip("time", squeezenet_plan, SQUEEZENET, "--accelerator", "meta-prototype-df", "--json")
    assert ended.code == 0
    timing = ended.json
    assert timing["total_cycles"] == timing["compute_cycles"] + timing["stalled_cycles"]
    assert timing["milliseconds"] == timing["total_cycles"] / 200_000
    assert timing["energy_pj"]["total"] == pytest.approx(sum(v for k, v in timing["energy_pj"].items() if k != "total"))
    # The image comes in and the classes go out at 8 bytes a cycle.
    assert timing["transfer_cycles"] == (602_112 + 4_000) // 8
    assert len(timing["timeline"]) == 39 + 2
    text = onchip("time", squeezenet_plan, SQUEEZENET, "--accelerator", "meta-prototype-df").out
    assert f"{timing['total_cycles']:,} cycles" in text


def test_an_accelerator_of_which_too_little_is_said_cannot_time(onchip: Program, diamond: Path, planned: Path) -> None:
    ended = onchip("time", planned, diamond, "--accelerator", "single-2mib")
    assert ended.code == 2
    assert "accelerator 'single-2mib' has no array" in ended.err
