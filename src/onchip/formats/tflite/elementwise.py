"""Operators element by element, reductions and matrix products in onchip's words."""

from __future__ import annotations

from typing import Final

from onchip.formats.tflite.layouts import CHANNELS_FIRST, MAP_RANK
from onchip.formats.tflite.operands import DescribedOperator, Operands, Presented, Shape, UnlikeError
from onchip.ir.operator import AttributeValue

ELEMENTWISE: Final = {
    "ADD": "Add",
    "SUB": "Sub",
    "MUL": "Mul",
    "DIV": "Div",
    "POW": "Pow",
    "MAXIMUM": "Max",
    "MINIMUM": "Min",
    "ADD_N": "Sum",
    "ABS": "Abs",
    "EXP": "Exp",
    "LOG": "Log",
    "NEG": "Neg",
    "SQRT": "Sqrt",
    "RELU": "Relu",
    "RELU6": "Clip",
    "RELU_N1_TO_1": "Clip",
    "RELU_0_TO_1": "Clip",
    "LEAKY_RELU": "LeakyRelu",
    "ELU": "Elu",
    "LOGISTIC": "Sigmoid",
    "TANH": "Tanh",
    "HARD_SWISH": "HardSwish",
    "GELU": "Gelu",
    "PRELU": "PRelu",
    "FLOOR": "Floor",
    "CEIL": "Ceil",
    "ROUND": "Round",
    "SIN": "Sin",
    "COS": "Cos",
    "CAST": "Cast",
    "QUANTIZE": "QuantizeLinear",
    "DEQUANTIZE": "DequantizeLinear",
    "EQUAL": "Equal",
    "GREATER": "Greater",
    "GREATER_EQUAL": "GreaterOrEqual",
    "LESS": "Less",
    "LESS_EQUAL": "LessOrEqual",
    "LOGICAL_AND": "And",
    "LOGICAL_OR": "Or",
    "LOGICAL_NOT": "Not",
    "SELECT_V2": "Where",
}
"""TFLite's kinds that compute each element of the output from one of each operand, and ONNX's words for them."""
REDUCTIONS: Final = {
    "MEAN": "ReduceMean",
    "SUM": "ReduceSum",
    "REDUCE_MAX": "ReduceMax",
    "REDUCE_MIN": "ReduceMin",
    "REDUCE_PROD": "ReduceProd",
}
_LIMITS: Final = {"RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0), "RELU_0_TO_1": (0.0, 1.0)}
_OF_ALL_PIXELS: Final = {"MEAN": "GlobalAveragePool", "REDUCE_MAX": "GlobalMaxPool"}
_ROWS_AND_COLUMNS: Final = {1, 2}


def elementwise(operands: Operands) -> DescribedOperator:
    """Broadcast as numpy does, along the last axes of the file. Raises UnlikeError."""
    kind = operands.operator.kind
    inputs: list[int] = []
    parameters: list[Presented] = []
    for place in operands.places:
        shape = operands.shape(place)
        if not _is_broadcast(shape, operands.written):
            raise UnlikeError
        if operands.is_constant(place):
            parameters.append(_beside_maps(operands, place) if operands.writes_maps else operands.parameter(place))
        else:
            inputs.append(_like_the_output(operands, place))
    if not inputs:
        raise UnlikeError
    attributes: dict[str, AttributeValue] = dict(operands.fused)
    if kind in _LIMITS:
        attributes |= dict(zip(("min", "max"), _LIMITS[kind], strict=True))
    if kind == "LEAKY_RELU":
        attributes["alpha"] = float(operands.options.get("alpha", 0.0))
    return DescribedOperator(
        ELEMENTWISE[kind], tuple(inputs), tuple(one for each in parameters for one in each), attributes
    )


def _like_the_output(operands: Operands, place: int) -> int:
    index = operands.activation(place)
    shape = operands.shape(place)
    if len(shape) == len(operands.written):
        if operands.order(place) != operands.written_order:
            raise UnlikeError
    elif operands.writes_maps and shape:
        raise UnlikeError
    return index


def _beside_maps(operands: Operands, place: int) -> Presented:
    """A constant beside maps: the file's last axis is the channels, which are not the last of a map."""
    shape = operands.shape(place)
    if not shape:
        return operands.parameter(place)
    missing = MAP_RANK - len(shape)
    order = tuple(at - missing for at in CHANNELS_FIRST if at >= missing)
    filled = ((1,) * missing + shape)[:MAP_RANK]
    return operands.parameter(place, order, tuple(filled[at] for at in CHANNELS_FIRST))


def _is_broadcast(shape: Shape, written: Shape) -> bool:
    along = written[len(written) - len(shape) :]
    return len(shape) <= len(written) and all(size in (1, of) for size, of in zip(shape, along, strict=True))


def reduction(operands: Operands) -> DescribedOperator:
    """MEAN, SUM and the like over axes that the file states; of all pixels of a map, a pool. Raises UnlikeError."""
    kind, source = operands.operator.kind, operands.shape(0)
    order = operands.order(0)
    axes = {axis % len(source) for axis in operands.settings(1)} if source else set()
    keeps = bool(operands.option("keep_dims"))
    left = tuple(1 if at in axes else size for at, size in enumerate(source) if keeps or at not in axes)
    if not axes or left != operands.written:
        raise UnlikeError
    if order == CHANNELS_FIRST and keeps and axes == _ROWS_AND_COLUMNS and kind in _OF_ALL_PIXELS:
        return DescribedOperator(_OF_ALL_PIXELS[kind], (operands.map(0),))
    attributes: dict[str, AttributeValue] = {"axes": [*sorted(map(order.index, axes))], "keepdims": int(keeps)}
    return DescribedOperator(REDUCTIONS[kind], (operands.activation(0),), (), attributes)


def fully_connected(operands: Operands) -> DescribedOperator:
    """FULLY_CONNECTED: rows of features times a matrix of a row for each unit. Raises UnlikeError."""
    source, weight, written = operands.shape(0), operands.shape(1), operands.written
    if operands.option("weights_format") or len(weight) != 2 or not written or written[-1] != weight[0]:
        raise UnlikeError
    index = operands.operator.inputs[0]
    if operands.is_constant(0) or (len(written) == MAP_RANK and not _is_plain(operands, index)):
        raise UnlikeError
    if _elements(source) // weight[1] * weight[0] != _elements(written) or _elements(source) % weight[1]:
        raise UnlikeError
    attributes: dict[str, AttributeValue] = {"transB": 1, **operands.fused}
    if operands.is_constant(1):
        parameters = (*operands.parameter(1), *operands.optional_parameter(2))
        return DescribedOperator("Gemm", (index,), parameters, attributes)
    return DescribedOperator("Gemm", (index, operands.activation(1)), operands.optional_parameter(2), attributes)


def _is_plain(operands: Operands, index: int) -> bool:
    return operands.layouts.is_direct(index) and operands.order(0) == tuple(range(MAP_RANK))


def _elements(shape: Shape) -> int:
    elements = 1
    for size in shape:
        elements *= size
    return elements


def matrix_product(operands: Operands) -> DescribedOperator:
    """BATCH_MATMUL whose operands stand as the product reads them, or a constant that is. Raises UnlikeError."""
    shapes = [operands.shape(place) for place in (0, 1)]
    if min(map(len, shapes)) < 2 or operands.writes_maps:
        raise UnlikeError
    inputs: list[int] = []
    parameters: Presented = ()
    for place, turned in ((0, operands.option("adj_x")), (1, operands.option("adj_y"))):
        *batch, rows, columns = range(len(shapes[place]))
        if operands.is_constant(place):
            parameters += operands.parameter(place, (*batch, columns, rows) if turned else None)
        elif turned or operands.order(place) != (*batch, rows, columns):
            raise UnlikeError
        else:
            inputs.append(operands.activation(place))
    if not inputs or (parameters and operands.is_constant(0)):  # a parameter stands behind what is read
        raise UnlikeError
    return DescribedOperator("MatMul", tuple(inputs), parameters)
