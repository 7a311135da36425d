"""Models planned for TFLite Micro and exported, by the library."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onchip.answer.document import Granularity, Reading, Runtime
from onchip.answer.problem import Objective
from onchip.api.check import check_file
from onchip.api.check_request import AnswerCheck, CheckRequest
from onchip.api.plan import Request, plan_network
from onchip.api.target import Target
from onchip.backends.tflm.export_arena import ArenaExport, export_arena
from onchip.errors import InputError
from onchip.formats.own.plan_json import plan_to_json
from onchip.formats.tflite.arena import ALIGNMENT_BYTES
from support.micro_models import int8
from support.tflite_models import TfliteOperator, network

MICRO = Reading(granularity=Granularity.RAW, runtime=Runtime.MICRO)
ROOM = Target(sram=2**20, alignment_bytes=ALIGNMENT_BYTES)


def planned(model: Path, request: Request | None = None) -> Path:
    outcome = plan_network(request or Request(str(model), MICRO, ROOM, Objective.PEAK))
    assert outcome.document is not None
    plan = model.with_suffix(".json")
    plan.write_text(plan_to_json(outcome.document))
    return plan


def exported(model: Path, request: Request | None = None) -> ArenaExport:
    output = model.with_name("planned.tflite")
    _, export = export_arena(planned(model, request), str(model), output)
    assert export is not None
    check = check_file(CheckRequest(output, str(output), Target(sram=export.arena_bytes, alignment_bytes=16)))
    assert isinstance(check, AnswerCheck)
    assert check.is_legal
    return export


def refused(plan: Path, model: Path) -> str:
    output = model.with_name("planned.tflite")
    before = model.read_bytes()
    with pytest.raises(InputError) as caught:
        export_arena(plan, str(model), output)
    assert not output.exists()
    assert model.read_bytes() == before
    return str(caught.value)


def chain(folder: Path, length: int = 64) -> Path:
    """Write the model x -> RELU -> a -> RELU -> y."""
    operators = [TfliteOperator("RELU", ["x"], ["a"]), TfliteOperator("RELU", ["a"], ["y"])]
    return network([int8(name, 1, length) for name in "xay"], operators, ["x"], ["y"]).write(folder / "m.tflite")


def edited(plan: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    document = json.loads(plan.read_text())
    change(document)
    del document["result"]
    plan.write_text(json.dumps(document))
    return plan


def allocations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    lines = [line["allocate"] for line in document["instructions"] if "allocate" in line]
    return {line["tensor"]: line for line in lines}
