from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from onchip.answer.document import Granularity, Reading
from onchip.answer.problem import Count, Objective
from onchip.api.plan import Request
from onchip.api.target import Target
from onchip.backends.tflm.export_arena import export_arena
from onchip.errors import InternalError
from support.arena_exports import RAW, ROOM, chain, edited, exported, planned, refused
from support.micro_models import branches, int8
from support.tflite_models import TfliteOperator, handle, network, with_variables


def test_a_model_that_has_changed_since_and_another_model_are_refused(tmp_path: Path) -> None:
    model = chain(tmp_path)
    plan = planned(model)
    chain(tmp_path, length=80)
    assert "it is for another network than" in refused(plan, model)
    branches().write(model)
    assert str(plan) in refused(plan, model)


def test_a_plan_that_the_runtime_cannot_obey_is_refused(tmp_path: Path) -> None:
    model = chain(tmp_path)
    wide = planned(model, Request(str(model), Reading(bits=16, granularity=Granularity.RAW), ROOM, Objective.PEAK))
    assert "cannot obey its bits" in refused(wide, model)
    every = Reading(granularity=Granularity.RAW, count=Count.ALL)
    assert "cannot obey its count" in refused(planned(model, Request(str(model), every, ROOM)), model)


def test_a_plan_that_spills_is_refused(tmp_path: Path) -> None:
    operators = [
        TfliteOperator("RELU", ["x"], ["a"]),
        TfliteOperator("RELU", ["a"], ["b"]),
        TfliteOperator("RELU", ["b"], ["c"]),
        TfliteOperator("ADD", ["a", "c"], ["y"], ("AddOptions", {})),
    ]
    model = network([int8(name, 1, 64) for name in "xabcy"], operators, ["x"], ["y"]).write(tmp_path / "m.tflite")
    spilling = Request(str(model), RAW, Target(sram=192, alignment_bytes=16))
    exported(model, spilling)
    (tmp_path / "planned.tflite").unlink()
    operators.insert(3, TfliteOperator("ADD", ["c", "b"], ["d"], ("AddOptions", {})))
    operators[-1] = TfliteOperator("ADD", ["a", "d"], ["y"], ("AddOptions", {}))
    network([int8(name, 1, 64) for name in "xabcdy"], operators, ["x"], ["y"]).write(model)
    assert "it comes to the chip twice" in refused(planned(model, spilling), model)


def test_a_plan_in_two_scratchpads_is_refused(tmp_path: Path) -> None:
    model = chain(tmp_path)

    def spread(document: dict[str, Any]) -> None:
        (memory,) = document["memories"]
        document["memories"].append(memory | {"name": "other"})
        for line in document["instructions"]:
            for instruction in line.values():
                if isinstance(instruction, dict) and instruction["tensor"] == "a":
                    instruction["memory"] = "other"

    assert "it uses several scratchpads" in refused(edited(planned(model), spread), model)


def test_a_plan_of_other_shapes_is_refused(tmp_path: Path) -> None:
    model = chain(tmp_path)
    shaped = replace(RAW, shapes={"x": (2, 64)})
    assert "cannot obey its shapes" in refused(planned(model, Request(str(model), shaped, ROOM)), model)


def test_a_model_that_would_hold_an_illegal_plan_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = chain(tmp_path)
    plan = planned(model)
    monkeypatch.setattr(
        "onchip.backends.tflm.export_arena._offsets", lambda read, choice: [0] * len(read.network.tensors)
    )
    with pytest.raises(InternalError, match="the model written has no legal plan"):
        export_arena(plan, str(model), tmp_path / "planned.tflite")
    assert not (tmp_path / "planned.tflite").exists()


def test_resource_variables_and_several_subgraphs_are_refused(tmp_path: Path) -> None:
    variable, names_it = handle("v")
    operators = [
        names_it,
        TfliteOperator("READ_VARIABLE", ["v"], ["before"]),
        TfliteOperator("ADD", ["x", "before"], ["y"], ("AddOptions", {})),
        TfliteOperator("ASSIGN_VARIABLE", ["v", "y"], []),
    ]
    tensors = [variable, *(int8(name, 1, 64) for name in ("x", "before", "y"))]
    model = network(tensors, operators, ["x"], ["y"]).write(tmp_path / "m.tflite")
    assert f"{model}: it has resource variables" in refused(planned(model), model)
    with_variables().write(model)
    assert f"{model}: it has 2 subgraphs, whose lives overlap" in refused(planned(model), model)
