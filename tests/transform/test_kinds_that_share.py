"""Pairs of an input and an output that may share bytes, by kind and shape, or as a file states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onchip.answer.document import Granularity, Reading
from onchip.api.networks import read_network
from onchip.arch.sharing import NO_SHARING, Share, SharedKinds
from onchip.errors import GraphError
from onchip.formats.own.graph_json import graph_from_json, graph_to_json, write_graph
from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, InPlace, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.transform.rewrite.shared_bytes import SharedBytes

ALL = SharedKinds.of(Share.ALL)


def network(
    kind: str,
    read: Mapping[str, tuple[int, ...]],
    written: Mapping[str, tuple[int, ...]],
    pairs: tuple[InPlace, ...] = (),
) -> Graph:
    """Return a graph of one operator over bytes."""
    attributes: dict[str, AttributeValue] = {"axis": 1}
    tensors = [Tensor.of_shape(name, shape, 8, Role.INPUT) for name, shape in read.items()]
    tensors += [Tensor.of_shape(name, shape, 8, Role.OUTPUT) for name, shape in written.items()]
    operator = Operator("op", kind, tuple(read), tuple(written), (), attributes, in_place=pairs)
    return Graph("small", tuple(tensors), (operator,))


def pairs(graph: Graph, sharing: SharedKinds = ALL) -> list[tuple[str, str, int]]:
    return [(one.input, one.output, one.shift_bytes) for one in SharedBytes(sharing)(graph).operators[0].in_place]


MAP = (1, 4, 6)


@pytest.mark.parametrize("kind", ["Relu", "Add", "Sigmoid", "Mul", "QuantizeLinear", "BatchNormalization"])
def test_what_is_computed_element_by_element_overwrites_what_is_as_large(kind: str) -> None:
    graph = network(kind, {"a": MAP, "b": (1, 4, 1)}, {"y": MAP})
    assert pairs(graph) == [("a", "y", 0)]
    assert pairs(graph, SharedKinds.of(Share.IN_PLACE)) == [("a", "y", 0)]
    assert pairs(graph, SharedKinds((kind,), ())) == [("a", "y", 0)]
    for sharing in (SharedKinds(("Conv",), ()), SharedKinds.of(Share.ALIAS), NO_SHARING):
        assert pairs(graph, sharing) == []


def test_either_of_two_may_be_overwritten() -> None:
    assert pairs(network("Add", {"a": MAP, "b": MAP}, {"y": MAP})) == [("a", "y", 0), ("b", "y", 0)]


@pytest.mark.parametrize("kind", ["Conv", "Softmax", "MaxPool", "Gemm"])
def test_what_looks_at_other_elements_overwrites_nothing(kind: str) -> None:
    assert pairs(network(kind, {"a": MAP}, {"y": MAP})) == []


def test_parts_of_a_concatenation_lie_behind_one_another() -> None:
    graph = network("Concat", {"a": (1, 4, 6), "b": (1, 2, 6)}, {"y": (1, 6, 6)})
    assert pairs(graph) == [("a", "y", 0), ("b", "y", -24)]
    assert pairs(graph, SharedKinds.of(Share.IN_PLACE)) == []


def test_outputs_of_a_split_lie_within_its_input() -> None:
    graph = network("Split", {"x": (1, 6, 6)}, {"a": (1, 4, 6), "b": (1, 2, 6)})
    assert pairs(graph) == [("x", "a", 0), ("x", "b", 24)]


@pytest.mark.parametrize("kind", ["Concat", "Split"])
def test_what_is_interleaved_has_to_move(kind: str) -> None:
    whole, parts = {"y": (2, 6, 6)}, {"a": (2, 4, 6), "b": (2, 2, 6)}
    graph = network(kind, parts, whole) if kind == "Concat" else network(kind, whole, parts)
    assert pairs(graph) == []


@pytest.mark.parametrize(
    ("source", "firsts", "sizes", "steps", "shift"),
    [
        ((6, 4), (2, 0), (3, 4), (1, 1), 8),
        ((1, 6, 4), (0, 1, 0), (1, 5, 4), (1, 1, 1), 4),
        ((6, 4), (2, 1), (1, 2), (1, 1), 9),
        ((6, 4), (5, 3), (1, 1), (2, 2), 23),
        ((6, 4), (0, 1), (6, 2), (1, 1), None),
        ((6, 4), (0, 0), (3, 4), (2, 1), None),
        ((2, 6, 4), (0, 1, 0), (2, 5, 4), (1, 1, 1), None),
        ((6, 4), (0, 0), (6, 4), (1, 1), 0),
    ],
)
def test_a_slice_is_a_stretch_of_its_input(
    source: tuple[int, ...], firsts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...], shift: int | None
) -> None:
    """The slice is contiguous exactly if numpy stores its elements next to one another."""
    graph = network("Slice", {"x": source}, {"y": sizes})
    attributes: dict[str, AttributeValue] = {"starts": [*firsts], "steps": [*steps], "axes": [*range(len(source))]}
    graph = replace(graph, operators=(replace(graph.operators[0], attributes=attributes),))
    assert pairs(graph) == ([] if shift is None else [("x", "y", shift)])
    ends = [first + (size - 1) * step + 1 for first, size, step in zip(firsts, sizes, steps, strict=True)]
    left = np.arange(np.prod(source)).reshape(source)[tuple(map(slice, firsts, ends, steps))].reshape(-1)
    assert (shift is not None) == bool((np.diff(left) == 1).all())
    assert shift in (None, left[0])


@pytest.mark.parametrize(("order", "is_alias"), [((0, 2, 1, 3), True), ((0, 1, 3, 2), True), ((3, 0, 1, 2), False)])
def test_a_transposition_that_moves_nothing_is_its_input(order: tuple[int, ...], is_alias: bool) -> None:
    source = (1, 4, 1, 6)
    graph = network("Transpose", {"x": source}, {"y": tuple(source[at] for at in order)})
    graph = replace(graph, operators=(replace(graph.operators[0], attributes={"perm": [*order]}),))
    assert pairs(graph) == ([("x", "y", 0)] if is_alias else [])


def test_a_file_says_it_in_place_of_the_kind(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    write_graph(network("Softmax", {"a": MAP, "b": MAP}, {"y": MAP}, (InPlace("b", "y"),)), path)
    for share, expected in ((Share.NONE, ()), (Share.ALL, (InPlace("b", "y"),)), (Share.ALIAS, ())):
        reading = Reading(granularity=Granularity.RAW, sharing=SharedKinds.of(share))
        assert read_network(str(path), reading).operators[0].in_place == expected


def test_parts_of_any_kind_are_kept_from_a_file(tmp_path: Path) -> None:
    """The rule includes the first part, which begins where the whole begins."""
    own = (InPlace("a", "y"), InPlace("b", "y", -24))
    path = tmp_path / "joined.json"
    write_graph(network("Op", {"a": (1, 4, 6), "b": (1, 2, 6)}, {"y": (1, 6, 6)}, own), path)
    assert read_network(str(path), Reading(sharing=ALL)).operators[0].in_place == own


def test_fusing_keeps_what_can_still_share(tmp_path: Path) -> None:
    """A Relu fuses into the addition; the convolution's pair is lost with its output."""
    tensors = [Tensor.of_shape(name, MAP, 8, Role.INPUT) for name in ("a", "b")]
    tensors += [Tensor.of_shape(name, MAP, 8, Role.ACTIVATION) for name in ("s",)]
    graph = Graph(
        "added",
        (*tensors, Tensor.of_shape("y", MAP, 8, Role.OUTPUT)),
        (
            Operator("add", "Add", ("a", "b"), ("s",), in_place=(InPlace("a", "s"),)),
            Operator("relu", "Relu", ("s",), ("y",)),
        ),
    )
    path = tmp_path / "added.json"
    write_graph(graph, path)
    (fused,) = read_network(str(path), Reading(sharing=ALL)).operators
    assert (fused.outputs, fused.in_place) == (("y",), ())


def test_a_graph_file_keeps_its_pairs() -> None:
    graph = network(
        "Op", {"x": (1, 6, 6)}, {"a": (1, 4, 6), "b": (1, 2, 6)}, (InPlace("x", "a"), InPlace("x", "b", 24))
    )
    assert '"in_place": [["x", "a"], ["x", "b", 24]]' in graph_to_json(graph)
    assert graph_from_json(graph_to_json(graph), "g.json") == graph


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ((InPlace("x", "nobody"),), "in place of 'x'.*expected an input, and an output"),
        ((InPlace("x", "a"), InPlace("x", "a", 1)), "a pair is in place twice"),
        ((InPlace("x", "a", 13),), "13 behind it"),
        ((InPlace("x", "a", -1),), "expected one within the other"),
        ((InPlace("x", "a"), InPlace("x", "b", 23)), "share bytes"),
    ],
)
def test_pairs_that_cannot_be_are_refused(own: tuple[InPlace, ...], expected: str) -> None:
    with pytest.raises(GraphError, match=expected):
        network("Op", {"x": (1, 6, 6)}, {"a": (1, 4, 6), "b": (1, 2, 6)}, own)
