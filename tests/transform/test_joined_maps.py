"""Concatenations along the channels that move no data: their detection, and their replacement in the tile graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.program import Compute, Plan
from onchip.answer.schedule import Schedule, ScheduledStack, ScheduleError
from onchip.answer.stacks import OverlapMode
from onchip.ir.graph import Graph
from onchip.ir.operator import SEEN_SHAPES, Operator, StatedCost
from onchip.ir.tensor import Role, Tensor
from onchip.ops.layers_of import Precision
from onchip.ops.nests import operands_of
from onchip.ops.views import may_be_views, views_that_join
from onchip.transform.groups.tile_graph import with_all_parameters
from onchip.transform.groups.tiled import tile_graph, tile_graph_of_schedule
from onchip.transform.slices.bands import untiled
from onchip.verify.schedule.nests import NestDerivation
from onchip.verify.schedule.tiles import joins_left_out, verify_tiles
from support.small_schedules import all_whole, stacks_of, tiled
from support.tiled import Network, conv, whole_tensor_differences

EIGHT = Precision(8)


def fire(axis: int = 1) -> Graph:
    """Return two parallel convolutions, and one that reads both."""
    network = Network(8)
    source = conv(network, network.input(1, 2, 6, 5), 2, 1)
    parts = conv(network, source, 2, 1), conv(network, source, 3 if axis == 1 else 2, 3)
    shape = (1, 5, 6, 5) if axis == 1 else (1, 2, 12, 5)
    whole = network.add("Concat", list(parts), shape, (), {"axis": axis})
    conv(network, whole, 2, 3)
    return network.graph()


def join_of(graph: Graph, **changes: object) -> Graph:
    """Return the network with another concatenation."""
    operators = tuple(
        replace(one, **changes) if one.kind == "Concat" else one  # type: ignore[arg-type]
        for one in graph.operators
    )
    return replace(graph, operators=operators)


def test_the_network_behind_tiles_has_the_concatenation_that_they_read_in_parts() -> None:
    graph = fire()
    (join,) = (one for one in graph.operators if one.kind == "Concat")

    tiles = tile_graph(graph, all_whole(graph), EIGHT, views_that_join(graph))
    found = untiled(with_all_parameters(tiles, graph))

    assert found is not None
    again = found.operator[join.outputs[0]]
    assert (again.kind, again.inputs, again.outputs) == ("Concat", join.inputs, join.outputs)
    assert found.tensor[join.outputs[0]].shape == graph.tensor[join.outputs[0]].shape
    assert {one.name for one in found.operators if one.kind != "Concat"} == {
        one.name for one in graph.operators if one.kind != "Concat"
    }


@st.composite
def joined_networks(draw: st.DrawFn) -> Graph:
    """Draw maps of one size that are computed, joined, joined again, and read through windows or whole."""
    network = Network(8)
    size = draw(st.integers(3, 6)), draw(st.integers(1, 5))
    maps = [conv(network, network.input(1, draw(st.integers(1, 3)), *size), draw(st.integers(1, 3)), 1)]
    for _ in range(draw(st.integers(3, 6))):
        source = draw(st.sampled_from(maps))
        kind = draw(st.sampled_from(("conv", "conv", "relu", "softmax", "join", "join", "join")))
        channels = network.shape(source)[1]
        if kind == "conv":
            maps.append(conv(network, source, draw(st.integers(1, 3)), draw(st.sampled_from((1, 3)))))
        elif kind == "join":
            parts = draw(st.lists(st.sampled_from(maps), min_size=2, max_size=3))
            together = sum(network.shape(one)[1] for one in parts)
            maps.append(network.add("Concat", parts, (1, together, *size), (), {"axis": 1}))
        elif kind == "relu":
            maps.append(network.add("Relu", [source], (1, channels, *size)))
        else:
            maps.append(network.add("Softmax", [source], (1, channels, *size), (), {"axis": -1}))
    conv(network, maps[-1], 2, draw(st.sampled_from((1, 3))))
    return network.graph()


@settings(max_examples=40, deadline=None)
@given(joined_networks(), st.data())
def test_of_joined_networks_values_are_those_of_the_whole_and_the_verifier_derives_the_same(
    graph: Graph, data: st.DataObject
) -> None:
    stacks = data.draw(stacks_of(graph))
    allowed = views_that_join(graph)
    views = data.draw(st.frozensets(st.sampled_from(sorted(allowed)))) if allowed else allowed
    try:
        tiles = tile_graph(graph, stacks, EIGHT, views)
    except ScheduleError:
        stacks = all_whole(graph)
        tiles = tile_graph(graph, stacks, EIGHT, views)
    left_out = {graph.producer[name].name for name in joins_left_out(graph, tiles.graph)}
    assert left_out == views
    assert verify_tiles(graph, tiles.graph, stacks, NestDerivation(graph, 24)) == ()
    assert whole_tensor_differences(with_all_parameters(tiles, graph), graph) == ()
    for operator in tiles.graph.operators:
        original = graph.operator[tiles.operators[operator.name].operator]
        found = {one.tensor for one in operands_of(tiles.graph, operator)}
        assert found <= {*original.reads, *original.outputs}


@settings(max_examples=100, deadline=None)
@given(joined_networks())
def test_no_operator_sees_a_part_twice(graph: Graph) -> None:
    views = views_that_join(graph)
    assert views <= may_be_views(graph)
    tiles = tile_graph(graph, all_whole(graph), EIGHT, views)
    for operator in tiles.graph.operators:
        for name in operator.inputs:
            seen = [one for one in operands_of(tiles.graph, operator) if name in {band.name for band in one.bands}]
            assert len(seen) == 1


@pytest.mark.parametrize(
    ("graph", "is_view"),
    [
        (fire(), True),
        (join_of(fire(), attributes={"axis": -3}), True),
        (fire(axis=2), False),
        (join_of(fire(), workspace_bytes=8), False),
        (join_of(fire(), stated=StatedCost(7)), False),
        (join_of(fire(), members=("concat3",)), True),
        (join_of(fire(), members=("concat3", "relu")), False),
        (join_of(fire(), attributes={"axis": 1, SEEN_SHAPES: [[1, 2, 6, 5], [1, 3, 6, 5]]}), False),
    ],
)
def test_what_only_joins_channels_is_a_view(graph: Graph, *, is_view: bool) -> None:
    assert bool(views_that_join(graph)) is is_view


def random_join(chance: Random) -> Graph:
    """Return a concatenation of maps, one of them perhaps another concatenation, mostly with one thing that is odd."""
    rank = chance.choice((2, 4, 4, 4, 4, 3, 5))
    roles = {"x": Role.INPUT, "w": Role.PARAMETER, "y": Role.OUTPUT}
    pixels = (4, 3, 2)[: rank - 2]
    shapes = {name: (2, channels, *pixels) for name, channels in {"x": 3, "a": 2, "b": 3, "c": 1, "w": 2}.items()}
    parts = chance.choice((["a", "b"], ["a", "b", "c"], ["c", "a"], ["inner", "c"], ["c", "inner"], ["a"]))
    shapes |= {"inner": (2, 5, *pixels), "more": (2, 5, *pixels)}
    shapes["whole"] = (2, sum(shapes[name][1] for name in parts), *pixels)
    shapes["y"] = shapes["whole"]
    steps = {name: Operator(name, "Any", ("x",), (name,)) for name in "abc"}
    steps["inner"] = Operator("inner", "Concat", ("a", "b"), ("inner",), attributes={"axis": 1})
    join = Operator("whole", "Concat", tuple(parts), ("whole",), attributes={"axis": chance.choice((1, 1 - rank))})
    reads, bits = ["whole"], dict.fromkeys(shapes, 8)
    match chance.randrange(24):
        case 0:
            join = replace(join, attributes={"axis": chance.choice((0, rank - 1, -1, -rank))})
        case 1:
            join = replace(join, attributes={})
        case 2:
            join = replace(join, attributes={**join.attributes, "new_axis": 0})
        case 3:
            join = replace(join, parameters=("w",))
        case 4:
            join = replace(join, workspace_bytes=1)
        case 5:
            join = replace(join, stated=StatedCost(5))
        case 6:
            join = replace(join, members=chance.choice((("whole",), ("whole", "relu"))))
        case 7:
            join = replace(join, kind="Any")
        case 8:
            join = replace(join, outputs=("whole", "more"))
        case 9:
            bits[chance.choice((*parts, "whole"))] = 16
        case 10:
            name, at = chance.choice((*parts, "whole")), chance.randrange(rank)
            shapes[name] = (*shapes[name][:at], shapes[name][at] + 1, *shapes[name][at + 1 :])
        case 11:
            roles[chance.choice((*parts, "whole"))] = Role.OUTPUT
        case 12:
            join = replace(join, inputs=("x", *parts[1:]))
            shapes["x"] = shapes[parts[0]]
        case 13:
            reads.append(chance.choice(("a", "b", "c", "x")))
        case 14:
            join = replace(join, inputs=(parts[0], *parts))
            shapes["whole"] = (2, shapes["whole"][1] + shapes[parts[0]][1], *pixels)
        case 15:
            reads = ["c"]
    steps |= {"whole": join, "y": Operator("y", "Any", tuple(reads), ("y",))}
    tensors = (Tensor.of_shape(name, shapes[name], bits[name], roles.get(name, Role.ACTIVATION)) for name in shapes)
    used = {name for one in steps.values() for name in (*one.reads, *one.outputs)}
    return Graph("joined", tuple(one for one in tensors if one.name in used), tuple(steps.values()))


def test_the_verifier_leaves_out_the_same_concatenations() -> None:
    found = Counter[frozenset[str]]()
    for seed in range(1500):
        graph = random_join(Random(seed))
        views = views_that_join(graph)
        for left_out in (views, views | {"whole"}):
            runs = [one.name for one in graph.operators if one.name not in left_out]
            tensors = tuple(Tensor.of_shape(name, (1,), 8, Role.OUTPUT) for name in runs)
            tiles = Graph("runs", tensors, tuple(Operator(name, "Any", (), (name,)) for name in runs))
            assert joins_left_out(graph, tiles).keys() == views, f"seed {seed}"
        found[views] += 1
    assert min(found.values()) > 40
    assert len(found) == 4


@pytest.mark.parametrize("role", [Role.OUTPUT, Role.INPUT])
def test_a_part_that_leaves_or_enters_the_network_is_joined_by_a_copy(role: Role) -> None:
    network = Network(8)
    source = network.input(1, 2, 4, 4)
    parts = [conv(network, source, 2, 1), source if role is Role.INPUT else conv(network, source, 2, 1)]
    conv(network, network.add("Concat", parts, (1, 4, 4, 4), (), {"axis": 1}), 2, 1)
    graph = network.graph()
    if role is Role.OUTPUT:
        tensors = tuple(replace(one, role=role) if one.name == parts[1] else one for one in graph.tensors)
        graph = replace(graph, tensors=tensors)
    assert views_that_join(graph) == frozenset()


def test_what_joins_a_concatenation_and_a_part_of_it_makes_the_concatenation() -> None:
    network = Network(8)
    one = conv(network, network.input(1, 2, 4, 4), 2, 1)
    other = conv(network, one, 3, 1)
    inner = network.add("Concat", [one, other], (1, 5, 4, 4), (), {"axis": 1})
    outer = network.add("Concat", [inner, one], (1, 7, 4, 4), (), {"axis": 1})
    conv(network, outer, 2, 1)
    graph = network.graph()
    assert may_be_views(graph) == {graph.producer[inner].name, graph.producer[outer].name}
    assert views_that_join(graph) == {graph.producer[outer].name}


def test_the_verifier_finds_where_parts_begin_and_parts_that_are_read_twice() -> None:
    network = Network(8)
    one = conv(network, network.input(1, 2, 4, 4), 2, 1)
    other = conv(network, one, 3, 1)
    inner = network.add("Concat", [one, other], (1, 5, 4, 4), (), {"axis": 1})
    third = conv(network, other, 4, 1)
    outer = network.add("Concat", [third, inner], (1, 9, 4, 4), (), {"axis": 1})
    conv(network, outer, 2, 1)
    graph, nothing = network.graph(), Graph("nothing", (), ())
    parts = {inner: {one: 0, other: 2}, outer: {third: 0, one: 4, other: 6}}
    assert joins_left_out(graph, nothing) == parts
    network.add("Add", [inner, network.add("Pad", [one], (1, 5, 4, 4))], (1, 5, 4, 4))
    assert joins_left_out(network.graph(), nothing) == parts
    conv(network, network.add("Concat", [inner, one], (1, 7, 4, 4), (), {"axis": 1}), 2, 1)
    assert joins_left_out(network.graph(), nothing).keys() == {outer}


def test_a_reader_lists_the_bands_of_the_parts_as_one_operand() -> None:
    graph = fire()
    *_, join, last = graph.operators
    stacks = [*all_whole(graph)[:-1], tiled((last.name,), "5x3")]
    tiles = tile_graph(graph, stacks, EIGHT, {join.name})
    assert join.name not in tiles.operators
    assert join.outputs[0] not in {one.part_of or one.name for one in tiles.graph.tensors}
    first = tiles.graph.operator[f"{last.name}#0"]
    read, *_ = operands_of(tiles.graph, first)
    assert read.tensor == join.outputs[0]
    assert [one.part_of for one in read.bands] == [*[join.inputs[0]] * 2, *[join.inputs[1]] * 2]
    assert read.bits == 8 * 5 * 4 * 5


def schedule_that_runs(stacks: Sequence[ScheduledStack], names: Sequence[str]) -> Schedule:
    return Schedule(tuple(stacks), (), Plan((), tuple(map(Compute, names))))


@pytest.mark.parametrize("is_made", [True, False])
def test_a_program_that_runs_a_concatenation_makes_it(*, is_made: bool) -> None:
    graph = fire()
    join = graph.operators[-2].name
    whole = schedule_that_runs(all_whole(graph), [one for one in graph.operator if is_made or one != join])
    assert (join in tile_graph_of_schedule(graph, whole, EIGHT).operators) is is_made
    stacks = [*all_whole(graph)[:1], tiled(tuple(graph.operator)[1:], "5x3", OverlapMode.FULLY_CACHED)]
    run = [f"{join}#{at}" for at in range(2)] if is_made else []
    found = tile_graph_of_schedule(graph, schedule_that_runs(stacks, run), EIGHT).operators
    assert (f"{join}#1" in found) is is_made
