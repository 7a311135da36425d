"""Networks with operators that run whole, in the tiles of any strategy: the graph of the tiles has their values."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from adversary.fusing import ODD_KINDS, graph_file, random_network, reads_less_than_its_padding
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.errors import InputError
from onchip.formats.own.graph_json import graph_from_json
from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.fusable_reading import partly_fusable_of
from onchip.transform.groups.stack_in_tiles import graph_in_tiles
from onchip.transform.groups.stacks import legal_spans, stack_of
from onchip.transform.slices.bands import untiled
from support.tiled import whole_tensor_differences

MODES = tuple(OverlapMode)


def in_random_tiles(graph: Graph, random: Random) -> Graph:
    """Return any legal stacks, in any tiles; a layer that runs alone is in one tile."""
    network, start = partly_fusable_of(graph).network, 0
    cut = []
    while start < len(network.layers):
        span = random.choice([one for one in legal_spans(network) if one.start == start])
        stack = stack_of(network, span)
        columns, rows = random.randint(1, stack.output.columns), random.randint(1, stack.output.rows)
        cut.append((stack, Tiling(columns, rows, random.choice(MODES))))
        start = span.stop
    return graph_in_tiles(graph, network, cut)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1 << 30))
def test_tiles_beside_operators_that_run_whole_give_the_values_of_the_network(seed: int) -> None:
    random = Random(seed)
    facts = random_network(random, ODD_KINDS)
    assume(not reads_less_than_its_padding(facts))
    graph = graph_from_json(json.dumps(graph_file(facts)).encode(), "graph.json")
    try:
        tiled = in_random_tiles(graph, random)
    except InputError as error:
        assume("nothing but padding" not in error.what)
        raise
    assert whole_tensor_differences(tiled, graph, seed % 3) == ()
    whole = untiled(tiled) or tiled
    assert {one.name: one for one in whole.operators} == {one.name: one for one in graph.operators}


def test_an_operator_of_several_outputs_reads_all_bands_and_a_view_is_made_whole_for_it() -> None:
    shape = (1, 2, 6, 6)
    crop: dict[str, AttributeValue] = {"axes": [2, 3], "starts": [1, 1], "ends": [5, 5]}
    cropped, half = (1, 2, 4, 4), (1, 1, 4, 4)
    shapes = {"x": shape, "a": shape, "v": cropped, "s": half, "t": half, "y": (1, 1, 1, 1), "z": half}
    roles = {"x": Role.INPUT, "y": Role.OUTPUT, "z": Role.OUTPUT, "v": Role.OUTPUT}
    graph = Graph(
        "split",
        tuple(Tensor.of_shape(name, size, 8, roles.get(name, Role.ACTIVATION)) for name, size in shapes.items()),
        (
            Operator("a", "Exp", ("x",), ("a",)),
            Operator("v", "Slice", ("a",), ("v",), (), crop),
            Operator("s", "Split", ("v",), ("s", "t"), (), {"axis": 1}),
            Operator("y", "GlobalMaxPool", ("s",), ("y",)),
            Operator("z", "Abs", ("t",), ("z",)),
        ),
    )
    network = partly_fusable_of(graph).network
    assert [one.name for one in network.moved] == ["s"]
    tiles = Tiling(3, 2, OverlapMode.RECOMPUTE)
    stacks = [stack_of(network, span) for span in legal_spans(network) if span.length == 1]
    cut = [(stack, tiles.within(stack.output.columns, stack.output.rows)) for stack in stacks]
    tiled = graph_in_tiles(graph, network, cut)
    split = tiled.operator["s"]
    assert split.tile is not None
    assert [tiled.tensor[name].part_of for name in split.outputs] == [None] + ["t"] * 4
    assert whole_tensor_differences(tiled, graph) == ()
