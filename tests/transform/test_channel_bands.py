"""Operators in equal channel tiles: tensors are partitioned, costs are the stated ones."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from onchip.errors import GraphError
from onchip.ir.graph import Graph
from onchip.ir.operator import ChannelSplits, Operator, StatedCost
from onchip.ir.tensor import Role, Tensor
from onchip.transform.slices.emission import ChannelBands
from support.series import in_one_test

WAYS = ((2, 60), (4, 40), (8, 30))


def network() -> Graph:
    """Return a convolution, a pooling that takes its channels one by one, and an addition that needs both."""
    tensors = (
        Tensor.of_shape("x", (3, 6, 6), 8, Role.INPUT),
        Tensor.of_shape("w", (8, 27), 8, Role.PARAMETER),
        Tensor.of_shape("a", (8, 6, 6), 8, Role.ACTIVATION),
        Tensor.of_shape("b", (8, 6, 6), 8, Role.ACTIVATION),
        Tensor.of_shape("y", (8, 6, 6), 8, Role.OUTPUT),
    )
    whole, split = ChannelSplits(cuts_inputs=False, ways=WAYS), ChannelSplits(cuts_inputs=True, ways=WAYS)
    operators = (
        Operator("conv", "conv", ("x",), ("a",), ("w",), stated=StatedCost(100, 8.0, whole)),
        Operator("pool", "pool", ("a",), ("b",), stated=StatedCost(100, 8.0, split)),
        Operator("add", "eltwise", ("a", "b"), ("y",), stated=StatedCost(100, 8.0, split)),
    )
    return Graph("bands", tensors, operators)


def test_each_band_reads_its_part_and_has_its_cost() -> None:
    graph = ChannelBands({"conv": 2, "pool": 4})(network())
    names = [one.name for one in graph.operators]
    assert names == ["conv#0", "conv#1", "pool#0", "pool#1", "pool#2", "pool#3", "add"]
    conv, pool, add = graph.operator["conv#1"], graph.operator["pool#2"], graph.operator["add"]
    assert (conv.inputs, conv.parameters) == (("x",), ("w[4:8,:]",))
    assert conv.outputs == ("a[4:6,:,:]", "a[6:8,:,:]")
    assert conv.stated == StatedCost(60, 4.0)
    assert (pool.inputs, pool.outputs) == (("a[4:6,:,:]",), ("b[4:6,:,:]",))
    assert pool.stated == StatedCost(40, 2.0)
    assert len(add.inputs) == 8
    assert add.stated.cycles == 100


def test_nothing_cut_is_the_same_graph() -> None:
    assert ChannelBands()(network()) == network()


@in_one_test("seed", range(40))
def test_bands_partition_their_tensor_and_each_is_written_before_it_is_read(seed: int) -> None:
    chance = random.Random(seed)
    parts = {name: chance.choice((2, 4, 8)) for name in ("conv", "pool", "add") if chance.random() < 0.7}
    whole, graph = network(), ChannelBands(parts)(network())
    sizes: dict[str, int] = defaultdict(int)
    for tensor in graph.tensors:
        sizes[tensor.part_of or tensor.name] += tensor.size_bytes
    assert sizes == {tensor.name: tensor.size_bytes for tensor in whole.tensors}
    read: dict[str, set[str]] = defaultdict(set)
    for operator in graph.operators:
        for name in operator.reads:
            base = graph.tensor[name].part_of or name
            read[operator.name.partition("#")[0]].add(base)
    assert read == {operator.name: set(operator.reads) for operator in whole.operators}


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"conv": 3}, "split into 3 tiles"),
        ({"gone": 2}, "there is no such operator"),
        ({"add": 16}, "split into 16 tiles"),
    ],
)
def test_what_cannot_be_cut_so_is_one_line(parts: dict[str, int], says: str) -> None:
    with pytest.raises(GraphError, match=says):
        ChannelBands(parts)(network())


def test_channels_that_do_not_divide_are_not_cut() -> None:
    tensors = (Tensor.of_shape("x", (3, 2, 2), 8, Role.INPUT), Tensor.of_shape("y", (3, 2, 2), 8, Role.OUTPUT))
    stated = StatedCost(9, None, ChannelSplits(cuts_inputs=False, ways=((2, 5),)))
    graph = Graph("odd", tensors, (Operator("f", "f", ("x",), ("y",), stated=stated),))
    with pytest.raises(GraphError, match="'y' has 3 channels for 2 equal bands"):
        ChannelBands({"f": 2})(graph)


def test_filters_are_cut_along_the_channels_of_their_output() -> None:
    tensors = (
        Tensor.of_shape("x", (1, 3, 6, 6), 8, Role.INPUT),
        Tensor.of_shape("w", (8, 3, 3, 3), 8, Role.PARAMETER),
        Tensor.of_shape("y", (1, 8, 4, 4), 8, Role.OUTPUT),
    )
    splits = ChannelSplits(cuts_inputs=False, ways=WAYS)
    conv = Operator("conv", "Conv", ("x",), ("y",), ("w",), stated=StatedCost(100, None, splits))
    band = ChannelBands({"conv": 2})(Graph("one", tensors, (conv,))).operator["conv#1"]
    assert (band.parameters, band.outputs) == (("w[4:8,:,:,:]",), ("y[:,4:8,:,:]",))
