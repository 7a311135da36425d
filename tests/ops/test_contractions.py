"""Products over any axes, and broadcasting: their loop nests compute numpy's values."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.layers_of import layers_and_left_out, nest_operands
from onchip.verify.schedule.nests import NestDerivation
from oracles.loop_nest import PlainNest

Values = npt.NDArray[np.float64]
Shape = tuple[int, ...]


def graph_of(
    kind: str, inputs: Sequence[Shape], output: Shape, attributes: dict[str, AttributeValue] | None = None,
    parameters: Sequence[Shape] = (),
) -> Graph:  # fmt: skip
    """Return a graph of one operator named `op`."""
    read = {f"x{at}": shape for at, shape in enumerate(inputs)}
    kept = {f"w{at}": shape for at, shape in enumerate(parameters)}
    tensors = [Tensor.of_shape(name, shape, 8, Role.INPUT) for name, shape in read.items()]
    tensors += [Tensor.of_shape(name, shape, 8, Role.PARAMETER) for name, shape in kept.items()]
    operator = Operator("op", kind, tuple(read), ("y",), tuple(kept), attributes or {})
    return Graph("one", (*tensors, Tensor.of_shape("y", output, 8, Role.OUTPUT)), (operator,))


def layer_of(graph: Graph) -> Layer | None:
    """Return the operator's one nest, or None; check that the verifier derives the same over the same operands."""
    layers, _ = layers_and_left_out(graph)
    derived = NestDerivation(graph, 24).of(graph.operators[0])
    assert (derived.layers if derived else ()) == tuple(layers.values())
    if derived is None:
        return None
    operands = nest_operands(graph, graph.operators[0])
    assert (derived.input, derived.weight) == (operands.input, operands.weight)
    return next(iter(layers.values()))


def of_letters(values: Values, letters: str, groups: Sequence[str], sizes: dict[str, int]) -> Values:
    """Return the array with the letters of each group as one axis."""
    order = "".join(letter for group in groups for letter in group)
    moved = np.transpose(values, [letters.index(letter) for letter in order])
    return moved.reshape([prod(sizes[letter] for letter in group) for group in groups])


def executed(layer: Layer, terms: Sequence[str], arrays: Sequence[Values], written: str, nest: PlainNest) -> Values:
    """Return the product computed by the layer, with the axes of the output."""
    sizes = {
        letter: size
        for term, array in zip(terms, arrays, strict=True)
        for letter, size in zip(term, array.shape, strict=True)
    }
    first, second = terms
    shared = [letter for letter in first if letter in second]
    g, c = ("".join(one for one in shared if (one in written) is kept) for kept in (True, False))
    n, k = ("".join(one for one in term if one not in shared) for term in (first, second))
    rows = of_letters(arrays[0], first, (g, n, c), sizes)
    matrices = of_letters(arrays[1], second, (g, c, k), sizes)
    made = nest.product(layer, rows, matrices).reshape([sizes[letter] for letter in g + n + k])
    return np.transpose(made, [(g + n + k).index(letter) for letter in written])


@st.composite
def equations(draw: st.DrawFn) -> tuple[list[str], str, dict[str, int]]:
    """Draw two terms over few letters, and their output."""
    letters = "abcdef"[: draw(st.integers(1, 6))]
    owners = [draw(st.sampled_from(("first", "second", "both"))) for _ in letters]
    terms = []
    for own in ("first", "second"):
        mine = [letter for letter, owner in zip(letters, owners, strict=True) if owner in (own, "both")]
        terms.append("".join(draw(st.permutations(mine))))
    kept = [letter for letter, owner in zip(letters, owners, strict=True) if owner != "both" or draw(st.booleans())]
    return terms, "".join(draw(st.permutations(kept))), {letter: draw(st.integers(1, 3)) for letter in letters}


