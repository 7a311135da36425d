"""Cycles, energy and splits stated in a graph file: read, written, timed, shared among tiles."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from onchip.answer.problem import Count, Problem
from onchip.api.plan import plan_problem
from onchip.api.time_plan import timeline_of
from onchip.arch.memory import Memory
from onchip.errors import GraphError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import graph_from_json, graph_to_json
from onchip.ir.operator import ChannelSplits, StatedCost
from onchip.transform.rewrite.activations import fuse
from support.programs import graph


def stated(text: str, **costs: StatedCost) -> str:
    plain = graph("x:input:4 a:activation:4 y:output:4", f="x -> a", g="a -> y")
    operators = tuple(replace(one, stated=costs.get(one.name, one.stated)) for one in plain.operators)
    return graph_to_json(replace(plain, operators=operators, name=text))


def test_what_is_stated_is_read_as_it_is_written() -> None:
    cost = StatedCost(100, 2.5, ChannelSplits(cuts_inputs=True, ways=((2, 60), (4, 40))))
    read = graph_from_json(stated("network", f=cost, g=StatedCost(7)), "network.json")
    assert [one.stated for one in read.operators] == [cost, StatedCost(7)]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"cycles": 0}, "takes 0 cycles"),
        ({"cycles": 1, "energy_pj": -1.0}, "takes -1.0 pJ"),
        ({"cycles": 1, "energy_pj": 1e300}, "1e.300 pJ"),
        ({"cycles": 2**62}, "takes 4611686018427387904 cycles"),
        (
            {"splits": {"axis": "channels", "inputs": "whole", "ways": [{"parts": 2, "cycles": 1}]}},
            "cycles of its parts",
        ),
        ({"cycles": 1, "splits": {"axis": "channels", "inputs": "whole", "ways": []}}, r"its parts are \[\]"),
        (
            {"cycles": 1, "splits": {"axis": "channels", "inputs": "whole", "ways": [{"parts": 1, "cycles": 1}]}},
            r"its parts are \[1\]",
        ),
        (
            {"cycles": 1, "splits": {"axis": "channels", "inputs": "whole", "ways": [{"parts": 2, "cycles": 0}]}},
            "a part takes 0 cycles",
        ),
    ],
)
def test_what_cannot_be_is_one_line(fields: dict[str, object], says: str) -> None:
    network = json.loads(stated("network"))
    network["operators"][1] |= fields
    with pytest.raises(GraphError, match=says) as caught:
        graph_from_json(json.dumps(network), "network.json")
    assert caught.value.place == "operators[1]"


def test_operators_take_the_cycles_that_are_stated() -> None:
    network = graph_from_json(stated("network", f=StatedCost(100), g=StatedCost(50)), "network.json")
    problem = Problem(network, (Memory("buffer", 64),), count=Count.ALL)
    plan = plan_problem(problem).answer
    assert plan is not None
    timeline = timeline_of(problem, plan, load_accelerator("soma-edge"))
    computed = [one.cycles for one in timeline.activities if one.queue is None]
    assert computed == [100, 50]
    assert timeline.total_cycles == 1 + 150 + 1


def test_a_tile_takes_its_share_rounded_up() -> None:
    assert StatedCost(100, 3.0, ChannelSplits(cuts_inputs=False, ways=((2, 60),))).share(1, 3) == StatedCost(34, 1.0)


def test_what_states_its_cost_is_not_fused() -> None:
    plain = graph("x:input:4 a:activation:4 y:output:4", f="x -> a", g="a -> y")
    relu = replace(plain, operators=(plain.operators[0], replace(plain.operators[1], kind="Relu")))
    assert len(fuse(relu).operators) == 1
    timed = tuple(replace(one, stated=StatedCost(5)) for one in relu.operators)
    assert len(fuse(replace(relu, operators=timed)).operators) == 2


def test_the_networks_of_soma_are_read() -> None:
    """The test reads one operator in the form of those files."""
    fields = {
        "format": "onchip-graph",
        "version": 1,
        "name": "soma",
        "tensors": [
            {"name": "x", "bytes": 150528, "role": "input"},
            {"name": "w", "shape": [64, 147], "bits": 8, "role": "parameter"},
            {"name": "y", "shape": [64, 112, 112], "bits": 8, "role": "output"},
        ],
        "operators": [
            {
                "name": "conv1",
                "kind": "conv",
                "inputs": ["x"],
                "parameters": ["w"],
                "outputs": ["y"],
                "cycles": 76832,
                "energy_pj": 39416159.896,
                "splits": {"axis": "channels", "inputs": "whole", "ways": [{"parts": 2, "cycles": 38416}]},
            }
        ],
    }
    operator = graph_from_json(json.dumps(fields), "soma.json").operators[0]
    assert operator.stated.splits is not None
    assert operator.stated.splits.cycles_of(2) == 38416
    assert operator.stated.splits.cycles_of(3) is None
