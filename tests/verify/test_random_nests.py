"""Loop nests of random operators and their parts: the verifier derives what the engines do, from its own statement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from random import Random

import pytest

from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue
from onchip.ir.tile import Range, Region, size_of, whole_region
from onchip.ops.channel_slices import CHANNELS, ranges_of_channels, whole_inputs
from onchip.ops.entries import geometry_of
from onchip.ops.layers_of import Precision, with_elements_of
from onchip.ops.layers_of import multiplies_matrices as heads_of_engines
from onchip.ops.layers_of import multiplies_rows as rows_of_engines
from onchip.ops.nests import NestsOfNetwork
from onchip.ops.windows import NoLayerError
from onchip.verify.schedule.nests import ROWS_TIMES_MATRIX, NestDerivation, Nests, multiplies_matrices, multiplies_rows
from onchip.verify.schedule.windows import CONVOLUTIONS, POOLS
from support.derived_nests import LoneOperator

Shape = tuple[int, ...]
Attributes = dict[str, AttributeValue]
SIZES = (1, 2, 3, 4, 6)
OWNERS = ("both", "both", "left", "right")
NONE = Nests((), "", None, 0)
SEEN_IN_PARTS = CONVOLUTIONS | POOLS | {"ConvTranspose"}


def operands(chance: Random, kind: str, left: Shape, right: Shape, output: Shape, stated: Attributes) -> LoneOperator:
    """Return a product of two inputs, or of an input and a parameter, which is listed behind it."""
    match chance.randrange(4):
        case 0:
            return LoneOperator(kind, [left, right], output, [], stated)
        case 1:
            return LoneOperator(kind, [right], output, [left], stated)
    numbers: list[Shape] = [chance.choice(((), (1,)))] if kind == "QLinearMatMul" and left[-1] > 1 else []
    return LoneOperator(kind, [left], output, [*numbers, right], stated)


def matrices(chance: Random, kind: str) -> LoneOperator:
    """Return a product of matrices or vectors, whose batches may spread over each other."""
    rows, depth, columns = (chance.choice(SIZES) for _ in range(3))
    axes = [(chance.choice(SIZES[:3]), chance.choice(OWNERS)) for _ in range(chance.randint(0, 2))]
    left, right = (tuple(size if owner in ("both", own) else 1 for size, owner in axes) for own in ("left", "right"))
    if chance.random() < 0.2:
        left = left[1:]
    batch = tuple(max(pair) for pair in zip(((1,) * len(axes) + left)[len(left) :], right, strict=True))
    stated: Attributes = {}
    turns = [False, False]
    if kind == "com.microsoft::FusedMatMul":
        turns = [chance.random() < 0.5, chance.random() < 0.5]
        stated = {"transA": int(turns[0]), "transB": int(turns[1])}
        if chance.random() < 0.1:
            stated[chance.choice(("transBatchA", "transBatchB"))] = 1
    elif kind == "BATCH_MATMUL":
        turns = [chance.random() < 0.5, chance.random() < 0.5]
        stated = {"adj_x": int(turns[0]), "adj_y": int(turns[1])}
    one = (depth, rows) if turns[0] else (rows, depth)
    other = (columns, depth) if turns[1] else (depth, columns)
    if not axes and not stated and chance.random() < 0.3:
        if chance.random() < 0.5:
            return operands(chance, kind, (depth,), other, (columns,), stated)
        return operands(chance, kind, one, (depth,), (rows,), stated)
    return operands(chance, kind, (*left, *one), (*right, *other), (*batch, rows, columns), stated)


def gemm(chance: Random, kind: str) -> LoneOperator:
    rows, depth, columns = (chance.choice(SIZES) for _ in range(3))
    split = chance.choice([size for size in range(1, depth + 1) if depth % size == 0])
    source: Shape = (rows, split, depth // split) if chance.random() < 0.3 else (rows, depth)
    is_turned = chance.random() < 0.5
    weight = (columns, depth) if is_turned else (depth, columns)
    stated: Attributes = {"transB": int(is_turned)} if chance.random() < 0.6 else {}
    bias: list[Shape] = [(columns,)] if chance.random() < 0.4 else []
    match chance.randrange(6):
        case 0:
            return LoneOperator(kind, [source, (rows, columns)], (rows, columns), [weight], stated)
        case 1:
            return LoneOperator(kind, [(depth, columns)], (rows, columns), [(rows, depth), *bias], {})
        case 2:
            numbers: list[Shape] = [(1,)] * chance.randrange(2)
            return LoneOperator(kind, [source], (rows, columns), [*bias, weight, *numbers], stated)
        case 3:
            batch: Shape = chance.choice(((), (chance.choice(SIZES),), (chance.choice(SIZES), 1)))
            named: list[Shape] = [(*batch, rows, depth), (*batch, depth, columns), (*batch, rows, columns)]
            listed: AttributeValue = [[*named[0]], [*named[1]]]
            if chance.random() < 0.4:
                at = chance.randrange(2)
                named[at] = chance.choice(((prod(named[at]),), (*named[at], 1)))
            chance.shuffle(named)
            inside = chance.randint(1, 3)
            return LoneOperator(kind, named[:inside], (*batch, rows, columns), named[inside:], {"input_shapes": listed})
    return LoneOperator(kind, [source], (rows, columns), [weight, *bias], stated)


def units(chance: Random, kind: str) -> LoneOperator:
    rows, depth, columns = (chance.choice(SIZES) for _ in range(3))
    source: Shape = chance.choice(((rows, depth), (rows, 2, depth), (rows * depth,)))
    written: Shape = (*source[:-1], columns) if source[-1] == depth else (rows, columns)
    return LoneOperator(kind, [source], written, [*([(columns,)] if chance.random() < 0.3 else []), (columns, depth)])


def einsum(chance: Random, kind: str) -> LoneOperator:
    letters = "abcde"[: chance.randint(1, 5)]
    sizes = {letter: chance.choice(SIZES) for letter in letters}
    owners = {letter: chance.choice(OWNERS) for letter in letters}
    terms = [
        "".join(chance.sample(mine := [one for one in letters if owners[one] in (own, "both")], len(mine)))
        for own in ("left", "right")
    ]
    kept = [one for one in letters if chance.random() < (0.6 if owners[one] == "both" else 0.85)]
    if chance.random() < 0.2:
        terms = terms[:1]
        kept = [one for one in terms[0] if chance.random() < 0.6]
    written = "".join(chance.sample(kept, len(kept)))
    shapes = [tuple(sizes[one] for one in term) for term in terms]
    output = tuple(sizes[one] for one in written)
    stated: Attributes = {"equation": chance.choice(("{}->{}", "{} -> {}")).format(",".join(terms), written)}
    if chance.random() < 0.05:
        stated = {"equation": 1} if chance.random() < 0.5 else {}
    if len(terms) == 1:
        return LoneOperator(kind, shapes, output, [], stated)
    return operands(chance, kind, shapes[0], shapes[1], output, stated)


def elements(chance: Random, kind: str) -> LoneOperator:
    shape = tuple(chance.choice(SIZES) for _ in range(chance.randint(0, 5)))
    if kind == "BatchNormalization":
        shape = (*shape, 2, 3)[:4]
        return LoneOperator(kind, [shape], shape, [(shape[1],)] * 4)
    spread: list[Shape] = [shape]
    if kind not in ("Relu", "Sigmoid", "Clip"):
        other = tuple(chance.choice((1, size, size)) for size in shape)
        spread.append(other[chance.randint(0, len(shape)) * (chance.random() < 0.5) :])
        if len(shape) > 1 and chance.random() < 0.2:
            spread[1] = (shape[1],)
    if chance.random() < 0.2:
        spread[0] = tuple(chance.choice((1, size)) for size in shape)
        spread[1:] = [
            tuple(size if own == 1 else chance.choice((1, size)) for size, own in zip(shape, spread[0], strict=True))
        ]
    chance.shuffle(spread)
    numbers: list[Shape] = [chance.choice(((), (1,)))] * chance.choice((0, 0, 0, 1, 2))
    if chance.random() < 0.1:
        numbers.append(shape[1:2])
    inside = chance.randint(1, len(spread))
    return LoneOperator(kind, spread[:inside], shape, [*spread[inside:], *numbers])


def windows(chance: Random, kind: str) -> LoneOperator:
    """Return a convolution or a pool over one to four dimensions."""
    rank = chance.choice((1, 2, 2, 2, 3, 3, 3, 4))
    several = (1, 1, 2, 3) if rank < 4 else (1, 1, 1, 2)
    each = (several, (1, 1, 2, 3), (1, 1, 2))
    kernel, strides, dilations = ([chance.choice(sizes) for _ in range(rank)] for sizes in each)
    pads = [chance.choice((0, 0, 1, 2)) for _ in range(2 * rank)]
    sizes = [chance.choice((1, 2, 3, 5, 6)) for _ in range(rank)]
    stated: Attributes = {"kernel_shape": [*kernel], "strides": [*strides], "dilations": [*dilations], "pads": [*pads]}
    automatic = chance.choice(("SAME_UPPER", "SAME_LOWER", "VALID")) if chance.random() < 0.2 else None
    if automatic:
        stated |= {"auto_pad": automatic}
        del stated["pads"]
        pads = [0] * (2 * rank)
    pixels = [
        (size + pads[at] + pads[rank + at] - (kernel[at] - 1) * dilations[at] - 1) // strides[at] + 1
        for at, size in enumerate(sizes)
    ]
    if automatic and automatic != "VALID":
        pixels = [-(-size // stride) for size, stride in zip(sizes, strides, strict=True)]
    pixels = [max(size, 1) for size in pixels]
    batch, groups = chance.choice((1, 1, 2)), chance.choice((1, 1, 2, 3))
    k, c = chance.choice(SIZES), chance.choice(SIZES)
    if kind == "MaxPool":
        return LoneOperator(kind, [(batch, c, *sizes)], (batch, c, *pixels), [], stated)
    stated |= {"group": groups}
    if chance.random() < 0.5:
        del stated["kernel_shape"]
    source: Shape = (batch, groups * c, *sizes)
    if chance.random() < 0.15:
        source = chance.choice(((batch, prod(source[1:])), (batch, groups, c, *sizes), (prod(source),)))
    parameters: list[Shape] = [(groups * k, c, *kernel)]
    if chance.random() < 0.3:
        parameters.insert(chance.randrange(2), (groups * k,))
    return LoneOperator(kind, [source], (batch, groups * k, *pixels), parameters, stated)


def transposed(chance: Random, kind: str) -> LoneOperator:
    rank = chance.choice((1, 2, 2, 3))
    kernel, strides, sizes = ([chance.choice(SIZES[:4]) for _ in range(rank)] for _ in range(3))
    pads, more = [chance.choice((0, 0, 1)) for _ in range(2 * rank)], [chance.randrange(each) for each in strides]
    pixels = [
        (size - 1) * strides[at] + kernel[at] + more[at] - pads[at] - pads[rank + at] for at, size in enumerate(sizes)
    ]
    groups, k, c = chance.choice((1, 1, 2)), chance.choice(SIZES), chance.choice(SIZES)
    stated: Attributes = {"strides": [*strides], "pads": [*pads], "group": groups, "output_padding": [*more]}
    if chance.random() < 0.1:
        stated |= chance.choice(({"auto_pad": "VALID"}, {"auto_pad": "SAME_UPPER"}, {"output_shape": [*pixels]}))  # type: ignore[arg-type]
    if chance.random() < 0.1:
        stated |= {"dilations": [chance.choice((1, 2)) for _ in kernel]}
    if min(pixels) < 1:
        pixels = [max(size, 1) for size in pixels]
    return LoneOperator(kind, [(1, groups * c, *sizes)], (1, groups * k, *pixels), [(groups * c, k, *kernel)], stated)


def reductions(chance: Random, kind: str) -> LoneOperator:
    shape = tuple(chance.choice(SIZES) for _ in range(chance.randint(1, 5)))
    if kind == "LRN":
        return LoneOperator(kind, [shape], shape, [], {"size": chance.randrange(6)})
    if kind.startswith("Global"):
        return LoneOperator(kind, [shape], (*shape[:2], *(1 for _ in shape[2:])))
    return LoneOperator(kind, [shape], tuple(chance.choice((1, size)) for size in shape))


KINDS: Mapping[Callable[[Random, str], LoneOperator], Sequence[str]] = {
    matrices: ("MatMul", "MatMul", "QLinearMatMul", "MatMulInteger", "com.microsoft::FusedMatMul", "BATCH_MATMUL"),
    gemm: ("Gemm", "Gemm", "com.microsoft::FusedGemm"),
    units: ("FULLY_CONNECTED",),
    einsum: ("Einsum",),
    elements: ("Relu", "Sigmoid", "Add", "Mul", "Sum", "Max", "PRelu", "BatchNormalization", "Clip"),
    windows: ("Conv", "Conv", "MaxPool", "com.microsoft::FusedConv"),
    transposed: ("ConvTranspose",),
    reductions: ("ReduceMean", "GlobalAveragePool", "GlobalMaxPool", "LRN"),
}


def random_operator(seed: int) -> tuple[Random, LoneOperator]:
    """Return an operator of a random kind, with the source of chance for more about it."""
    chance = Random(seed)
    make = chance.choice([*KINDS, matrices, matrices])
    return chance, with_fewer_defaults(chance, make(chance, chance.choice(KINDS[make])))


DEFAULTS = {"strides": 1, "dilations": 1, "group": 1, "pads": 0, "output_padding": 0, "transBatchA": 0}
DEFAULTS |= dict.fromkeys(("transA", "transB", "adj_x", "adj_y"), 0)


def with_fewer_defaults(chance: Random, operator: LoneOperator) -> LoneOperator:
    """Return the operator without some of the attributes whose values are the default."""
    attributes = {
        name: value
        for name, value in operator.attributes.items()
        if value not in (DEFAULTS.get(name), [DEFAULTS.get(name)] * len(operator.output[2:])) or chance.random() < 0.5
    }
    return replace(operator, attributes=attributes)


def changed(chance: Random, operator: LoneOperator) -> LoneOperator:
    """Return the operator with one size changed, or one axis or operand more or fewer, which mostly is illegal."""
    shapes = [list(shape or ()) for shape in (*operator.maps, *operator.weights, operator.output)]
    inside = len(operator.maps)
    at, change = chance.randrange(len(shapes)), chance.choice(("size", "axis", "no axis", "no operand"))
    axis = chance.randrange(max(len(shapes[at]), 1))
    if change == "axis":
        shapes[at].insert(axis, chance.choice((1, 2)))
    elif change == "no operand" and 0 < at < len(shapes) - 1:
        del shapes[at]
        inside -= at < inside
    elif change == "size" and shapes[at]:
        shapes[at][axis] = max(1, shapes[at][axis] + chance.choice((-1, 1)))
    elif shapes[at]:
        del shapes[at][axis]
    maps, (*weights, output) = shapes[:inside], shapes[inside:]
    return replace(operator, maps=[*map(tuple, maps)], weights=[*map(tuple, weights)], output=tuple(output))


def part_of(chance: Random, operator: LoneOperator) -> Region | None:
    """Return some rows and columns of a map, or some rows of some heads of a matrix; None if it has no parts."""
    output, rank = operator.output, len(operator.output)
    (alone,) = operator.graph().operators
    shapes = {name: shape or () for name, shape in zip(alone.reads, (*operator.maps, *operator.weights), strict=True)}
    shapes["y"] = output
    if operator.kind in SEEN_IN_PARTS:
        axes: tuple[int, ...] = (2, 3) if rank == 4 == len(shapes["x0"]) else ()
    elif operator.kind in KINDS[elements]:
        met = [shape for shape in shapes.values() if prod(shape) > 1]
        has_all_pixels = all(shape[-2:] in ((1, 1), output[-2:]) for shape in met)
        is_cut = output in met[:-1] and 1 < rank < 5 and (rank < 4 or has_all_pixels)
        axes = () if not is_cut else (2, 3) if rank == 4 else (rank - 2,)
    else:
        is_product = multiplies_rows(alone, shapes) or multiplies_matrices(alone, shapes)
        axes = () if not is_product else (1, 2) if rank == 4 else (rank - 2,)
    region = [*whole_region(output)]
    for at in axes:
        start = chance.randrange(output[at])
        region[at] = (start, chance.randint(start + 1, output[at]))
    return tuple(region) if axes else None


def all_pixels(shape: Shape, channels: Range) -> Region:
    batch, _, *pixels = whole_region(shape)
    return (batch, channels, *pixels)


def runs_in_slices(operator: LoneOperator) -> bool:
    """Return True if the operator runs in slices of its output's channels."""
    graph = in_bytes(operator)
    (alone,) = graph.operators
    is_cut = geometry_of(alone, graph, is_model=False) is not None
    return is_cut and whole_inputs(graph, alone) is not None


