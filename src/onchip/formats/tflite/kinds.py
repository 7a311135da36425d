"""What an operator of TFLite is in onchip's words; one that they do not fit exactly keeps TFLite's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from onchip.formats.attributes import writable
from onchip.formats.tflite import elementwise, moving, sliding
from onchip.formats.tflite.layouts import Presentation
from onchip.formats.tflite.operands import DescribedOperator, Operands, UnlikeError
from onchip.ir.operator import SEEN_ORDERS, SEEN_SHAPES, WRITTEN_ORDERS, AttributeValue

KINDS: Final[Mapping[str, Callable[[Operands], DescribedOperator]]] = MappingProxyType(
    {
        "CONV_2D": sliding.convolution,
        "DEPTHWISE_CONV_2D": sliding.depthwise_convolution,
        "TRANSPOSE_CONV": sliding.transposed_convolution,
        "MAX_POOL_2D": sliding.pool,
        "AVERAGE_POOL_2D": sliding.pool,
        "RESIZE_BILINEAR": sliding.resize,
        "RESIZE_NEAREST_NEIGHBOR": sliding.resize,
        "DEPTH_TO_SPACE": sliding.blocks,
        "SPACE_TO_DEPTH": sliding.blocks,
        "FULLY_CONNECTED": elementwise.fully_connected,
        "BATCH_MATMUL": elementwise.matrix_product,
        "CONCATENATION": moving.concatenation,
        "SPLIT": moving.split,
        "SPLIT_V": moving.split,
        "PAD": moving.pad,
        "PADV2": moving.pad,
        "MIRROR_PAD": moving.pad,
        "SLICE": moving.sliced,
        "STRIDED_SLICE": moving.strided_slice,
        "TRANSPOSE": moving.transposition,
        "SOFTMAX": moving.softmax,
        "LOG_SOFTMAX": moving.softmax,
        **dict.fromkeys(elementwise.ELEMENTWISE, elementwise.elementwise),
        **dict.fromkeys(elementwise.REDUCTIONS, elementwise.reduction),
    }
)
"""By TFLite's kind what describes it; all others keep their kind, and run whole."""


def description_of(operands: Operands) -> DescribedOperator:
    """The operator in onchip's words where they say exactly what it does, else in TFLite's; raises InputError."""
    describe = KINDS.get(operands.operator.kind)
    if describe is not None:
        try:
            return describe(operands)
        except UnlikeError:
            pass
    return in_own_words(operands)


def in_own_words(operands: Operands) -> DescribedOperator:
    """The operator as TFLite has it: all that it reads, its constants as the file has them. Raises InputError."""
    storage = operands.storage
    read = tuple(dict.fromkeys(index for index in operands.operator.inputs if index >= 0))
    stored = [each for index in read if storage.is_constant(index) for each in storage.stored_as(index)]
    inputs = tuple(index for index in read if not storage.is_constant(index))
    stored += operands.operator.within
    parameters = tuple((each, Presentation.of(storage.tensor(each).shape)) for each in dict.fromkeys(stored))
    attributes = {name: writable(value) for name, value in operands.options.items()} | _as_in_file(operands, inputs)
    return DescribedOperator(operands.operator.kind, inputs, parameters, attributes)


def _as_in_file(operands: Operands, inputs: Sequence[int]) -> dict[str, AttributeValue]:
    """How the file has what is presented otherwise: inputs that are views or turned, and outputs that are turned."""
    storage, layouts = operands.storage, operands.layouts
    bases, outputs = [storage.base(index) for index in inputs], operands.operator.outputs
    orders, written = ([_turned_back(layouts.order(each)) for each in some] for some in (bases, outputs))
    are_direct = all(layouts.is_direct(index) for index in inputs)
    if are_direct and all(order == sorted(order) for order in (*orders, *written)):
        return {}
    shapes = [list(storage.tensor(index).shape) for index in inputs]
    return {SEEN_SHAPES: _listed(shapes), SEEN_ORDERS: _listed(orders), WRITTEN_ORDERS: _listed(written)}


def _listed(numbers: Sequence[Sequence[int]]) -> AttributeValue:
    return [list(each) for each in numbers]


def _turned_back(order: Sequence[int]) -> list[int]:
    """Where each of the file's axes is presented."""
    return [order.index(axis) for axis in range(len(order))]
