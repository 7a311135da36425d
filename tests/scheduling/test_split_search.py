"""Combinations of splits: pruned ones never fit, and no operator that fits whole is refused for another's bands."""

from __future__ import annotations

import random
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.document import Split as When
from onchip.answer.problem import Problem
from onchip.arch.memory import Memory, Operand
from onchip.errors import UnsplitError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.capacity.room import SplitRoom, items_of
from onchip.ops.entries import geometry_of
from onchip.ops.slicing import Geometry
from onchip.scheduling.candidates.choice import Splits
from onchip.scheduling.candidates.split import graph_in_tiles, split_operators
from onchip.transform.slices.emission import operands_of_tiles
from onchip.transform.slices.tile_choice import TileChoice, cut
from support.tiled import Network, convolution, networks, problem_of, specialised


def splits_in(splits: Splits, geometry: Geometry) -> set[tuple[int, ...]]:
    return {
        tuple(each[int(index[place])] for each, index in zip(splits.sizes, splits.indices, strict=True))
        for place in range(splits.count)
    }


def fits_in_any_order(problem: Problem, name: str, geometry: Geometry, sizes: tuple[int, ...]) -> bool:
    """In the bands that it makes alone."""
    operator, room = problem.graph.operator[name], SplitRoom.of(problem.memories)
    cuts = {tensor.name: [set[int]() for _ in tensor.shape or ()] for tensor in problem.graph.tensors}
    cut(cuts, TileChoice(geometry, sizes, tuple(range(len(sizes))), 0))
    own = [axis for axis, size in enumerate(sizes) if size < geometry.axes[axis].size]
    whole = tuple(axis for axis in range(len(sizes)) if axis not in own)
    return any(
        all(
            map(
                room.holds, operands_of_tiles(problem, operator, TileChoice(geometry, sizes, (*whole, *order), 0), cuts)
            )
        )
        for order in permutations(own)
    )


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(networks(1), st.sampled_from((12, 24, 48, 96)), st.sampled_from((1, 4, 16)), st.booleans())
def test_a_split_that_is_ruled_out_by_its_first_or_last_tile_does_not_fit(
    graph: Graph, capacity_bytes: int, alignment_bytes: int, is_specialised: bool
) -> None:
    problem = (
        specialised(graph, capacity_bytes)
        if is_specialised
        else problem_of(graph, capacity_bytes, alignment_bytes=alignment_bytes)
    )
    for operator in problem.graph.operators:
        geometry = geometry_of(operator, problem.graph, is_model=False)
        if geometry is None:
            continue
        every = Splits.every(geometry, SplitRoom.of(problem.memories), last_resort=True)
        ruled_out = splits_in(every, geometry) - splits_in(every.that_may_fit(), geometry)
        for sizes in sorted(ruled_out)[:12]:
            assert not fits_in_any_order(problem, operator.name, geometry, sizes)


def test_a_tensor_read_in_two_places_is_not_counted_twice_by_that_rule() -> None:
    x = Tensor("x", 4, Role.INPUT, (1, 1, 2, 2), 8)
    y = Tensor("y", 8, Role.OUTPUT, (2, 1, 2, 2), 8)
    graph = Graph("twice", (x, y), (Operator("concat", "Concat", ("x", "x"), ("y",), (), {"axis": 0}),))
    geometry = geometry_of(graph.operators[0], graph, is_model=False)
    assert geometry is not None

    room = SplitRoom.of((Memory("sram", 12),))

    assert (2, 1, 2, 2) in splits_in(Splits.every(geometry, room, last_resort=True).that_may_fit(), geometry)


@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=6),
    st.integers(1, 60),
    st.integers(1, 16),
    st.randoms(use_true_random=False),
)
def test_in_one_scratchpad_a_further_cut_never_makes_operands_fit(
    sizes: list[int], capacity_bytes: int, alignment_bytes: int, chance: random.Random
) -> None:
    """The rule by which a part of a combination that does not fit is given up."""
    room = SplitRoom.of((Memory("s0", capacity_bytes, alignment_bytes),))
    items = [(Operand.INPUT, size) for size in sizes]
    at = chance.randrange(len(sizes))
    first = chance.randint(0, sizes[at])
    cut_items = [*items[:at], *((Operand.INPUT, size) for size in (first, sizes[at] - first) if size), *items[at + 1 :]]

    assert room.holds(items) or not room.holds(cut_items)