def slice_of(chance: Random, operator: LoneOperator) -> Region | None:
    """Return all pixels of some channels; None if the operator does not run in slices of channels."""
    if not runs_in_slices(operator):
        return None
    count = operator.output[1]
    return all_pixels(operator.output, chance.choice(ranges_of_channels(count, chance.randint(1, count))))


def in_bytes(operator: LoneOperator) -> Graph:
    """Return the network of the operator, with elements of whole bytes, which alone are cut into slices."""
    return with_elements_of(operator.graph(), 8)


def nests_by_both(operator: LoneOperator, region: Region | None = None) -> tuple[Nests | None, Nests | None]:
    """Return the nests that the verifier derives, and those of the engines, or None without any.

    Raises NoLayerError and InputError.
    """
    is_slice = (
        region is not None and runs_in_slices(operator) and region == all_pixels(operator.output, region[CHANNELS])
    )
    graph = in_bytes(operator) if is_slice else operator.graph()
    (alone,) = graph.operators
    engine = NestsOfNetwork(graph, Precision(None))
    layers, operands = engine.whole(alone), engine.operands(alone)
    if region is not None:
        layers = engine.of_channels(alone, region[CHANNELS]) if is_slice else engine.of_region(alone, region)
    derived = NestDerivation(graph, Precision(None).sum_bits).of(alone, region)
    if derived is None or not derived.layers:  # no output has a tap
        derived = None
    left_over = derived.left_over if derived else 0
    return derived, Nests(layers, operands.input, operands.weight, left_over) if operands and layers else None


