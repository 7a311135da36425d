from __future__ import annotations

from pathlib import Path

from onchip.formats.networks import writable
from onchip.formats.own.graph_json import graph_from_json, graph_to_json
from support.onnx_networks import make_node, model, read, value


def test_only_what_json_has_no_word_for_becomes_text() -> None:
    assert writable(float("inf")) == "inf"
    assert writable([float("-inf"), [float("nan")], 1, 2.5, True, None, "x"]) == [
        "-inf",
        ["nan"],
        1,
        2.5,
        True,
        None,
        "x",
    ]


def test_attributes_that_are_no_finite_numbers_are_kept_as_text(tmp_path: Path) -> None:
    clip = make_node("Clip", ["x"], ["y"], min=-1.5, max=float("inf"))
    odd = make_node("Odd", ["y"], ["z"], domain="custom", values=[float("-inf"), float("nan"), 2.0])
    network = model([clip, odd], [value("x", [4])], [value("z", [4])], opset=7, declared=[value("y", [4])])
    graph = read(network, tmp_path)

    assert [operator.attributes for operator in graph.operators] == [
        {"min": -1.5, "max": "inf"},
        {"values": ["-inf", "nan", 2.0]},
    ]
    assert graph_from_json(graph_to_json(graph), "network.json") == graph
