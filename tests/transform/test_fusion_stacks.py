"""Stacks of layers and their tilings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.answer.options.verb_options import TileSizes
from onchip.answer.stacks import OverlapMode
from onchip.errors import InputError, UsageError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ops.fusable import FeatureMap, FusableNetwork
from onchip.transform.groups.stacks import (
    LayerSpan,
    given_stacks,
    greedy_stacks,
    one_stack,
    single_layers,
    spans_of,
    stack_of,
    units_of,
    weight_capacity_bits,
)
from support.fusable_networks import RESIDUAL, chain, network_of, networks
from support.stacks import legal_spans, tilings_of


def leaves(network: FusableNetwork, span: LayerSpan) -> bool:
    """Return True if an inner output is read outside, unread, or an output: the definition, layer by layer."""
    for inner in network.layers[span.start : span.stop - 1]:
        readers = [
            at for at, layer in enumerate(network.layers) if inner.output.name in [read.source for read in layer.reads]
        ]
        if (
            inner.output.name in network.outputs
            or not readers
            or any(not span.start <= at < span.stop for at in readers)
        ):
            return True
    return False


@pytest.mark.slow
@given(networks())
def test_stacks_are_the_runs_that_only_their_last_output_leaves(network: FusableNetwork) -> None:
    count = len(network.layers)
    every = [LayerSpan(start, stop) for start in range(count) for stop in range(start + 1, count + 1)]
    assert list(legal_spans(network)) == [span for span in every if not leaves(network, span)]


def test_a_stack_reads_from_outside_what_it_does_not_write() -> None:
    network = network_of(RESIDUAL)
    stack = stack_of(network, LayerSpan(1, 4))
    assert [one.name for one in stack.inputs] == ["a.out"]
    assert [one.name for one in stack.layers] == ["b", "c", "add"]


def test_a_stack_over_a_branch_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="the stack 'a' to 'b' is over a branch: 'a' does not end in it") as caught:
        stack_of(network_of(RESIDUAL), LayerSpan(0, 2))
    assert "\n" not in str(caught.value)


def test_a_stack_over_an_output_of_the_network_is_refused_by_name() -> None:
    network = network_of(RESIDUAL, leaving=("b",))
    with pytest.raises(
        UsageError, match="'b' to 'c' is over an output of the network: 'b' does not end in it"
    ) as caught:
        stack_of(network, LayerSpan(1, 3))
    assert "\n" not in str(caught.value)
    assert stack_of(network, LayerSpan(1, 2)).ends_in_output
    assert not stack_of(network, LayerSpan(0, 1)).ends_in_output
    with pytest.raises(UsageError, match="is over a branch: 'a', 'b' do not end in it"):
        stack_of(network, LayerSpan(0, 3))


def test_an_output_that_is_no_map_of_the_network_is_refused() -> None:
    with pytest.raises(InputError, match=r"net: outputs has no 'e\.out'"):
        network_of(RESIDUAL, leaving=("add", "e"))


def test_all_layers_are_one_stack_unless_two_outputs_leave_the_network() -> None:
    assert one_stack(network_of(RESIDUAL)) == (LayerSpan(0, 5),)
    with pytest.raises(UsageError, match="'b' does not end in it"):
        one_stack(network_of({"a": ("x",), "b": ("a",), "c": ("a",)}))
    with pytest.raises(UsageError, match="over an output of the network: 'a', 'c' do not end in it"):
        one_stack(network_of(RESIDUAL, leaving=("a", "c", "d")))


def test_places_without_a_branch() -> None:
    assert list(units_of(network_of(RESIDUAL))) == [LayerSpan(0, 1), LayerSpan(1, 4), LayerSpan(4, 5)]
    assert list(units_of(chain(3))) == [LayerSpan(0, 1), LayerSpan(1, 2), LayerSpan(2, 3)]


@pytest.mark.parametrize(
    ("capacity_bits", "stacks"),
    [
        (40, ((0, 5),)),
        (39, ((0, 4), (4, 5))),
        (31, ((0, 1), (1, 4), (4, 5))),
        (32, ((0, 4), (4, 5))),
        (24, ((0, 1), (1, 4), (4, 5))),
        (23, ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5))),
        (0, ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5))),
    ],
)
def test_weights_that_fit_decide_greedily(capacity_bits: int, stacks: tuple[tuple[int, int], ...]) -> None:
    """Five layers have 8 bits of weights; the second to the fourth are a branch, and stay together or apart."""
    assert greedy_stacks(network_of(RESIDUAL), capacity_bits) == tuple(LayerSpan(*one) for one in stacks)


@pytest.mark.slow
@given(networks(), st.integers(0, 60))
def test_greedy_stacks_are_legal_and_cover_the_network(network: FusableNetwork, capacity_bits: int) -> None:
    stacks = greedy_stacks(network, capacity_bits)
    assert [at for span in stacks for at in range(span.start, span.stop)] == list(range(len(network.layers)))
    assert set(stacks) <= set(legal_spans(network))
    for span in stacks:
        weights = sum(layer.weight_bits for layer in network.layers[span.start : span.stop])
        assert span.length == 1 or weights <= capacity_bits


@pytest.mark.parametrize(
    ("leaving", "stacks"),
    [
        (("a",), ((0, 1), (1, 5))),
        (("add",), ((0, 4), (4, 5))),
        (("d",), ((0, 5),)),
        (("c",), ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5))),
    ],
)
def test_greedily_a_stack_ends_with_an_output_and_a_branch_with_one_inside_is_single_layers(
    leaving: tuple[str, ...], stacks: tuple[tuple[int, int], ...]
) -> None:
    assert greedy_stacks(network_of(RESIDUAL, leaving=leaving), 40) == tuple(LayerSpan(*one) for one in stacks)


def test_greedily_a_network_of_two_ends_is_cut_before_them() -> None:
    network = network_of({"a": ("x",), "b": ("a",), "c": ("b",), "d": ("b",)}, leaving=("c", "d"))
    assert greedy_stacks(network, 40) == (LayerSpan(0, 2), LayerSpan(2, 3), LayerSpan(3, 4))


def test_the_highest_memory_of_weights_on_the_chip() -> None:
    assert weight_capacity_bits(load_accelerator("meta-prototype-df")) == 2**20 * 8


@pytest.mark.parametrize(
    ("text", "stacks"),
    [("0-4", ((0, 5),)), ("0,1-3,4", ((0, 1), (1, 4), (4, 5))), ("a,b-add,d", ((0, 1), (1, 4), (4, 5)))],
)
def test_stacks_are_given_by_numbers_or_names(text: str, stacks: tuple[tuple[int, int], ...]) -> None:
    assert given_stacks(network_of(RESIDUAL), text) == tuple(LayerSpan(*one) for one in stacks)


def test_names_may_have_dashes() -> None:
    network = network_of({"a-1": ("x",), "b-1": ("a-1",), "c": ("b-1",)})
    assert given_stacks(network, "a-1-b-1,c") == (LayerSpan(0, 2), LayerSpan(2, 3))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0-1,2-4", "is over a branch: 'a'"),
        ("0", "its last layer is 0"),
        ("1-4", "'1-4' begins with layer 1"),
        ("0,0-4", "'0-4' begins with layer 0"),
        ("0-9", "'0-9'"),
        ("4-0", "'4-0'"),
        ("", "'' is not"),
    ],
)
def test_bad_stacks_are_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        given_stacks(network_of(RESIDUAL), text)
    assert "\n" not in str(caught.value)


def test_stacks_of_names_stand_where_their_layers_do() -> None:
    network = network_of(RESIDUAL)
    assert spans_of(network, [["a"], ["b", "c", "add"], ["d"]]) == (LayerSpan(0, 1), LayerSpan(1, 4), LayerSpan(4, 5))
    with pytest.raises(UsageError, match="layer 1 is 'c'"):
        spans_of(network, [["a", "c"]])
    assert single_layers(chain(2)) == (LayerSpan(0, 1), LayerSpan(1, 2))


@pytest.mark.parametrize("sizes", TileSizes)
@pytest.mark.parametrize("pixels", [1, 2, 7, 36, 960])
def test_lists_of_sizes_rise_to_the_whole_axis(sizes: TileSizes, pixels: int) -> None:
    for found in (sizes.along_columns(pixels), sizes.along_rows(pixels)):
        assert list(found) == sorted(set(found))
        assert (found[0], found[-1]) == (1, pixels)


def test_sizes_of_the_paper_are_36_and_110() -> None:
    for sizes, count in ((TileSizes.CASE_STUDY, 36), (TileSizes.SWEEP, 110)):
        assert len(sizes.along_columns(960)) * len(sizes.along_rows(540)) == count
    assert TileSizes.HALVES.along_columns(12) == (1, 2, 3, 6, 12)
    assert TileSizes.POWERS.along_rows(12) == (1, 2, 4, 8, 12)
    assert TileSizes.DIVISORS.along_rows(12) == (1, 2, 3, 4, 6, 12)
    assert TileSizes.ALL.along_rows(4) == (1, 2, 3, 4)


def test_modes_that_do_the_same_are_tried_once() -> None:
    """A tile without a neighbour to the right has no cached columns, one without a neighbour below no cached rows."""
    found = tilings_of(FeatureMap("m", 1, 2, 2), TileSizes.ALL)
    modes = {
        (one.columns, one.rows): [each.mode for each in found if (each.columns, each.rows) == (one.columns, one.rows)]
        for one in found
    }
    recompute, h_cached, fully_cached = OverlapMode
    assert modes == {
        (1, 1): [recompute, h_cached, fully_cached],
        (1, 2): [recompute, h_cached],
        (2, 1): [recompute, fully_cached],
        (2, 2): [recompute],
    }