def test_nests_of_random_operators_are_those_of_the_engines() -> None:
    nests = Counter[str]()
    for seed in range(1600):
        _, operator = random_operator(seed)
        derived, expected = nests_by_both(operator)
        assert derived == expected, f"seed {seed}: {operator}"
        assert (operator.nests(whole_region(operator.output)) or NONE).layers == (operator.nests() or NONE).layers
        nests[operator.kind] += derived is not None
    assert min(nests[kind] for kinds in KINDS.values() for kind in kinds) > 4


def test_operators_whose_shapes_disagree_have_no_other_nests_than_with_the_engines() -> None:
    found = Counter[bool]()
    for seed in range(1600):
        operator = changed(*random_operator(seed))
        derived, expected = nests_by_both(operator)
        assert derived in (expected, None), f"seed {seed}: {operator}"
        found[derived is None] += 1
    assert min(found.values()) > 400


def test_products_of_rows_and_of_heads_are_those_of_the_engines() -> None:
    """The engines take the first parameter of two dimensions for the matrix, even one of one row."""
    found = Counter[tuple[bool, bool]]()
    for seed in range(3000):
        chance = Random(seed)
        make = chance.choice((matrices, gemm, units))
        operator = make(chance, chance.choice(sorted(ROWS_TIMES_MATRIX.intersection(KINDS[make]))))
        if chance.random() < 0.5:
            operator = changed(chance, operator)
        if chance.random() < 0.5:
            operator = replace(operator, attributes={**operator.attributes, "weight_factor": "right"})
        if len(operator.maps) == 2 and chance.random() < 0.2:
            listed: AttributeValue = [[*shape] for shape in operator.maps if shape]
            operator = replace(operator, attributes={**operator.attributes, "input_shapes": listed})
        if len(operator.maps) == 2 and chance.random() < 0.2:
            operator = replace(operator, weights=[*operator.weights, (1,)])
        if any(len(shape) == 2 and shape[0] == 1 for shape in operator.weights):
            continue
        graph = operator.graph()
        (alone,) = graph.operators
        shapes = {tensor.name: tensor.shape or () for tensor in graph.tensors}
        says = multiplies_rows(alone, shapes), multiplies_matrices(alone, shapes)
        assert says == (rows_of_engines(graph, alone), heads_of_engines(graph, alone)), f"seed {seed}: {operator}"
        found[says] += 1
    assert min(found.values()) > 15


