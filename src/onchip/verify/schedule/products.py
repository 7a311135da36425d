"""Products of matrices and operators element by element as loop nests (docs/formats.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Final

from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.region import Region, whole_region
from onchip.ir.window import product_of, stated_factors
from onchip.verify.schedule.windows import Shape


class NoNest(Exception):  # noqa: N818 (no error: it says why an operator is no loop nest)
    """Raised with the reason why an operator is no loop nest."""


ROWS_TIMES_MATRIX: Final = frozenset({"MatMul", "MatMulInteger", "QLinearMatMul", "Gemm", "FULLY_CONNECTED"})
OF_TWO_OPERANDS: Final = frozenset({"Add", "Sub", "Mul", "Div", "Pow", "PRelu"})
Derived = tuple[tuple[Layer, ...], int, int | None]
"""The nests, and where the input and the weight stand among the operands, the output at place 0."""


def matrix(operator: Operator, shapes: Sequence[Shape]) -> Derived:
    """Return the nest of a Gemm: rows N, columns K, and features C, which follow from the weight. Raises NoNest.

    If the input fits only the product in the other order, the weight is the left factor, and its rows are K. An export
    may list the factors; if these are batches, or the input is neither factor, the other operand is an addend.
    """
    factors = stated_factors(operator)
    if any(len(shape) > 2 for shape in factors) or (factors and prod(shapes[1]) not in [prod(one) for one in factors]):
        return _beside_an_addend(factors, shapes)
    output, weight = shapes[0], _place_of_matrix(operator, shapes)
    if weight is None or not output:
        raise NoNest("weight")
    rows, columns, size, features = prod(output[:-1]), output[-1], prod(shapes[weight]), prod(shapes[1])
    if size * columns == features * rows and size * rows != features * columns and size % rows == 0:
        return (Layer(n=columns, k=rows, c=features // columns),), 1, weight
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
    return layers, alike[0][source - 1], None if weight is None else alike[0][weight - 1]


def _place_of_matrix(operator: Operator, shapes: Sequence[Shape]) -> int | None:
    """Return the position of the weight: 3 if operand 2 is an addend and only operand 3 fits, else the first matrix."""
    first = next((place for place in range(2, len(shapes)) if len(shapes[place]) > 1), None)
    fits = [product_of(operator, shapes[1], shape, shapes[0], is_model=True) is not None for shape in shapes[2:4]]
    return 3 if fits == [False, True] and len(operator.inputs) == 2 else first


def units(shapes: Sequence[Shape]) -> Derived:
    """Return the nest of a FULLY_CONNECTED: units K, features C, which the weight lists. Raises NoNest."""
    weight = next((place for place in range(2, len(shapes)) if len(shapes[place]) > 1), None)
    if weight is None:
        raise NoNest("weight")
    *_, columns, features = shapes[weight]
    layer = Layer(n=prod(shapes[1]) // features, k=columns, c=features)
    if layer.n * columns != prod(shapes[0]) or layer.n * features != prod(shapes[1]):
        raise NoNest("features")
    return (layer,), 1, weight


def matrix_product(shapes: Sequence[Shape], transposes: tuple[bool, bool] = (False, False)) -> Derived:
    """Return the nest of a MatMul: matrices that a batch shares are the weight, a batch of both is groups.

    `transposes` says which factor is transposed. Parameters stand behind inputs, so the factors are exchanged if only
    then they make the output. Raises NoNest.
    """
    first = shapes[1]
    second = next((at for at in range(2, len(shapes)) if len(shapes[at]) > 1 or shapes[at] == first[-1:]), None)
    if second is None or not first:
        raise NoNest("matrices")
    left, right = _transposed(first, transposes[0]), _transposed(shapes[second], transposes[1])
    if not _multiply(left, right, shapes[0]):
        other_left, other_right = _transposed(shapes[second], transposes[0]), _transposed(first, transposes[1])
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


def _transposed(shape: Shape, turns: bool) -> Shape:
    return (*shape[:-2], shape[-1], shape[-2]) if turns else shape


def _multiply(left: Shape, right: Shape, output: Shape) -> bool:
    """Return True if the factors have the same number of features, and their product has the output's elements."""
    left = (1, *left) if len(left) == 1 else left
    right = (*right, 1) if len(right) == 1 else right
    if left[-1] != right[-2]:
        return False
    rank = max(len(left), len(right)) - 2
    padded = [(1,) * (rank + 2 - len(shape)) + shape for shape in (left, right)]
    batch = prod(max(sizes) for sizes in zip(padded[0][:rank], padded[1][:rank], strict=True))
    return batch * left[-2] * right[-1] == prod(output)


