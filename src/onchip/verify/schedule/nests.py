"""Loop nests of operators, stated independently of the engines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product, zip_longest
from math import prod
from typing import Final

from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import SEEN_SHAPES, VIEWS, Operator
from onchip.ir.operator_kinds import nests_of_plugin
from onchip.ir.tile import Range, Region, size_of, whole_region
from onchip.ir.window import integer, integers, product_of, shapes_as_read, shapes_computed, stated_factors
from onchip.verify.schedule.windows import (
    CONVOLUTIONS,
    ELEMENTWISE,
    GLOBAL_POOLS,
    POOLS,
    Shape,
    kernel_of,
    sliding_windows,
)


class NoNest(Exception):  # noqa: N818 (no error: it says why an operator is no loop nest)
    """Raised with the reason why an operator is no loop nest."""


ROWS_TIMES_MATRIX: Final = frozenset({"MatMul", "MatMulInteger", "QLinearMatMul", "Gemm", "FULLY_CONNECTED"})
OF_TWO_OPERANDS: Final = frozenset({"Add", "Sub", "Mul", "Div", "Pow", "PRelu"})
Derived = tuple[tuple[Layer, ...], int, int | None]
"""The nests, and where the input and the weight stand among the operands, the output at place 0."""
DerivedProduct = tuple[tuple[Layer, ...], int, int]


def matrix(operator: Operator, shapes: Sequence[Shape]) -> Derived:
    """Return the nest of a Gemm: rows N, columns K, and features C, which follow from the weight. Raises NoNest.

    If the input fits only the product in the other order, the weight is the left factor, and its rows are K. An export
    may list the factors; if these are batches, or the input is neither factor, the other operand is an addend.
    """
    factors = stated_factors(operator)
    if any(len(shape) > 2 for shape in factors) or (factors and prod(shapes[1]) not in [prod(one) for one in factors]):
        return _beside_an_addend(factors, shapes)
    output, weight = shapes[0], _place_of_matrix(operator, shapes)
    if weight is None:
        raise NoNest("weight")
    rows, columns, size, features = prod(output[:-1]), output[-1], prod(shapes[weight]), prod(shapes[1])
    depth = size // rows
    if (depth * rows, depth * columns) == (size, features):
        return (Layer(n=columns, k=rows, c=depth),), 1, weight
    if size % columns:
        raise NoNest("weight")
    layer = Layer(n=rows, k=columns, c=size // columns)
    if layer.n * layer.c > features:
        raise NoNest("view")
    return (layer,), 1, weight


def _beside_an_addend(factors: Sequence[Shape], shapes: Sequence[Shape]) -> Derived:
    """Return the nest of the two operands of three that alone have the factors' shapes, or their sizes."""
    if len(shapes) != 4:
        raise NoNest("factors")
    orders = [(left, right) for left in (1, 2, 3) for right in (1, 2, 3) if left != right]
    alike = [order for order in orders if (shapes[order[0]], shapes[order[1]]) == (factors[0], factors[1])]
    sizes = prod(factors[0]), prod(factors[1])
    alike = alike or [order for order in orders if (prod(shapes[order[0]]), prod(shapes[order[1]])) == sizes]
    if len(alike) != 1:
        raise NoNest("factors")
    layers, source, weight = matrix_product([shapes[0], *factors])
    return layers, alike[0][source - 1], alike[0][weight - 1]


def _place_of_matrix(operator: Operator, shapes: Sequence[Shape]) -> int | None:
    """Return the position of the weight: 3 if of operands 2 and 3 only the latter fits, else the first matrix."""
    first = next((place for place in range(2, len(shapes)) if len(shapes[place]) > 1), None)
    fits = [product_of(operator, shapes[1], shape, shapes[0], is_model=True) is not None for shape in shapes[2:]]
    return 3 if fits == [False, True] else first