def test_a_part_of_a_product_has_no_nest_of_other_elements() -> None:
    """A part may be cut along any axis, or be one row of a product whose nest has the rows in K."""
    found = Counter[bool]()
    for seed in range(1500):
        chance = Random(seed)
        operator = matrices(chance, "MatMul") if seed % 3 else gemm(chance, "Gemm")
        ranges = [sorted(chance.sample(range(size + 1), 2)) for size in operator.output]
        region = tuple(
            (start, stop) if chance.random() < 0.5 else (0, size)
            for (start, stop), size in zip(ranges, operator.output, strict=True)
        )
        nests = operator.nests(region)
        for layer in nests.layers if nests else ():
            assert layer.n * layer.k * layer.g == size_of(region), f"seed {seed}: {operator}, {region}"
        found[nests is None] += 1
    assert min(found.values()) > 100, found


@pytest.mark.parametrize(
    ("part", "kinds"),
    [
        (part_of, ("MatMul", "Gemm", "Conv", "MaxPool", "ConvTranspose", "Add")),
        (slice_of, ("Conv", "MaxPool", "BatchNormalization", "Add", "GlobalAveragePool")),
    ],
)
def test_nests_of_parts_of_random_operators_are_those_of_the_engines(
    part: Callable[[Random, LoneOperator], Region | None], kinds: Sequence[str]
) -> None:
    """The engines also have nests for parts that no tile is: those of another number of elements are left out."""
    parts = Counter[str]()
    for seed in range(2500):
        chance, operator = random_operator(seed)
        if (region := part(chance, operator)) is None:
            continue
        try:
            derived, expected = nests_by_both(operator, region)
        except (NoLayerError, InputError):
            continue
        counted = sum(layer.n * layer.k * layer.g * layer.p * layer.q for layer in expected.layers) if expected else 0
        if operator.kind in KINDS[elements] and counted != size_of(region):
            continue
        assert derived == expected, f"seed {seed}: {operator}, {region}"
        assert derived is None or counted + derived.left_over == size_of(region)
        parts[operator.kind] += derived is not None
    assert min(parts[kind] for kind in kinds) > 4, parts
