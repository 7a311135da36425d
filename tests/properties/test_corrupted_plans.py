"""A plan file with any damaged text is read and verified, or refused in one line."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.document import PlanDocument
from onchip.answer.problem import Problem
from onchip.errors import InputError
from onchip.formats.own.graph_json import read_graph
from onchip.formats.own.plan_json import plan_from_json
from onchip.verify.verifier import verify
from support.timed_problems import UNTIMED

Json: TypeAlias = Any

EXAMPLES = Path(__file__).parents[2] / "examples"
TEXT = (EXAMPLES / "diamond.plan.json").read_bytes()
GRAPH = read_graph(EXAMPLES / "diamond.graph.json")
POSITIONS = st.integers(0, len(TEXT) - 1)
TENSORS = [*(tensor.name for tensor in GRAPH.tensors), "absent", "dram", "sram", ""]
VALUES = st.one_of(
    st.sampled_from(TENSORS + [operator.name for operator in GRAPH.operators]),
    st.sampled_from([None, True, 0, -1, 1.5, 1e300, 2**62, 10**30, "<huge>", float("nan"), "\ud800", [], {}, [[]]]),
    st.integers(-20000, 20000),
    st.text(max_size=3),
    st.recursive(st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner), max_leaves=5),
)
NAMES = st.sampled_from(TENSORS)
INSTRUCTIONS = st.one_of(
    st.builds(
        lambda tensor, memory, offset: {"allocate": {"tensor": tensor, "memory": memory, "offset_bytes": offset}},
        NAMES,
        NAMES,
        st.integers(-20000, 20000) | st.sampled_from([2**62, -(2**62)]),
    ),
    st.builds(lambda tensor, memory: {"free": {"tensor": tensor, "memory": memory}}, NAMES, NAMES),
    st.builds(
        lambda *ends: {"copy": dict(zip(("tensor", "source", "target"), ends, strict=True))}, NAMES, NAMES, NAMES
    ),
    st.builds(lambda name: {"compute": name}, st.sampled_from([op.name for op in GRAPH.operators]) | NAMES),
)


def read_or_refuse(text: bytes) -> PlanDocument | str:
    try:
        return plan_from_json(text, "plan.json")
    except InputError as error:
        return str(error)


def check(text: bytes) -> None:
    """Check the property."""
    document = read_or_refuse(text)
    if isinstance(document, str):
        assert document.startswith("plan.json: ")
        assert len(document.splitlines()) == 1
        assert len(document) < 600
        return
    for objective in UNTIMED:
        problem = Problem(GRAPH, document.answer.memories, objective, count=document.reading.count)
        verdict = verify(problem, document.answer, document.claim)
        assert all("\n" not in str(violation) for violation in verdict.violations)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(POSITIONS, st.integers(0, 255)), min_size=1, max_size=3))
def test_bytes_are_changed(flips: list[tuple[int, int]]) -> None:
    text = bytearray(TEXT)
    for position, value in flips:
        text[position] = value
    check(bytes(text))


@settings(max_examples=150, deadline=None)
@given(POSITIONS, st.integers(1, 400))
def test_a_piece_is_missing(start: int, length: int) -> None:
    check(TEXT[:start] + TEXT[start + length :])


@settings(max_examples=150, deadline=None)
@given(POSITIONS, st.integers(1, 400), POSITIONS)
def test_a_piece_stands_twice(start: int, length: int, target: int) -> None:
    check(TEXT[:target] + TEXT[start : start + length] + TEXT[target:])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=3))
def test_lines_are_swapped(swaps: list[tuple[int, int]]) -> None:
    lines = TEXT.splitlines(keepends=True)
    for first, second in swaps:
        first, second = first % len(lines), second % len(lines)
        lines[first], lines[second] = lines[second], lines[first]
    check(b"".join(lines))


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(st.data())
def test_values_are_changed_dropped_repeated_and_added(data: st.DataObject) -> None:
    document: Json = json.loads(TEXT)
    for _ in range(data.draw(st.integers(1, 4))):
        _change_somewhere(document, data)
    check(_dumps(document).encode())


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), INSTRUCTIONS), min_size=1, max_size=4))
def test_a_plan_of_wrong_instructions_is_read_and_verified(edits: list[tuple[int, int, Json]]) -> None:
    document: Json = json.loads(TEXT)
    for first, last, instruction in edits:
        document["instructions"][first:last] = [instruction]
    text = _dumps(document).encode()
    assert not isinstance(read_or_refuse(text), str)
    check(text)


def _change_somewhere(document: Json, data: st.DataObject) -> None:
    here = document
    while True:
        key = data.draw(st.sampled_from(list(here) if isinstance(here, dict) else range(len(here))))
        if not isinstance(here[key], dict | list) or not here[key] or data.draw(st.integers(0, 3)) == 0:
            break
        here = here[key]
    match data.draw(st.sampled_from(("change", "drop", "repeat", "add"))):
        case "drop" if len(here) > 1 or here is not document:
            del here[key]
        case "repeat" if isinstance(here, list):
            here.insert(data.draw(st.integers(0, len(here))), copy.deepcopy(here[key]))
        case "add" if isinstance(here, dict):
            here[data.draw(st.sampled_from(["extra", "sha256", "free", "compute"]))] = copy.deepcopy(data.draw(VALUES))
        case _:
            here[key] = copy.deepcopy(data.draw(VALUES))


def _dumps(value: object) -> str:
    """Return JSON, also with an integer longer than Python prints."""
    return json.dumps(value).replace('"<huge>"', "9" * 5000)