def test_in_two_scratchpads_a_further_cut_can_make_operands_fit() -> None:
    """So there the rule is not used."""
    room = SplitRoom.of((Memory("s0", 5), Memory("s1", 5)))
    assert not room.holds([(Operand.INPUT, 6)])
    assert room.holds([(Operand.INPUT, 3), (Operand.INPUT, 3)])


@settings(max_examples=40, deadline=None)
@given(networks(3), st.integers(20, 300), st.sampled_from((1, 4, 16)), st.sampled_from((When.AUTO, When.ALWAYS)))
def test_operands_of_tiles_are_those_of_the_graph_in_tiles(
    graph: Graph, capacity_bytes: int, alignment_bytes: int, when: When
) -> None:
    problem = problem_of(graph, capacity_bytes, alignment_bytes=alignment_bytes)
    cuts = {tensor.name: [set[int]() for _ in tensor.shape or ()] for tensor in problem.graph.tensors}
    splits = {}
    for operator in problem.graph.operators:
        geometry = geometry_of(operator, problem.graph, is_model=False)
        if geometry is not None:
            halves = tuple(-(-axis.size // 2) for axis in geometry.axes)
            splits[operator.name] = TileChoice(geometry, halves, tuple(range(len(halves))), 0)
            cut(cuts, splits[operator.name])
    whole = graph_in_tiles(problem, splits)
    tiles = [
        items
        for operator in problem.graph.operators
        for items in operands_of_tiles(problem, operator, splits.get(operator.name), cuts)
    ]
    assert tiles == [items_of(Problem(whole, problem.memories, count=problem.count), one) for one in whole.operators]


def test_what_reads_a_tensor_twice_and_fits_is_not_refused() -> None:
    """Its two regions of one tensor were counted as two tensors."""
    network = Network(8)
    source = network.input(6)
    network.add("Concat", [source, source], (12,), (), {"axis": 0})
    graph = split_operators(problem_of(network.graph(), 2), When.AUTO)
    assert [len(operator.inputs) for operator in graph.operators] == [1] * 12


def test_an_operator_in_the_bands_of_its_neighbour_is_refused_with_what_it_needs_there() -> None:
    """The sum of 24 bytes takes bands of at most three, and three of them, rounded up, the softmax cannot read."""
    network = Network(8)
    network.add("Add", [network.input(8), network.input(8)], (8,))
    network.add("Softmax", [network.operators[0].outputs[0]], (8,))
    problem = problem_of(network.graph(), 19, alignment_bytes=8)
    what = r"operator 'softmax1': no combination of splits fits: its operands take 16 bytes \(Softmax\), "
    more = "and it is cut along no axis, in the bands of its neighbours' tiles 26; expected .* 19 of 's0'"
    with pytest.raises(UnsplitError, match=what + more) as caught:
        split_operators(problem, When.AUTO)
    assert caught.value.is_proven
    assert caught.value.excess_bytes == 0


def test_bands_that_leave_no_room_for_half_leave_it_to_the_whole() -> None:
    """What fits with `auto` is never refused with `always`."""
    network = Network(8)
    network.add("Relu", [network.input(8)], (8,))
    network.add("Softmax", [network.operators[0].outputs[0]], (8,))
    problem = problem_of(network.graph(), 16, alignment_bytes=8)
    assert split_operators(problem, When.ALWAYS) is problem.graph


def test_what_does_not_fit_says_what_it_needs_in_its_smallest_tiles() -> None:
    network = Network(8)
    convolution(network, network.input(1, 1, 6, 6), 1, (3, 3), pads=(0, 0, 0, 0))
    what = r"no split of it fits: its operands take 61 bytes \(Conv\), its smallest part 19; "
    with pytest.raises(UnsplitError, match=what + "expected .* 11 of 's0'") as caught:
        split_operators(problem_of(network.graph(), 11), When.AUTO, is_model=True)
    assert caught.value.is_proven
    assert caught.value.excess_bytes == 8
