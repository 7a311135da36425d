"""Large JSON files are refused or read without Python work per value."""

from __future__ import annotations

import json

import pytest

from onchip.errors import GraphError
from onchip.formats import validation
from onchip.formats.own.graph_json import graph_from_json


def graph_with(attribute: str) -> str:
    return (
        '{"format": "onchip-graph", "version": 1, "name": "g", "tensors": ['
        '{"name": "a", "bytes": 1, "role": "input"}, {"name": "b", "bytes": 1, "role": "output"}], "operators": ['
        '{"name": "o", "kind": "Relu", "inputs": ["a"], "outputs": ["b"], "attributes": {"x": ' + attribute + "}}]}"
    )


def test_too_many_values_are_refused_before_any_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    text = graph_with("[" + "1," * validation.GREATEST_VALUES + "1]")
    monkeypatch.setattr(json, "loads", None)

    with pytest.raises(GraphError, match=str(validation.GREATEST_VALUES)):
        graph_from_json(text, "g.json")


@pytest.mark.parametrize(
    "number",
    ["9223372036854775808", "-9223372036854775808", "1e999", "-1E999", "1.5E+400", "9" * 400 + ".5", "9" * 9999],
)
def test_a_number_that_is_too_large_is_refused(number: str) -> None:
    with pytest.raises(GraphError, match=r"attributes\.x\[1\]: the (integer|number) is too large"):
        graph_from_json(graph_with(f"[1, {number}]"), "g.json")


def test_an_object_deep_in_a_list_is_refused_with_its_place() -> None:
    with pytest.raises(GraphError, match=r"attributes\.x\[2\]\[1\] is an object"):
        graph_from_json(graph_with("[1, 2, [3, {}]]"), "g.json")


def test_a_wrong_entry_of_a_long_list_is_refused_before_python_makes_an_object(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = (
        '{"format": "onchip-graph", "version": 1, "name": "g", "tensors": [' + "{}," * 9_999 + '{}], "operators": []}'
    )
    monkeypatch.setattr(json, "loads", None)

    with pytest.raises(GraphError, match=r"tensors\[0\]\.name: the field is missing"):
        graph_from_json(text, "g.json")