@pytest.mark.slow
@given(equations(), st.integers(0, 100))
@settings(max_examples=120, deadline=None)
def test_an_einsum_is_its_nest(drawn: tuple[list[str], str, dict[str, int]], seed: int) -> None:
    terms, written, sizes = drawn
    assume(all(terms) and written)
    random, nest = np.random.default_rng(seed), PlainNest()
    arrays = [random.normal(size=[sizes[letter] for letter in term]) for term in terms]
    equation = f"{','.join(terms)}->{written}"
    expected = np.einsum(equation, *arrays)
    layer = layer_of(graph_of("Einsum", [one.shape for one in arrays], expected.shape, {"equation": equation}))

    assert layer is not None
    np.testing.assert_allclose(executed(layer, terms, arrays, written, nest), expected)
    assert nest.multiplied == layer.macs == prod(sizes.values())


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from(("both", "first", "second"))), min_size=1, max_size=4))
@settings(max_examples=120, deadline=None)
def test_what_spreads_over_each_other_is_its_nest(axes: list[tuple[int, str]]) -> None:
    """The values are numpy's; each product of two elements is one multiply-accumulate."""
    shapes = [tuple(size if owner in ("both", own) else 1 for size, owner in axes) for own in ("first", "second")]
    random, nest = np.random.default_rng(1), PlainNest()
    arrays = [random.normal(size=shape) for shape in shapes]
    expected = arrays[0] * arrays[1]
    graph = graph_of("Mul", shapes, expected.shape)
    layer = layer_of(graph)

    assert layer is not None
    assert layer.macs == expected.size
    operands = nest_operands(graph, graph.operators[0])
    if operands.weight is None:
        return
    named = {"x0": arrays[0], "x1": arrays[1]}
    letters = "abcd"[: len(axes)]
    pair = [named[operands.input], named[operands.weight]]
    terms = [
        "".join(
            letter for letter, size in zip(letters, one.shape, strict=True) if size > 1 or prod(expected.shape) == 1
        )
        for one in pair
    ]
    squeezed = [one.squeeze() if expected.size > 1 else one for one in pair]
    written = "".join(
        letter for letter, size in zip(letters, expected.shape, strict=True) if size > 1 or expected.size == 1
    )
    made = executed(layer, terms, squeezed, written, nest).reshape(expected.shape)
    np.testing.assert_allclose(made, expected)
    assert nest.multiplied == expected.size


@given(
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from(("both", "first", "second"))), max_size=3),
    st.tuples(*[st.integers(1, 3)] * 3),
)
@settings(max_examples=120, deadline=None)
def test_a_product_of_batches_multiplies_what_its_definition_does(
    axes: list[tuple[int, str]], sizes: tuple[int, int, int]
) -> None:
    rows, depth, columns = sizes
    batches = [tuple(size if owner in ("both", own) else 1 for size, owner in axes) for own in ("first", "second")]
    shapes = [(*batches[0], rows, depth), (*batches[1], depth, columns)]
    output = (np.ones(shapes[0]) @ np.ones(shapes[1])).shape
    layer = layer_of(graph_of("MatMul", shapes, output))

    assert layer is not None
    assert layer.macs == prod(output) * depth
    assert {layer.elements("input"), layer.elements("weight")} == {prod(shape) for shape in shapes}


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("channels", [1, 3, 6])
def test_a_response_normalisation_adds_up_squares_of_channels(size: int, channels: int) -> None:
    """The onnx specification sums `size` channels, with one more after than before if `size` is even."""
    shape = (2, channels, 2, 3)
    values = np.random.default_rng(0).normal(size=shape)
    layer, nest = layer_of(graph_of("LRN", [shape], shape, {"size": size})), PlainNest()
    expected = np.zeros(shape)
    for channel in range(channels):
        around = range(max(0, channel - (size - 1) // 2), min(channels - 1, channel + -(-(size - 1) // 2)) + 1)
        expected[:, channel] = sum(values[:, other] ** 2 for other in around)

    assert layer is not None
    sums = nest.run(layer, (values**2).reshape(2, 1, 1, channels, 6)).reshape(shape)
    np.testing.assert_allclose(sums, expected)
    assert nest.multiplied == prod(shape) * size


@pytest.mark.parametrize("kind", ["ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceProd", "ReduceLogSum", "ReduceMax"])
def test_a_reduction_meets_every_element_once(kind: str) -> None:
    layer = layer_of(graph_of(kind, [(2, 3, 4)], (2, 1, 4)))
    assert layer == Layer(g=8, c=3, has_weight=False)


def test_a_normalisation_of_channels_meets_their_scales() -> None:
    layer = layer_of(graph_of("BatchNormalization", [(2, 3, 4, 5)], (2, 3, 4, 5), parameters=[(3,)] * 4))
    assert layer == Layer(n=2 * 20, g=3)


def test_the_slope_of_an_activation_in_an_addition_is_not_met() -> None:
    """A PRelu is fused into an addition of two maps: 4 slopes."""
    layer = layer_of(graph_of("Add", [(1, 4, 5, 5), (1, 4, 5, 5)], (1, 4, 5, 5), parameters=[(1, 4, 1, 1)]))
    assert layer == Layer(g=100)
