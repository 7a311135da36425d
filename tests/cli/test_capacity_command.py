"""`onchip capacity`: the curve as text and as a JSON object."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from support.diamond import Program


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
