"""`import onchip`: the functions give the results of the verbs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from onnx.helper import make_node

import onchip
from onchip.api.library import Elements
from onchip.errors import OpenDimensionsError
from onchip.ir.tensor import Role
from onchip.reports.program.explanation import Explanation
from onchip.reports.program.outcome import AnswerCheck, Check
from onchip.reports.schedule.explanation import ScheduleExplanation
from onchip.reports.schedule.outcome import ScheduleCheck, ScheduleOutcome
from support.onnx_networks import model, value, weight
from support.reports import facts_of
from support.small_schedules import IN_TILES, LAYER_BY_LAYER, chip, outcome, schedule_text, three


def test_a_schedule_has_an_answer_and_a_gap_and_is_checked_and_run() -> None:
    found = onchip.schedule(three(), accelerator=chip(), objective="energy", options=LAYER_BY_LAYER)

    assert found.answer is not None
    assert found.gap is not None
    assert 0 <= found.gap < 1
    checked = onchip.check(found)
    assert isinstance(checked, ScheduleCheck)
    assert checked.is_legal
    assert onchip.run(found, seed=1).is_right


@pytest.mark.slow
def test_what_python_schedules_is_what_the_command_writes(tmp_path: Path) -> None:
    path = tmp_path / "schedule.json"
    path.write_text(schedule_text(in_tiles=True))
    found = onchip.schedule(three(), chip(), options=IN_TILES)

    assert found.document is not None
    read = onchip.check(path, three())
    assert isinstance(read, ScheduleCheck)
    assert read.document == found.document
    assert onchip.run(path, three()).is_right


def test_a_plan_is_made_and_explained(tmp_path: Path) -> None:
    found = onchip.plan(three(), sram=768)
    assert found.answer is not None
    assert found.gap == 0
    assert onchip.explain(found).history.problem is found.problem
    assert onchip.plan(three(), sram="m_r").capacity_bytes == found.required.need_bytes


def test_a_plan_file_is_checked(tmp_path: Path) -> None:
    from onchip.formats.own.plan_json import write_plan

    found = onchip.plan(three(), sram=1024)
    assert found.document is not None
    write_plan(found.document, tmp_path / "plan.json")
    checked = onchip.check(tmp_path / "plan.json", three())
    assert isinstance(checked, Check)
    assert checked.is_legal
    assert onchip.run(tmp_path / "plan.json", three()).is_right


def test_a_plan_file_is_explained_and_drawn(tmp_path: Path) -> None:
    from onchip.formats.own.plan_json import write_plan

    found, path, page = onchip.plan(three(), sram=1024), tmp_path / "plan.json", tmp_path / "page.html"
    assert found.document is not None
    write_plan(found.document, path)
    explained = onchip.explain(path, three())
    assert isinstance(explained, Explanation)
    assert explained.needs == onchip.explain(found).needs
    onchip.report(path, page, three())
    assert "onchip.report" in page.read_text()
    fields = json.loads(path.read_text())
    fields["instructions"] = [one for one in fields["instructions"] if "compute" not in one]
    path.write_text(json.dumps(fields))
    for ask in (lambda: onchip.explain(path, three()), lambda: onchip.report(path, page, three())):
        with pytest.raises(onchip.OnchipError, match="it is not legal: "):
            ask()


def test_layers_are_mapped_and_checked(tmp_path: Path) -> None:
    from onchip.formats.own.mapping_yaml import write_mappings

    found = onchip.map_layer(three(), chip(), method="loma", elements=Elements(bits=8))
    write_mappings(found.document, tmp_path / "mappings.yaml")
    checked = onchip.check(tmp_path / "mappings.yaml", three(), chip())
    assert isinstance(checked, AnswerCheck)
    assert checked.is_legal


def test_buffers_are_packed(tmp_path: Path) -> None:
    path = tmp_path / "buffers.csv"
    path.write_text("id,lower,upper,size\na,0,2,4\nb,1,3,5\nc,2,4,4\n")
    assert onchip.pack(path).result.objective_value == 9
    assert onchip.pack(path, 9).result.status is onchip.Status.OPTIMAL


def test_bad_arguments_say_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(onchip.OnchipError, match="objective: it is 'beauty'; expected one of energy, latency"):
        onchip.schedule(three(), chip(), "beauty")
    path = tmp_path / "schedule.json"
    path.write_text(schedule_text(in_tiles=False))
    for function in (onchip.check, onchip.run):
        with pytest.raises(onchip.OnchipError, match="network: it does not say where its network is"):
            function(path)


def test_elements_of_each_tensor_s_own_bits_are_for_schedules_alone() -> None:
    own = Elements(bits=None, partial_bits=24)
    found = onchip.schedule(three(), chip(), options=LAYER_BY_LAYER, elements=own)
    assert found.document is not None
    assert found.document.reading.bits is None
    for ask in (onchip.map_layer, onchip.fuse):
        with pytest.raises(onchip.OnchipError, match="it says nothing; expected a number"):
            ask(three(), chip(), elements=own)


@pytest.mark.slow
def test_a_schedule_is_drawn_and_explained_as_it_was_found_or_from_its_file(tmp_path: Path) -> None:
    found, path = outcome(in_tiles=True), tmp_path / "schedule.json"
    path.write_text(schedule_text(in_tiles=True))
    for answer, network in ((found, None), (path, three())):
        page = tmp_path / "page.html"
        onchip.report(answer, page, network)
        shown = facts_of(page.read_text())["answer"]
        explained = onchip.explain(answer) if isinstance(answer, ScheduleOutcome) else onchip.explain(answer, network)
        assert isinstance(explained, ScheduleExplanation)
        assert shown["energy_pj"] == explained.figures.energy_fj / 1000
        assert found.figures is not None
        assert explained.figures.energy_fj == found.figures.energy_fj
    fields = json.loads(path.read_text())
    fields["instructions"] = [one for one in fields["instructions"] if "compute" not in one]
    path.write_text(json.dumps(fields))
    with pytest.raises(onchip.OnchipError, match="it is not legal: "):
        onchip.explain(path, three())
    with pytest.raises(onchip.OnchipError, match="it does not say where its network is"):
        onchip.report(path, tmp_path / "page.html")


def test_what_a_file_leaves_open_is_bound_from_python(tmp_path: Path) -> None:
    """A reading binds dimensions, and elements of layers too; the error lists the open dimensions and the options."""
    node = make_node("Conv", ["x", "w"], ["c"])
    total = make_node("Sum", ["c", "bias"], ["y"])
    inputs = [value("x", ["n", 3, None, None]), value("bias", [1])]
    path = tmp_path / "network.onnx"
    path.write_bytes(model([node, total], inputs, ["y"], [weight("w", [4, 3, 3, 3])]).SerializeToString())
    with pytest.raises(OpenDimensionsError) as caught:
        onchip.plan(path, sram="m_r")
    assert [one.axis for one in caught.value.open_dimensions] == [0, 2, 3]

    shapes, values = {"x": (1, 3, 16, 16)}, {"bias": (0.5,)}
    found = onchip.plan(path, sram="m_r", reading=onchip.Reading(shapes=shapes, values=values))
    assert found.document is not None
    assert found.document.reading.shapes == shapes
    assert [tensor.name for tensor in onchip.read_network(str(path), found.document.reading).with_role(Role.INPUT)] == [
        "x"
    ]
    mapped = onchip.map_layer(str(path), chip(), elements=Elements(shapes=shapes, values=values))
    assert "c" in mapped.layers.layers
    scheduled = onchip.schedule(path, chip(), options=LAYER_BY_LAYER, elements=Elements(shapes=shapes, values=values))
    assert onchip.check(scheduled).is_legal


def test_what_shares_bytes_is_said_from_python() -> None:
    reading = onchip.Reading(bits=8)
    alone, shared = (onchip.plan("resnet50", sram="m_r", reading=reading, share=one) for one in ("none", "all"))
    assert [one.required.need_bytes for one in (alone, shared)] == [2408448, 1605632]
    with pytest.raises(onchip.OnchipError, match="share: it is 'some'; expected one of none, in-place, alias, all"):
        onchip.plan("resnet50", sram="m_r", share="some")
