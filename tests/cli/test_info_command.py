"""Tests of `onchip info`, `networks`, `accelerators` and `capacity`."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import onnx
import pytest

from support.diamond import Program

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def test_the_diamond_is_described_as_worked_out_by_hand(onchip: Program, diamond: Path) -> None:
    ended = onchip("info", diamond, "--json")

    assert ended.code == 0
    assert ended.json["operators"] == 4
    assert ended.json["tensors"]["activation"] == {"count": 3, "bytes": 160}
    assert (ended.json["required_bytes"], ended.json["required_by"]) == (130, "join")
    assert ended.json["min_peak_bytes"] == 160
    assert ended.json["compulsory_bytes"] == 70
    assert ended.json["largest_tensors"][0] == {"name": "s", "role": "activation", "shape": [1, 60], "bytes": 60}


def test_a_person_reads_the_same(onchip: Program, diamond: Path) -> None:
    out = onchip("info", diamond).out

    assert "130 bytes, set by join" in out
    assert "160 bytes" in out
    assert "1x60" in out


def test_resnet50_of_the_onnx_wheel_is_what_its_paper_says(onchip: Program) -> None:
    """53 convolutions, 16 additions, 2 poolings, a fully connected layer and a softmax, each with its activation."""
    found = onchip("info", LIGHT / "light_resnet50.onnx", "--bits", "8", "--json").json

    assert found["operators"] == 53 + 16 + 2 + 1 + 1
    assert found["tensors"]["input"] == {"count": 1, "bytes": 3 * 224 * 224}
    assert found["tensors"]["output"] == {"count": 1, "bytes": 1000}
    assert found["largest_tensors"][0]["bytes"] == 64 * 112 * 112
    assert found["required_bytes"] == 3 * 256 * 56 * 56


@pytest.mark.parametrize("verb", ["networks", "accelerators"])
def test_what_is_bundled_is_listed(onchip: Program, verb: str) -> None:
    ended = onchip(verb, "--json")

    assert ended.code == 0
    assert ended.json[verb]
    first = ended.json[verb][0]
    assert (first if isinstance(first, str) else first["name"]) in onchip(verb).out


def test_a_bundled_network_can_be_described(onchip: Program) -> None:
    name = onchip("networks", "--json").json["networks"][0]

    assert onchip("info", name, "--time-limit", "0.5", "--json").code == 0


def test_the_version_is_told(onchip: Program) -> None:
    ended = onchip("--version")

    assert ended.code == 0
    assert ended.out.startswith("onchip 0.")


# `onchip capacity`: the curve as text and as a JSON object


def test_the_curve_is_said_with_its_names(onchip: Program, diamond: Path) -> None:
    found = onchip("capacity", diamond, "--json").json

    assert (found["required_bytes"], found["min_peak_bytes"], found["is_proven"]) == (130, 160, True)
    assert [(one["from_bytes"], one["to_bytes"], one["traffic_bytes"]) for one in found["steps"]] == [
        (130, 159, 170),
        (160, None, 70),
    ]
    text = onchip("capacity", diamond).out
    found = dict(re.findall(r"^(\S+) {2,}(.*)$", text, re.MULTILINE))
    assert (found["status"], found["M_P"], found["plans"]) == ("OPTIMAL: every step is proven", "160 bytes", "4")
    assert found["M_R"].startswith("130 bytes, set by ")


@pytest.mark.slow
def test_each_step_begins_where_the_plan_gets_cheaper(onchip: Program) -> None:
    steps = onchip("capacity", "densenet121", "--bits", "8", "--json").json["steps"]

    assert len(steps) == 6
    for step, above in pairwise(steps):
        for size, value in ((step["to_bytes"], step), (above["from_bytes"], above)):
            planned = onchip("plan", "densenet121", "--bits", "8", "--sram", size, "--json").json
            assert (planned["status"], planned["objective_value"]) == ("OPTIMAL", value["objective_value"])
    size = steps[0]["from_bytes"] - 1
    below = onchip("plan", "densenet121", "--bits", "8", "--sram", size, "--tiles", "never", "--json")
    assert below.code == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nonsense",), "nonsense"),
        (("lenet5", "--objective", "latency"), "--objective: the latency is seldom proven"),
        (("lenet5", "--accelerator", "cortex-m7-like"), "--accelerator: cortex-m7-like has several scratchpads"),
        (("lenet5", "--time-limit", "-1"), "--time-limit"),
    ],
)
def test_bad_input_of_capacity_is_one_line(onchip: Program, words: tuple[str, ...], said: str) -> None:
    ended = onchip("capacity", *words)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert said in ended.err


def test_weights_that_the_scratchpad_does_not_hold_fit_at_no_size(onchip: Program) -> None:
    asked = ("capacity", "lenet5", "--objective", "dma-cycles", "--accelerator", "meta-prototype-df", "--count", "all")
    ended = onchip(*asked)
    assert (ended.code, "operator fc0 fits at no size: weight" in ended.out) == (3, True)
    found = onchip(*asked, "--json")
    assert (found.code, found.json["status"], found.json["operator"], found.json["steps"]) == (
        3,
        "INFEASIBLE",
        "fc0",
        [],
    )
