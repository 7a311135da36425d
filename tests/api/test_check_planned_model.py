"""A model with its plan is read back, and each place that contradicts the plan is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import onnx
import pytest

from onchip.answer.document import Reading
from onchip.answer.problem import Objective
from onchip.api.check import CheckRequest, check_file
from onchip.api.check_plan import check_plan
from onchip.api.plan import Request
from onchip.api.target import Target
from onchip.errors import InputError
from onchip.reports.exports import Export, ExportFormat
from onchip.reports.program.outcome import Check
from onchip.verify.rules import Rule
from support.c_projects import planned, saved
from support.onnx_operators import long_skip

ROOM = Target(sram=16384, alignment_bytes=16)


@pytest.fixture
def network(tmp_path: Path) -> Path:
    return saved(long_skip(Random(2)), tmp_path)


@pytest.fixture
def model(network: Path) -> Path:
    """Return the network with its plan inside."""
    plan = planned(network, Request(str(network), Reading(), ROOM, Objective.TRAFFIC))
    check = check_plan(plan, str(network), Target(), {})
    output = network.with_name("planned.onnx")
    Export(ExportFormat.ONNX, (output,), check.document, check.problem, str(network)).write()
    return output


def checked(model: Path, network: Path) -> Check:
    check = check_file(CheckRequest(model, str(network)))
    assert isinstance(check, Check)
    return check


def changed(model: Path, change: Callable[[onnx.ModelProto], None]) -> Path:
    proto = onnx.load(model)
    change(proto)
    onnx.save(proto, model)
    return model


def broken(model: Path, network: Path) -> list[tuple[Rule, str]]:
    return [(one.rule, one.subject) for one in checked(model, network).verdict.violations]


def test_a_planned_model_is_a_plan_of_itself_and_of_the_model_it_was(model: Path, network: Path) -> None:
    assert checked(model, network).is_legal
    assert checked(model, model).is_legal


def test_nodes_and_values_say_where_and_when(model: Path) -> None:
    proto = onnx.load(model)
    pytest.importorskip("onnxruntime").InferenceSession(model)
    said = {
        node.output[0]: {one.key: json.loads(one.value) for one in node.metadata_props} for node in proto.graph.node
    }
    assert [said[name]["onchip.steps"] for name in "abcdy"] == [[0], [1], [2], [3], [4]]
    (place,) = said["b"]["onchip.outputs"]["b"]
    assert set(place) == {"memory", "offset_bytes", "size_bytes", "start_step", "stop_step"}
    assert place["size_bytes"] == 24 * 8 * 8 * 4
    (entry,) = proto.graph.output[0].metadata_props
    assert entry.key == "onchip.residencies"


def test_a_node_that_says_another_step_is_found(model: Path, network: Path) -> None:
    def change(proto: onnx.ModelProto) -> None:
        proto.graph.node[1].metadata_props[0].value = "[3]"

    assert broken(changed(model, change), network) == [(Rule.FIGURE_DIFFERS, "node 'b'")]


def test_a_value_that_lies_elsewhere_is_found(model: Path, network: Path) -> None:
    def change(proto: onnx.ModelProto) -> None:
        entry = proto.graph.input[0].metadata_props[0]
        entry.value = entry.value.replace('"offset_bytes":', '"offset_bytes":1')

    assert broken(changed(model, change), network) == [(Rule.FIGURE_DIFFERS, "value 'input0'")]


def test_metadata_that_are_gone_are_found(model: Path, network: Path) -> None:
    def change(proto: onnx.ModelProto) -> None:
        del proto.graph.node[0].metadata_props[:]

    assert broken(changed(model, change), network) == [(Rule.FIGURE_DIFFERS, "node 'a'")] * 2


def test_a_plan_in_it_that_is_not_legal_is_found(model: Path, network: Path) -> None:
    def change(proto: onnx.ModelProto) -> None:
        entry = next(one for one in proto.metadata_props if one.key == "onchip.plan")
        document = json.loads(entry.value)
        document["instructions"] = [line for line in document["instructions"] if line != {"compute": "b"}]
        entry.value = json.dumps(document)

    assert (Rule.OPERATOR_NEVER_RUN, "b") in broken(changed(model, change), network)


def test_a_model_without_a_plan_is_refused(network: Path) -> None:
    with pytest.raises(InputError, match="it holds no plan; expected a model that"):
        check_file(CheckRequest(network, str(network)))


def test_a_damaged_model_is_refused(tmp_path: Path, network: Path) -> None:
    file = tmp_path / "damaged.onnx"
    file.write_bytes(b"\xff\xff\xff")
    with pytest.raises(InputError, match=r"damaged\.onnx"):
        check_file(CheckRequest(file, str(network)))