def units(shapes: Sequence[Shape]) -> Derived:
    """Return the nest of a FULLY_CONNECTED: units K, features C, which the weight lists. Raises NoNest."""
    weight = next((place for place in range(2, len(shapes)) if len(shapes[place]) > 1), None)
    if weight is None:
        raise NoNest("weight")
    *_, columns, features = shapes[weight]
    layer = Layer(n=prod(shapes[1]) // features, k=columns, c=features)
    if (layer.n * columns, layer.n * features) != (prod(shapes[0]), prod(shapes[1])):
        raise NoNest("features")
    return (layer,), 1, weight


def matrix_product(shapes: Sequence[Shape], transposes: tuple[bool, bool] = (False, False)) -> DerivedProduct:
    """Return the nest of a MatMul: matrices that a batch shares are the weight, a batch of both is groups.

    `transposes` says which factor is transposed. Parameters stand behind inputs, so the factors are exchanged if they
    then make the output; square matrices have the same nest in both orders. Raises NoNest.
    """
    first = shapes[1]
    second = next((at for at in range(2, len(shapes)) if len(shapes[at]) > 1 or shapes[at] == first[-1:]), None)
    if second is None or not first:
        raise NoNest("matrices")
    left, right = _turned(first, transposes[0]), _turned(shapes[second], transposes[1])
    other_left, other_right = _turned(shapes[second], transposes[0]), _turned(first, transposes[1])
    if _multiply(other_left, other_right, shapes[0]):
        return _left_weight(other_left, other_right, second)
    left = (1, *left)
    right = (*right, 1) if len(right) == 1 else right
    if left[-1] != right[-2]:
        raise NoNest("features")
    batch, others = prod(left[:-2]), prod(right[:-2])
    rows, depth, columns = left[-2], left[-1], right[-1]
    if others == 1:
        return (Layer(n=batch * rows, c=depth, k=columns),), 1, second
    if batch == 1:
        return (Layer(n=others * columns, c=depth, k=rows),), second, 1
    alike = [size for size in left[:-2] if size > 1] == [size for size in right[:-2] if size > 1]
    if alike and batch * rows * columns == prod(shapes[0]):
        return (Layer(n=rows, c=depth, k=columns, g=batch),), 1, second
    of_first, of_second, shared = _spread(left[:-2], right[:-2])
    return (Layer(n=of_first * rows, c=depth, k=of_second * columns, g=shared),), 1, second


def _turned(shape: Shape, turns: bool) -> Shape:
    return (*shape[:-2], shape[-1], shape[-2]) if turns else shape


def _multiply(left: Shape, right: Shape, output: Shape) -> bool:
    """Return True if the factors have the same number of features, and their product has the output's elements."""
    left = (1, *left)
    right = (*right, 1) if len(right) == 1 else right
    if left[-1] != right[-2]:
        return False
    batch = prod(max(sizes) for sizes in zip_longest(left[-3::-1], right[-3::-1], fillvalue=1))
    return batch * left[-2] * right[-1] == prod(output)


def _left_weight(weight: Shape, source: Shape, place: int) -> DerivedProduct:
    """Return the nest of a left factor that is listed at `place`, behind the right one."""
    weight = (1, *weight)
    source = (*source, 1) if len(source) == 1 else source
    rows, depth, columns = weight[-2], weight[-1], source[-1]
    batch, others = prod(source[:-2]), prod(weight[:-2])
    if others == 1:
        return (Layer(n=batch * columns, c=depth, k=rows),), 1, place
    if batch == 1:
        return (Layer(n=others * rows, c=depth, k=columns),), place, 1
    of_source, of_weight, shared = _spread(source[:-2], weight[:-2])
    return (Layer(n=of_source * columns, c=depth, k=of_weight * rows, g=shared),), 1, place


def element_by_element(kind: str, shapes: Sequence[Shape], region: Region) -> Derived:
    """Return the nest of an element-wise operator: with two operands all loops are groups. Raises NoNest.

    The smaller operand is the weight, or a constant if it has one element. With more operands, those of one element are
    constants (scales and zero points). A kind of two operands ignores the inputs of an activation fused into it; a
    normalisation uses its input and its scale. If two operands broadcast to each other, the larger has N, the smaller
    K.
    """
    output, extents = shapes[0], tuple(stop - start for start, stop in region)
    largest, *others = _met(kind, shapes)
    if len(others) > 1:
        raise NoNest("operands")
    smaller = prod(shapes[others[0]]) if others else 0
    if prod(shapes[largest]) != prod(output):
        whole = _spread(shapes[largest], shapes[others[0]])
        if prod(whole) != prod(output) or extents != output:
            raise NoNest("operands")
        return (Layer(n=whole[0], k=whole[1], g=whole[2]),), largest, others[0]
    if smaller == prod(output):
        return (Layer(g=prod(extents)),), largest, others[0]
    if smaller <= 1:
        batch, channels, *pixels = (*extents, 1, 1)[: max(len(extents), 2)]
        columns = pixels[-1] if pixels else 1
        return (Layer(n=batch, g=channels, p=prod(pixels[:-1]), q=columns, has_weight=False),), largest, None
    if prod(output) % smaller:
        raise NoNest("spread")
    smaller_shape = shapes[others[0]]
    is_per_channel = kind in SCALED and smaller_shape == output[1:2]
    met = extents[1] if is_per_channel else _met_by(smaller_shape, output, extents)
    return (Layer(n=prod(extents) // met, g=met),), largest, others[0]


def _met_by(smaller: Shape, output: Shape, extents: Shape) -> int:
    """Return the number of elements of the smaller operand used by a part of the output.

    All elements of a 1-D operand count, one for each channel.
    """
    along = len(output) - len(smaller)
    if len(smaller) == 1 or along < 0:
        return prod(smaller)
    sizes = zip(smaller, output[along:], extents[along:], strict=True)
    return prod(each if size == whole else size for size, whole, each in sizes)


def _met(kind: str, shapes: Sequence[Shape]) -> list[int]:
    """Return the positions of the element-wise operands of several elements, the larger first.

    Without any, all operands have one element: the first two if there are two, else the first.
    """
    if kind == "BatchNormalization":
        return [1, 2]
    larger = [place for place in range(1, len(shapes)) if prod(shapes[place]) != 1]
    if kind in OF_TWO_OPERANDS:
        larger = larger[:2]
    if not larger:
        return [1, 2] if len(shapes) == 3 else [1]
    return sorted(larger, key=lambda place: -prod(shapes[place]))


def _spread(first: Shape, second: Shape) -> tuple[int, int, int]:
    """Return the elements of the axes that only the first shape has, only the second has, and both have.

    Raises NoNest.
    """
    alone, others, shared = 1, 1, 1
    for one, other in zip_longest(reversed(first), reversed(second), fillvalue=1):
        if one == other:
            shared *= one
        elif other == 1:
            alone *= one
        elif one == 1:
            others *= other
        else:
            raise NoNest("spread")
    return alone, others, shared


def einsum(equation: object, shapes: Sequence[Shape]) -> Derived:
    """Return the nest of an Einsum. Raises NoNest.

    A letter of both operands and the output is a group loop; a letter of both operands alone is a reduction.
    """
    text = equation.replace(" ", "") if isinstance(equation, str) else ""
    terms, _, written = text.partition("->")
    letters = terms.split(",")
    if "->" not in text or "." in text or len(letters) > 2 or any(len(set(term)) < len(term) for term in letters):
        raise NoNest("equation")
    if not _sizes_fit(letters, written, shapes):
        letters = letters[::-1]  # the first factor is a parameter, which is listed behind inputs
        if not _sizes_fit(letters, written, shapes):
            raise NoNest("equation")
    sizes: dict[str, int] = {}
    for term, shape in zip(letters, shapes[1:], strict=True):
        sizes |= zip(term, shape, strict=True)
    if len(letters) == 1:
        added = prod(size for letter, size in sizes.items() if letter not in written)
        if added == 1:
            raise NoNest("moves")
        return (Layer(g=prod(shapes[0]), c=added, has_weight=False),), 1, None
    first, second, output = set(letters[0]), set(letters[1]), set(written)
    if any(sizes[letter] > 1 for letter in (first ^ second) - output):
        raise NoNest("adds up")
    n, k, c, g = (
        prod(sizes[letter] for letter in group)
        for group in (first - second, second - first, (first & second) - output, first & second & output)
    )
    return (Layer(n=n, k=k, c=c, g=g),), 1, 2


def _sizes_fit(letters: Sequence[str], written: str, shapes: Sequence[Shape]) -> bool:
    """Return True if each letter has one size in all operands and in the output."""
    sizes: dict[str, int] = {}
    if [len(term) for term in letters] != [len(shape) for shape in shapes[1:]] or len(written) != len(shapes[0]):
        return False
    for term, shape in zip((*letters, written), (*shapes[1:], shapes[0]), strict=True):
        for letter, size in zip(term, shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                return False
    return set(written) <= set("".join(letters))


def multiplies_rows(operator: Operator, shapes: Mapping[str, Shape]) -> bool:
    """Return True if each row of the output is a row of the only input times a matrix, which is a parameter.

    Further parameters have one element for each column, or one element in all. Where the shapes fit a product in the
    other order, too, the operator has to state that its weight is the right factor. The input may be read in another
    shape, but whole and in its order.
    """
    if operator.kind not in ROWS_TIMES_MATRIX or len(operator.inputs) != 1 or operator.attributes.get("transA"):
        return False
    if (VIEWS - {SEEN_SHAPES}) & operator.attributes.keys():
        return False
    (source,), written = shapes_as_read(operator, [shapes[operator.inputs[0]]]), shapes[operator.outputs[0]]
    matrices = [shape for name in operator.parameters if len(shape := shapes[name]) == 2 and min(shape) > 1]
    others = [prod(shapes[name]) for name in operator.parameters if shapes[name] not in matrices]
    has_rows = len(source) == len(written) in (2, 3, 4) and source[:-1] == written[:-1]
    if len(matrices) != 1 or not has_rows:
        return False
    (matrix,) = matrices
    if sorted(matrix) != sorted((source[-1], written[-1])) or any(size not in (1, written[-1]) for size in others):
        return False
    fits_exchanged = {*matrix} == {source[-2]}
    is_stated = operator.attributes.get("weight_factor") == "right"
    return not fits_exchanged or is_stated or operator.kind == "FULLY_CONNECTED"


def multiplies_matrices(operator: Operator, shapes: Mapping[str, Shape]) -> bool:
    """Return True if the output is the product of both inputs, in this order, head by head."""
    if operator.kind != "MatMul" or operator.parameters or stated_factors(operator):
        return False
    if VIEWS & operator.attributes.keys() or len(operator.inputs) != 2 or operator.inputs[0] == operator.inputs[1]:
        return False
    left, right, written = (shapes[name] for name in (*operator.inputs, operator.outputs[0]))
    if not len(left) == len(right) == len(written) in (2, 3, 4):
        return False
    fits = left[-1] == right[-2] and (left[-2], right[-1]) == written[-2:]
    return fits and left[:-2] == right[:-2] == written[:-2]


def rows_multiplied(inputs: Sequence[Shape], output: Shape, region: Region) -> tuple[Region, ...]:
    """Return what rows of the output depend on: the same rows of the left input, and all rows of a right one.

    Raises LookupError for a part of a row.
    """
    if region[-1] != (0, output[-1]):
        raise LookupError("columns")
    left = (*region[:-1], (0, inputs[0][-1]))
    return left, *((*region[:-2], (0, shape[-2]), (0, shape[-1])) for shape in inputs[1:])


def of_rows(layers: tuple[Layer, ...], output: Shape, region: Region) -> tuple[Layer, ...]:
    """Return the nest of a product for some rows of its output, in N, and some heads, in G or also in N.

    Heads are in G if both factors have them. Raises NoNest for other parts, which have fewer elements than that nest.
    """
    if region == whole_region(output):
        return layers
    (layer,) = layers
    rows, every = region[-2][1] - region[-2][0], output[-2]
    heads, all_heads = (region[1][1] - region[1][0], output[1]) if len(output) == 4 else (1, 1)
    if layer.g > 1:
        part = replace(layer, n=layer.n * rows // every, g=layer.g * heads // all_heads)
    else:
        part = replace(layer, n=layer.n * rows * heads // (every * all_heads))
    if part.n * part.k * part.g != size_of(region):
        raise NoNest("part")
    return (part,)


PRODUCTS: Final = frozenset({"MatMul", "MatMulInteger", "QLinearMatMul"})
REDUCTIONS: Final = frozenset(
    {"ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare"}
    | {"ReduceLogSum"}
)
SCALED: Final = frozenset({"PRelu", "BatchNormalization"})
"""Kinds with one operand of one element per channel, or of as many elements as it broadcasts to."""


@dataclass(frozen=True, slots=True)
class Nests:
    """Loop nests that run one after the other on the same operands, which are tensors of the network, by name.

    `left_over` is the number of outputs that none of them computes, such as those that no tap reaches.
    """

    layers: tuple[Layer, ...]
    input: str
    weight: str | None
    left_over: int


@dataclass(frozen=True, slots=True)
class _Axis:
    """A window along one dimension: its outputs, taps, stride, dilation, and the zeros before and behind the input."""

    outputs: int = 1
    taps: int = 1
    stride: int = 1
    dilation: int = 1
    before: int = 0
    behind: int = 0

    @property
    def slides(self) -> bool:
        """Return True if an output sees more than the one input at the same position."""
        return (self.taps, self.stride, self.before, self.behind) != (1, 1, 0, 0)


@dataclass(frozen=True, slots=True)
class NestDerivation:
    """Derives loop nests from the network's shapes; elements have their tensor's bits, sums `partial_bits`."""

    network: Graph
    partial_bits: int
    _whole: dict[str, Nests | None] = field(default_factory=dict, compare=False)
    _known: dict[tuple[str, tuple[Layer, ...], int], Nests] = field(default_factory=dict, compare=False)

    def of(self, operator: Operator, region: Region | None = None) -> Nests | None:
        """Return the nests of a region of the first output, or of all of it.

        None for an operator without loop nests.
        """
        if region is not None:
            return self._of_region(operator, region)
        if operator.name not in self._whole:
            self._whole[operator.name] = self._of_region(operator, None)
        return self._whole[operator.name]

    def _of_region(self, operator: Operator, region: Region | None) -> Nests | None:
        names = (operator.outputs[0], *operator.inputs, *operator.parameters)
        shapes = [self.network.tensor[name].shape for name in names]
        known = [shape for shape in shapes if shape is not None]
        if len(known) < len(shapes) or len(shapes) < 2:
            return None
        known[1:] = shapes_computed(operator, known[1:])
        try:
            layers, source, weight = _derived(operator, known, region or whole_region(known[0]))
            if operator.kind in ROWS_TIMES_MATRIX and region is not None:
                layers = of_rows(layers, known[0], region)
        except (NoNest, InputError, LookupError):
            return None
        computed = sum(layer.n * layer.k * layer.g * layer.p * layer.q for layer in layers)
        left_over = max(prod(stop - start for start, stop in region or whole_region(known[0])) - computed, 0)
        key = operator.name, layers, left_over
        if key not in self._known:
            read = names[source], None if weight is None else names[weight]
            precise = tuple(self._with_bits(layer, names[0], *read) for layer in layers)
            self._known[key] = Nests(precise, *read, left_over)
        return self._known[key]

    def _with_bits(self, layer: Layer, output: str, source: str, weight: str | None) -> Layer:
        bits = {name: self.network.tensor[name].bits or 8 for name in (output, source, weight) if name is not None}
        return replace(
            layer,
            input_bits=bits[source],
            weight_bits=bits[weight] if weight is not None else bits[source],
            output_bits=bits[output],
            partial_bits=max(self.partial_bits, bits[output]),
        )


def _derived(operator: Operator, shapes: Sequence[Shape], region: Region) -> Derived:
    match operator.kind:
        case kind if kind in CONVOLUTIONS or kind == "com.microsoft::FusedConv":
            weight = _weight(shapes)
            return _convolution(operator, shapes, shapes[weight], region), 1, weight
        case "ConvTranspose":
            weight = _weight(shapes)
            return tuple(_transposed(operator, shapes, shapes[weight], region)), 1, weight
        case kind if kind in POOLS:
            return _convolution(operator, shapes, None, region), 1, None
        case kind if kind in GLOBAL_POOLS and len(shapes[1]) > 2:
            *down, across = shapes[1][2:]
            batch, channels = shapes[1][:2]
            if shapes[0][:2] == shapes[1][:2]:
                batch, channels = (stop - start for start, stop in region[:2])
            return (Layer(n=batch, g=channels, r=prod(down), s=across, has_weight=False),), 1, None
        case kind if kind in REDUCTIONS and prod(shapes[1]) % prod(shapes[0]) == 0:
            added = prod(shapes[1]) // prod(shapes[0])
            outputs = prod(stop - start for start, stop in region)
            return (Layer(g=outputs, c=added, has_weight=False),), 1, None
        case "Gemm" | "com.microsoft::FusedGemm":
            return matrix(operator, shapes)
        case "HeadProducts":
            rows, columns, depth, batch = (integer(operator, name, 0) for name in ("rows", "columns", "depth", "batch"))
            return (Layer(n=rows, k=columns, c=depth, g=batch),), 1, 2
        case kind if kind in PRODUCTS:
            return matrix_product(shapes)
        case "com.microsoft::FusedMatMul":
            if integer(operator, "transBatchA", 0) or integer(operator, "transBatchB", 0):
                raise NoNest("batch")
            return matrix_product(shapes, (bool(integer(operator, "transA", 0)), bool(integer(operator, "transB", 0))))
        case "BATCH_MATMUL":
            return matrix_product(shapes, (bool(integer(operator, "adj_x", 0)), bool(integer(operator, "adj_y", 0))))
        case "FULLY_CONNECTED":
            return units(shapes)
        case kind if kind in ELEMENTWISE | SCALED:
            return element_by_element(kind, shapes, region)
        case "Einsum":
            return einsum(operator.attributes.get("equation"), shapes)
        case "LRN" if shapes[0] == shapes[1]:
            return (_window_of_channels(shapes[1], integer(operator, "size", 0)),), 1, None
    if (outside := nests_of_plugin(operator, tuple(shapes))) is not None:
        return outside.layers, outside.input, outside.weight
    raise NoNest(operator.kind)


def _window_of_channels(source: Shape, size: int) -> Layer:
    """Squares of the channels around each element are added up, as many before it as behind it or one fewer."""
    zeros = (size - 1) // 2, size // 2
    channels, pixels = source[1], prod(source[2:])
    return Layer(n=source[0], p=channels, q=pixels, r=size, padding=(zeros[0], 0, zeros[1], 0), has_weight=False)


def _weight(shapes: Sequence[Shape]) -> int:
    """Return the position of the first operand behind the input with as many dimensions as the output.

    Raises NoNest.
    """
    for place in range(2, len(shapes)):
        if len(shapes[place]) == len(shapes[0]) > 2:
            return place
    raise NoNest("weight")


def _convolution(
    operator: Operator, shapes: Sequence[Shape], weight: Shape | None, region: Region
) -> tuple[Layer, ...]:
    """Also a pool: it has no weight, and a group for each channel."""
    output, source = shapes[0], shapes[1]
    if weight is not None and len(source) != len(output):
        source = _as_seen(operator, shapes, weight)
    if len(source) != len(output):
        raise NoNest("rank")
    axes = []
    windows = sliding_windows(operator, source, weight, output)
    for outputs, window, size in zip(region[2:], windows, source[2:], strict=True):
        first, stop = window.seen(outputs)
        zeros = max(-first, 0), max(stop - size, 0)
        axes.append(_Axis(outputs[1] - outputs[0], window.taps, window.stride, window.dilation, *zeros))
    return tuple(_slices(axes, _channels(operator, source, weight, output, region)))


def _channels(operator: Operator, source: Shape, weight: Shape | None, output: Shape, region: Region) -> Layer:
    """Return the loops over batch, channels and groups. Raises NoNest."""
    batch, written = (stop - start for start, stop in region[:2])
    if weight is None:
        return Layer(n=batch, g=written, has_weight=False)
    groups = integer(operator, "group", 1)
    if groups < 1 or output[1] % groups or source[1] % groups:
        raise NoNest("group")
    width, depth = output[1] // groups, source[1] // groups
    if groups == 1:
        return Layer(n=batch, k=written, c=depth)
    if any(line % width for line in region[1]):
        raise NoNest("a part of a group")
    return Layer(n=batch, k=width, c=depth, g=written // width)


def _as_seen(operator: Operator, shapes: Sequence[Shape], weight: Shape) -> Shape:
    """Return the shape of an input that is a view of a tensor of another rank, no larger than its elements allow.

    Along each axis the shape covers the windows, and of the pixels behind them at most those that a stride skips.
    """
    output = shapes[0]
    rank = len(output) - 2
    taps = kernel_of(operator, weight, rank)
    if operator.attributes.get("auto_pad", "NOTSET") != "NOTSET":
        raise NoNest("auto_pad")
    strides, dilations = integers(operator, "strides", (1,) * rank), integers(operator, "dilations", (1,) * rank)
    pads = integers(operator, "pads", (0,) * (2 * rank))
    least = [
        (output[2 + at] - 1) * strides[at] + (taps[at] - 1) * dilations[at] + 1 - pads[at] - pads[rank + at]
        for at in range(rank)
    ]
    channels = weight[1] * integer(operator, "group", 1)
    for pixels in product(*(range(size, size + stride) for size, stride in zip(least, strides, strict=True))):
        if output[0] * channels * prod(pixels) == prod(shapes[1]):
            return (output[0], channels, *pixels)
    raise NoNest("view")


def _transposed(operator: Operator, shapes: Sequence[Shape], weight: Shape, region: Region) -> list[Layer]:
    """Return the nests of a transposed convolution: one of stride 1 per remainder of the output position by the stride.

    Remainders without outputs or taps have no nest.
    """
    output, source = shapes[0], shapes[1]
    rank = len(output) - 2
    taps = kernel_of(operator, weight, rank)
    if len(source) != len(output) or integers(operator, "dilations", (1,) * rank) != (1,) * rank:
        raise NoNest("dilations")
    if (
        operator.attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID")
        or "output_shape" in operator.attributes
    ):
        raise NoNest("auto_pad")
    strides, pads = integers(operator, "strides", (1,) * rank), integers(operator, "pads", (0,) * (2 * rank))[:rank]
    channels = _channels(operator, source, weight, output, region)
    layers: list[Layer] = []
    for remainders in product(*(range(stride) for stride in strides)):
        sizes = zip(remainders, region[2:], taps, strides, pads, source[2:], strict=True)
        axes = [_phase(*each) for each in sizes]
        if all(axis.outputs for axis in axes):
            layers.extend(_slices(axes, channels))
    return layers


def _phase(remainder: int, outputs: Range, kernel: int, stride: int, pad: int, size: int) -> _Axis:
    """Outputs o with (o + pad) % stride == remainder meet the taps remainder, remainder + stride, ...

    Such an output sees the inputs (o + pad) // stride and as many before it as there are further taps.
    """
    taps = len(range(remainder, kernel, stride))
    places = [(o + pad) // stride for o in range(*outputs) if (o + pad) % stride == remainder and o + pad >= 0]
    if not places or not taps:
        return _Axis(0, taps)
    return _Axis(len(places), taps, 1, 1, max(taps - 1 - places[0], 0), max(places[-1] + 1 - size, 0))


def _slices(axes: Sequence[_Axis], channels: Layer) -> Iterator[Layer]:
    """Yield the nests of the given axes; with three sliding axes, one 2-D nest per output along the first of them.

    The input positions that such an output sees along the first axis count as channels. Outputs that see none have no
    nest.
    """
    sliding = [at for at, axis in enumerate(axes) if axis.slides]
    if len(sliding) != 3:
        yield _over(axes, channels)
        return
    first = axes[sliding[0]]
    rest = [axis for at, axis in enumerate(axes) if at != sliding[0]]
    touched = [tap * first.dilation for tap in range(first.taps)]
    behind = (first.outputs - 1) * first.stride + touched[-1] + 1 - first.behind
    starts = [output * first.stride for output in range(first.outputs)]
    seen = [sum(first.before <= start + place < behind for place in touched) for start in starts]
    if not any(seen):
        raise NoNest("padding")
    for count in filter(None, seen):
        yield _over(rest, replace(channels, c=channels.c * count))


def _over(axes: Sequence[_Axis], channels: Layer) -> Layer:
    """Return the nest over the given axes, reduced to two dimensions; sliding axes come first.

    Axes along which nothing slides are merged into the batch, or into the second dimension if at most one axis slides.
    """
    sliding, plain = [axis for axis in axes if axis.slides], [axis.outputs for axis in axes if not axis.slides]
    batch = channels.n
    if len(axes) == 2:
        height, width = axes
    elif len(sliding) == 2:
        (height, width), batch = sliding, batch * prod(plain)
    elif len(sliding) == 1:
        height, width = (sliding[0], _Axis(prod(plain))) if plain else (_Axis(), sliding[0])
    elif not sliding:
        height, width = _Axis(prod(plain[:-1])), _Axis(plain[-1])
    else:
        raise NoNest("more than three dimensions")
    return Layer(
        n=batch,
        k=channels.k,
        c=channels.c,
        p=height.outputs,
        q=width.outputs,
        r=height.taps,
        s=width.taps,
        g=channels.g,
        stride=(height.stride, width.stride),
        dilation=(height.dilation, width.dilation),
        padding=(height.before, width.before, height.behind, width.behind),
        has_weight=channels.has_weight,
    )