def _left_weight(weight: Shape, source: Shape, place: int) -> Derived:
    """Return the nest of a left factor that is listed at `place`, behind the right one."""
    weight = (1, *weight) if len(weight) == 1 else weight
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
        if not others:
            raise NoNest("operands")
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
    met = _met_by(shapes[others[0]], output, extents)
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
    """Return the positions of the element-wise operands, the larger first."""
    if kind == "BatchNormalization":
        return [1, 2]
    larger = [place for place in range(1, len(shapes)) if prod(shapes[place]) != 1]
    if kind in OF_TWO_OPERANDS:
        larger = larger[:2]
    if len(larger) > 1:
        return sorted(larger, key=lambda place: -prod(shapes[place]))
    return sorted(range(1, len(shapes)), key=lambda place: -prod(shapes[place]))[: 1 + (len(shapes) == 3)]


def _spread(first: Shape, second: Shape) -> tuple[int, int, int]:
    """Return the elements of the axes that only the first shape has, only the second has, and both have.

    Raises NoNest.
    """
    rank = max(len(first), len(second))
    alone, others, shared = 1, 1, 1
    for at in range(1, rank + 1):
        one = first[-at] if at <= len(first) else 1
        other = second[-at] if at <= len(second) else 1
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
    other order, too, the operator has to state that its weight is the right factor.
    """
    if operator.kind not in ROWS_TIMES_MATRIX or len(operator.inputs) != 1 or operator.attributes.get("transA"):
        return False
    source, written = shapes[operator.inputs[0]], shapes[operator.outputs[0]]
    matrices = [shape for name in operator.parameters if len(shape := shapes[name]) == 2 and min(shape) > 1]
    others = [prod(shapes[name]) for name in operator.parameters if shapes[name] not in matrices]
    has_rows = len(source) == len(written) in (2, 3, 4) and source[:-1] == written[:-1]
    if len(matrices) != 1 or not has_rows:
        return False
    (matrix,) = matrices
    if sorted(matrix) != sorted((source[-1], written[-1])) or any(size not in (1, written[-1]) for size in others):
        return False
    fits_exchanged = (*matrix, source[-1]) == (written[-2], source[-2], written[-1])
    is_stated = operator.attributes.get("weight_factor") == "right"
    return not fits_exchanged or is_stated or operator.kind == "FULLY_CONNECTED"


def multiplies_matrices(operator: Operator, shapes: Mapping[str, Shape]) -> bool:
    """Return True if the output is the product of both inputs, in this order, head by head."""
    if operator.kind != "MatMul" or operator.parameters or stated_factors(operator):
        return False
    if len(operator.inputs) != 2 or operator.inputs[0] == operator.inputs[1]:
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

    Heads are in G if both factors have them. Raises NoNest.
    """
    if region == whole_region(output):
        return layers
    (layer,) = layers
    rows, every = region[-2][1] - region[-2][0], output[-2]
    heads, all_heads = (region[1][1] - region[1][0], output[1]) if len(output) == 4 else (1, 1)
    if region[-1] != (0, output[-1]) or len(output) not in (2, 3, 4):
        raise NoNest("columns")
    n, g = layer.n * rows, layer.g
    if layer.g > 1:
        g *= heads
        all_of_n, all_of_g = every, all_heads
    else:
        n *= heads
        all_of_n, all_of_g = every * all_heads, 1
    if n % all_of_n or g % all_of_g:
        raise NoNest("rows")
    return (replace(layer, n=n // all_of_n, g=g // all_of_g),)
