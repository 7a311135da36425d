"""Networks that once had wrong bytes: joined maps, negative pads, overwritten views."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from onchip.answer.problem import Problem
from onchip.arch.sharing import Share, SharedKinds
from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, InPlace, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.simulate.kernel_protocol import Bytes
from onchip.simulate.machine import WrongBytes, run_in_given_order, run_plan_on_machine
from onchip.transform.rewrite.shared_bytes import SharedBytes
from onchip.verify.rules import Rule
from onchip.verify.verifier import verify
from support.diamond import Program
from support.programs import Case, sram
from support.series import series
from support.small_schedules import schedule_check_and_run

# A concatenation without a copy lies channels first; exports to C for kernels that store channels last refuse it


NETWORK = Path(__file__).parent / "concat-alias.tflite"


@pytest.mark.parametrize(("form", "file"), [("c", "plan.h"), ("c-project", "project")])
def test_a_concatenation_of_channels_without_a_copy_is_refused(
    form: str, file: str, onchip: Program, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    assert onchip("plan", NETWORK, "--sram", "m_p", "--share", "all", "-o", plan).code == 0
    assert onchip("run", plan, NETWORK).code == 0
    ended = onchip("export", plan, NETWORK, "--to", form, "-o", tmp_path / file)
    assert ended.code == 2
    assert "concatenation 7" in ended.err
    assert not (tmp_path / file).exists()


@pytest.mark.parametrize(("form", "file"), [("c", "plan.h"), ("c-project", "project")])
def test_a_concatenation_that_copies_is_exported(form: str, file: str, onchip: Program, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    asked = ("plan", NETWORK, "--sram", "m_p", "--share", "in-place", "--alignment", "16", "-o", plan)
    assert onchip(*asked).code == 0
    assert onchip("export", plan, NETWORK, "--to", form, "-o", tmp_path / file).code == 0


# Negative padding crops the input: no loop nest contains the cropped elements


FOLDER = Path(__file__).parent


def network(random: Random) -> dict[str, Any]:
    """Return a convolution, a pool or a transposed convolution with any padding, and a convolution that reads it."""
    rows, columns, kernel, stride = (
        random.randint(5, 8),
        random.randint(5, 8),
        random.randint(1, 3),
        random.randint(1, 2),
    )
    pads = [random.randint(-2, kernel - 1) for _ in range(4)]
    kind = random.choice(("Conv", "MaxPool", "ConvTranspose"))
    sizes = [
        (size - 1) * stride + kernel - pads[at] - pads[at + 2]
        if kind == "ConvTranspose"
        else (size + pads[at] + pads[at + 2] - kernel) // stride + 1
        for at, size in enumerate((rows, columns))
    ]
    attributes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": pads}
    first = {"name": "first", "kind": kind, "inputs": ["x"], "outputs": ["a"], "attributes": attributes}
    first |= {} if kind == "MaxPool" else {"parameters": ["w"]}
    second = {"name": "second", "kind": "Conv", "inputs": ["a"], "parameters": ["v"], "outputs": ["y"]}
    shapes = {"x": [1, 2, rows, columns], "a": [1, 2, *sizes], "w": [2, 2, kernel, kernel], "v": [3, 2, 1, 1]}
    roles = {"x": "input", "a": "activation", "w": "parameter", "v": "parameter", "y": "output"}
    shapes["y"] = [1, 3, *sizes]
    tensors = [{"name": name, "shape": shapes[name], "bits": 8, "role": role} for name, role in roles.items()]
    tensors = [one for one in tensors if kind != "MaxPool" or one["name"] != "w"]
    document = {"format": "onchip-graph", "version": 1, "name": "cut", "tensors": tensors}
    return {**document, "operators": [first, {**second, "attributes": {"kernel_shape": [1, 1]}}]}


@pytest.mark.parametrize("stacks", ["layers", "optimal"])
def test_a_convolution_with_negative_padding_is_scheduled(stacks: str, onchip: Program, tmp_path: Path) -> None:
    path = FOLDER / "schedules" / "negative-pads.graph.json"
    schedule_check_and_run(onchip, path, tmp_path, "simba", "--objective", "traffic", "--groups", stacks)


@pytest.mark.parametrize("seed", series(range(10), 1))
def test_windows_with_any_padding_are_scheduled(seed: int, onchip: Program, tmp_path: Path) -> None:
    path = tmp_path / "network.json"
    path.write_text(json.dumps(network(Random(seed))))
    objective = ("traffic", "energy", "latency")[seed % 3]
    schedule_check_and_run(onchip, path, tmp_path, "simba", "--objective", objective)


# An output may not lie in the bytes of an input that its operator also reads through another view


SHAPE = (5, 4)
FIRST_ROW: Mapping[str, AttributeValue] = {"seen_shapes": [[5, 4], [1, 4]], "seen_parts": [[], [0, 4, 1]]}
TURNED: Mapping[str, AttributeValue] = {"seen_orders": [[0, 1], [1, 0]]}
TWICE: Mapping[str, AttributeValue] = {"seen_shapes": [[20], [20]]}
PLAN = """
allocate y sram 0
copy y dram sram
allocate z sram 0
compute add
free y sram
copy z sram dram
"""


def sum_of_views(attributes: Mapping[str, AttributeValue], *, is_declared: bool = False) -> Graph:
    """Return a graph that adds an input to a view of itself."""
    tensors = (Tensor.of_shape("y", SHAPE, 8, Role.INPUT), Tensor.of_shape("z", SHAPE, 8, Role.OUTPUT))
    pairs = (InPlace("y", "z"),) if is_declared else ()
    return Graph("sum", tensors, (Operator("add", "Add", ("y", "y"), ("z",), (), attributes, in_place=pairs),))


class AddFirstRow:
    """A kernel that adds the first row to all rows."""

    def parameter(self, tensor: Tensor) -> Bytes:
        raise AssertionError(tensor)

    def run(self, operator: Operator, operands: Mapping[str, Bytes]) -> Mapping[str, Bytes]:
        rows = operands["y"].reshape(SHAPE)
        return {operator.outputs[0]: (rows + rows[:1]).reshape(-1)}


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize(("attributes", "may_share"), [(FIRST_ROW, False), (TURNED, False), (TWICE, True), ({}, True)])
def test_planning_shares_no_bytes_with_a_second_view(
    attributes: Mapping[str, AttributeValue], *, may_share: bool, declared: bool
) -> None:
    graph = sum_of_views(attributes)
    pairs = {"add": (InPlace("y", "z"),)} if declared else {}
    shared = SharedBytes(SharedKinds.of(Share.ALL), pairs)(graph)
    assert bool(shared.operators[0].in_place) is may_share


@pytest.mark.parametrize(("attributes", "may_share"), [(FIRST_ROW, False), (TURNED, False), (TWICE, True), ({}, True)])
def test_the_verifier_refuses_a_plan_that_overwrites_a_second_view(
    attributes: Mapping[str, AttributeValue], *, may_share: bool
) -> None:
    case = Case(Problem(sum_of_views(attributes, is_declared=True), sram(20)), PLAN)
    rules = {violation.rule for violation in verify(case.problem, case.plan).violations}
    assert rules == (set() if may_share else {Rule.OVERLAP})


def test_a_run_finds_bytes_that_were_overwritten_before_they_were_read_again() -> None:
    problem = Problem(sum_of_views(FIRST_ROW, is_declared=True), sram(40))
    inputs = {"y": np.arange(1, 21, dtype=np.uint8)}
    reference = run_in_given_order(problem, AddFirstRow(), inputs)

    in_place = run_plan_on_machine(problem, Case(problem, PLAN).plan, AddFirstRow(), inputs, reference)
    assert in_place.difference is not None
    assert (in_place.difference.tensor, in_place.difference.found) == ("z", WrongBytes.WRITTEN)

    apart = Case(problem, PLAN.replace("allocate z sram 0", "allocate z sram 20")).plan
    assert run_plan_on_machine(problem, apart, AddFirstRow(), inputs, reference).difference is None


def test_a_run_of_an_operator_with_one_view_shares_bytes_as_before() -> None:
    graph = sum_of_views({}, is_declared=True)
    problem = Problem(replace(graph, name="twice"), sram(20))
    inputs = {"y": np.arange(1, 21, dtype=np.uint8)}
    reference = run_in_given_order(problem, AddFirstRow(), inputs)
    assert run_plan_on_machine(problem, Case(problem, PLAN).plan, AddFirstRow(), inputs, reference).difference is None
