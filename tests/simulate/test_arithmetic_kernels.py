"""Networks in tiles give the values of the network, bit for bit; a wrong tile does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from onchip.answer.document import Reading
from onchip.answer.operator_tiles import OperatorTiles
from onchip.answer.problem import Count
from onchip.api.networks import read_network
from onchip.errors import GraphError, InputError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.simulate.arithmetic import limbs, mixed, product_of_limbs
from onchip.simulate.arithmetic_kernels import ArithmeticKernels, values_in_given_order
from onchip.simulate.kernel_protocol import Bytes
from onchip.transform.slices.emission import with_tiles
from support.series import HALVES, series
from support.tiled import (
    Attributes,
    Network,
    convolution,
    gemm,
    networks,
    problem_of,
    specialised,
    tiled_to_fit,
    whole_tensor_differences,
)

MASK = 2**16 - 1


@HALVES
@settings(max_examples=60, deadline=None)
@given(
    networks(),
    st.lists(st.integers(20, 500), min_size=1, max_size=3),
    st.sampled_from(Count),
    st.integers(0, 2),
    st.data(),
)
def test_tiles_give_the_values_of_the_whole(
    half: int, graph: Graph, capacities: list[int], count: Count, seed: int, data: st.DataObject
) -> None:
    problem = problem_of(graph, *capacities, alignment_bytes=data.draw(st.sampled_from((1, 8))), count=count)
    if data.draw(st.booleans()):
        problem = specialised(graph, capacities[0])
    try:
        tiled = tiled_to_fit(problem)
    except GraphError:
        assume(False)
        raise
    assert whole_tensor_differences(tiled, graph, seed) == ()


@pytest.mark.parametrize("name", series(["minerva", "lenet5", "smaug_cnn", "vgg_cifar"], 3))
def test_the_thesis_networks_have_the_same_values_in_tiles(name: str) -> None:
    graph = read_network(name, Reading())
    tiled = tiled_to_fit(problem_of(graph, *[32768] * 3))
    assert len(tiled.operators) > len(graph.operators)
    assert whole_tensor_differences(tiled, graph) == ()


def run_one(network: Network) -> tuple[Graph, dict[str, Bytes]]:
    graph = network.graph()
    kernels = ArithmeticKernels(graph)
    inputs = {tensor.name: kernels.network_input(tensor) for tensor in graph.with_role(Role.INPUT)}
    return graph, values_in_given_order(graph, kernels, inputs)


def integers(graph: Graph, values: dict[str, Bytes], name: str) -> list[list[list[list[int]]]]:
    shape = graph.tensor[name].shape or ()
    listed: list[list[list[list[int]]]] = values[name].view(np.uint16).reshape(shape).tolist()
    return listed


@pytest.mark.parametrize(("stride", "dilation", "groups"), [(1, 1, 1), (2, 1, 1), (1, 2, 2), (2, 2, 4)])
def test_a_convolution_is_the_sum_that_defines_it(stride: int, dilation: int, groups: int) -> None:
    network = Network(16)
    source = network.input(2, 4, 5, 6)
    out = convolution(network, source, 8, (3, 2), stride=stride, dilation=dilation, groups=groups, pads=(1, 2, 1, 0))
    assert out is not None
    graph, values = run_one(network)
    weight = graph.operators[0].parameters[0]
    image, kernel = integers(graph, values, source), integers(graph, values, weight)
    per_group, depth = 8 // groups, 4 // groups
    batch, channels, rows, columns = graph.tensor[out].shape or ()
    found = integers(graph, values, out)
    for n, k, p, q in np.ndindex(batch, channels, rows, columns):
        total = 0
        for c, r, s in np.ndindex(depth, 3, 2):
            y, x = p * stride - 1 + r * dilation, q * stride - 2 + s * dilation
            if 0 <= y < 5 and 0 <= x < 6:
                total += image[n][k // per_group * depth + c][y][x] * kernel[k][c][r][s]
        assert found[n][k][p][q] == total & MASK


def test_a_product_is_the_sum_that_defines_it() -> None:
    network = Network(16)
    source = network.input(2, 3, 2, 2)
    out = gemm(network, source, 5)
    graph, values = run_one(network)
    rows = values[source].view(np.uint16).reshape(2, 12).astype(object)
    weight = values[graph.operators[0].parameters[0]].view(np.uint16).reshape(5, 12).astype(object)
    assert np.array_equal(values[out].view(np.uint16).reshape(2, 5), (rows @ weight.T) & MASK)


def test_padding_is_the_least_of_a_window() -> None:
    network = Network(16)
    source = network.input(1, 1, 3, 3)
    attributes: Attributes = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1, 1, 1, 1]}
    out = network.add("MaxPool", [source], (1, 1, 3, 3), (), attributes)
    _, values = run_one(network)
    image = values[source].view(np.uint16).reshape(3, 3)
    padded = np.pad(image, 1)
    expected = [[padded[y : y + 3, x : x + 3].max() for x in range(3)] for y in range(3)]
    assert values[out].view(np.uint16).reshape(3, 3).tolist() == np.array(expected).tolist()


@settings(max_examples=50, deadline=None)
@given(st.sampled_from((8, 16, 32, 64)), st.integers(1, 5), st.integers(1, 3000), st.integers(1, 5), st.integers(0, 9))
def test_a_matrix_product_is_exact_modulo_2_to_the_64(
    bits: int, rows: int, terms: int, columns: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    one = (
        random.integers(0, 2**bits, (rows, terms), np.uint64, endpoint=False)
        if bits < 64
        else random.integers(0, 2**64 - 1, (rows, terms), np.uint64, endpoint=True)
    )
    other = np.full((terms, columns), 2**bits - 1, np.uint64)
    assert np.array_equal(product_of_limbs(limbs(one, bits), limbs(other, bits)), one @ other)


@pytest.mark.parametrize("salt", ["Relu", "fused"])
def test_mixing_keeps_values_apart(salt: str) -> None:
    values = mixed(np.arange(2**16, dtype=np.uint64), 16, salt)
    assert len(np.unique(values)) == 2**16
    assert values.max() == 2**16 - 1


def tiled_convolution() -> tuple[Graph, Graph]:
    network = Network(16)
    out = convolution(network, network.input(1, 2, 8, 8), 2, (3, 3), pads=(1, 1, 1, 1))
    assert out is not None
    network.add("Relu", [out], network.shape(out))
    whole = network.graph()
    return whole, tiled_to_fit(problem_of(whole, 320))


def with_operator(graph: Graph, changed: Operator) -> Graph:
    operators = tuple(changed if operator.name == changed.name else operator for operator in graph.operators)
    return replace(graph, operators=operators)


def test_a_tile_without_its_halo_is_refused() -> None:
    whole, tiled = tiled_convolution()
    tile = tiled.operators[1]
    with pytest.raises(GraphError, match=r"tensor 'x0': .* is read, and only .* is there"):
        whole_tensor_differences(with_operator(tiled, replace(tile, inputs=tile.inputs[1:])), whole)


def test_a_tile_of_another_operator_differs() -> None:
    whole, tiled = tiled_convolution()
    tile = tiled.operators[1]
    changed = replace(tile, attributes={**tile.attributes, "pads": [1, 0, 1, 2]})
    found = whole_tensor_differences(with_operator(tiled, changed), whole)
    assert set(tile.outputs) <= set(found)


def test_the_whole_network_is_compared_with_its_bands() -> None:
    whole, tiled = tiled_convolution()
    kernels = ArithmeticKernels(tiled, 3, whole)
    inputs = {tensor.name: kernels.network_input(tensor) for tensor in tiled.with_role(Role.INPUT)}
    outputs = values_in_given_order(tiled, kernels, inputs, frozenset(t.name for t in tiled.with_role(Role.OUTPUT)))
    assert kernels.difference_from_whole_model(inputs, outputs) == 0
    name = min(outputs)
    outputs[name] = outputs[name] ^ np.uint8(1)
    assert kernels.difference_from_whole_model(inputs, outputs) == np.inf
    assert ArithmeticKernels(tiled).difference_from_whole_model(inputs, outputs) is None


def test_an_input_handed_in_is_that_of_the_whole_tensor() -> None:
    _, tiled = tiled_convolution()
    kernels = ArithmeticKernels(tiled)
    band = tiled.with_role(Role.INPUT)[1]
    assert band.region is not None
    array = np.arange(128, dtype=np.uint16).reshape(1, 2, 8, 8)
    start, stop = band.region[2]
    expected = array[:, :, start:stop].reshape(-1)
    assert np.array_equal(kernels.given_input(band, array).view(np.uint16), expected)
    with pytest.raises(InputError, match="holds 2 bytes"):
        kernels.given_input(band, array[0, 0, 0, :1])


def test_another_seed_gives_other_values() -> None:
    whole, _ = tiled_convolution()
    tensor = whole.tensor["x0"]
    assert not np.array_equal(ArithmeticKernels(whole, 1).parameter(tensor), ArithmeticKernels(whole).parameter(tensor))


def made_up(tensors: Sequence[Tensor], kind: str) -> Graph:
    return Graph("one", tuple(tensors), (Operator("op", kind, ("x",), ("y",)),))


@pytest.mark.parametrize("kind", ["Relu", "Unheard"])
def test_tensors_without_shapes_run_on_made_up_kernels(kind: str) -> None:
    graph = made_up((Tensor("x", 12, Role.INPUT), Tensor("y", 12, Role.OUTPUT)), kind)
    kernels = ArithmeticKernels(graph)
    content = kernels.network_input(graph.tensor["x"])
    assert len(kernels.run(graph.operators[0], {"x": content})["y"]) == 12


def test_an_operator_without_arithmetic_reads_its_bands_put_together() -> None:
    network = Network(16)
    out = network.add("Relu", [network.input(4, 30)], (4, 30))
    out = network.add("Softmax", [out], (4, 30))
    network.add("Relu", [out], (4, 30))
    whole = network.graph()
    tiles = {name: OperatorTiles(1, (10, 30)) for name in ("relu0", "relu2")}
    tiled = with_tiles(problem_of(whole, 1000), tiles, is_model=False)
    softmax = next(operator for operator in tiled.operators if operator.kind == "Softmax")
    assert softmax.tile is not None
    assert len(softmax.inputs) > 1
    assert whole_tensor_differences(tiled, whole) == ()


def product_of_batches(network: Network) -> None:
    network.add("MatMul", [network.input(2, 3, 9, 8), network.input(1, 8, 7)], (2, 3, 9, 7))


def product_of_columns(network: Network) -> None:
    attributes: Attributes = {"transA": 1, "transB": 1}
    network.add("Gemm", [network.input(20, 6)], (6, 9), [network.parameter(9, 20)], attributes)


def product_of_rows_of_rows(network: Network) -> None:
    parameters = [network.parameter(7, 12), network.parameter(7)]
    network.add("Gemm", [network.input(3, 5, 12)], (3, 5, 7), parameters)


def parts_of_a_row(network: Network) -> None:
    source = network.tensor("rows", (6, 8, 5), Role.INPUT)
    parts = tuple(network.tensor(f"part{at}", (6, size, 5), Role.ACTIVATION) for at, size in enumerate((2, 5, 1)))
    network.operators.append(Operator("split", "Split", (source,), parts, attributes={"axis": -2}))


def slopes(network: Network) -> None:
    network.add("PRelu", [network.input(2, 6, 4, 5)], (2, 6, 4, 5), [network.parameter(6, 1, 1)])


def limits(network: Network) -> None:
    network.add("Clip", [network.input(9, 9)], (9, 9), [network.parameter(), network.parameter()])


@pytest.mark.parametrize(
    "build", [product_of_batches, product_of_columns, product_of_rows_of_rows, parts_of_a_row, slopes, limits]
)
@pytest.mark.parametrize("capacity_bytes", [40, 60, 100])
def test_further_kinds_give_the_values_of_the_whole(build: Callable[[Network], None], capacity_bytes: int) -> None:
    network = Network(16)
    build(network)
    whole = network.graph()
    tiled = tiled_to_fit(problem_of(whole, capacity_bytes))
    assert len(tiled.operators) > 1
    assert whole_tensor_differences(tiled, whole) == ()
