"""Operators that move elements and compute nothing, and those along one axis, in onchip's words."""

from __future__ import annotations

from onchip.formats.tflite.operands import DescribedOperator, Operands, Presented, UnlikeError
from onchip.ir.operator import OF_ONE_AXIS, AttributeValue


def concatenation(operands: Operands) -> DescribedOperator:
    """CONCATENATION along an axis. Raises UnlikeError."""
    rank, order = len(operands.written), operands.written_order
    if not rank:
        raise UnlikeError
    inputs: list[int] = []
    parameters: Presented = ()
    for place in operands.places:
        if operands.is_constant(place):
            parameters += operands.parameter(place, order if len(operands.shape(place)) == rank else None)
        elif operands.order(place) == order:
            inputs.append(operands.activation(place))
        else:
            raise UnlikeError
    axis = order.index(operands.option("axis") % rank)
    return DescribedOperator("Concat", tuple(inputs), parameters, {"axis": axis, **operands.fused})


def split(operands: Operands) -> DescribedOperator:
    """SPLIT, whose axis comes first, and SPLIT_V, whose axis comes last. Raises UnlikeError."""
    data, axis = (1, 0) if operands.operator.kind == "SPLIT" else (0, 2)
    order, (along,) = operands.order(data), _only(operands.settings(axis))
    parts = operands.operator.outputs
    if not order or any(operands.layouts.order(part) != order for part in parts):
        raise UnlikeError
    along %= len(order)
    sizes = [operands.storage.tensor(part).shape[along] for part in parts]
    return DescribedOperator("Split", (operands.activation(data),), (), {"axis": order.index(along), "split": [*sizes]})


def pad(operands: Operands) -> DescribedOperator:
    """PAD by zeros, PADV2 by a constant, MIRROR_PAD; a map's in a map's order. Raises UnlikeError."""
    source, written, order = operands.shape(0), operands.written, operands.order(0)
    pads = operands.settings(1)
    if len(pads) != 2 * len(source) or order != operands.written_order:
        raise UnlikeError
    if any(size + sum(pads[2 * at : 2 * at + 2]) != written[at] for at, size in enumerate(source)):
        raise UnlikeError
    before, behind = [pads[2 * at] for at in order], [pads[2 * at + 1] for at in order]
    attributes: dict[str, AttributeValue] = {"mode": "constant", "pads": [*before, *behind]}
    if operands.operator.kind == "MIRROR_PAD":
        attributes["mode"] = "symmetric" if operands.option("mode") else "reflect"
    if operands.is_there(2) and not operands.is_constant(2):
        raise UnlikeError
    return DescribedOperator("Pad", (operands.activation(0),), (), attributes)


def sliced(operands: Operands) -> DescribedOperator:
    """SLICE from where to how many. Raises UnlikeError."""
    source, order = operands.shape(0), operands.order(0)
    begins, sizes = operands.settings(1), operands.settings(2)
    if not len(begins) == len(sizes) == len(source) or min(begins, default=0) < 0:
        raise UnlikeError
    ends = [whole if size < 0 else begin + size for begin, size, whole in zip(begins, sizes, source, strict=True)]
    return _cut(operands, order, list(begins), ends, [1] * len(source))


def strided_slice(operands: Operands) -> DescribedOperator:
    """STRIDED_SLICE forwards, that leaves every axis. Raises UnlikeError."""
    source, order = operands.shape(0), operands.order(0)
    begins, ends, steps = (list(operands.settings(place)) for place in (1, 2, 3))
    masks = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "offset")
    if any(map(operands.option, masks)) or not len(begins) == len(ends) == len(steps) <= len(source):
        raise UnlikeError
    begins += [0] * (len(source) - len(begins))
    steps += [1] * (len(source) - len(steps))
    ends += source[len(ends) :]
    for at, size in enumerate(source):
        if operands.option("begin_mask") >> at & 1:
            begins[at] = 0
        if operands.option("end_mask") >> at & 1:
            ends[at] = size
        begins[at] = min(begins[at] + size if begins[at] < 0 else begins[at], size)
        ends[at] = min(ends[at] + size if ends[at] < 0 else ends[at], size)
    return _cut(operands, order, begins, ends, steps)


def _cut(
    operands: Operands, order: tuple[int, ...], begins: list[int], ends: list[int], steps: list[int]
) -> DescribedOperator:
    if order != operands.written_order or min(steps, default=1) < 1 or min(begins, default=0) < 0:
        raise UnlikeError
    sizes = tuple(-(-(end - begin) // step) for begin, end, step in zip(begins, ends, steps, strict=True))
    if sizes != operands.written:
        raise UnlikeError
    attributes: dict[str, AttributeValue] = {
        "axes": [*range(len(order))],
        "starts": [begins[at] for at in order],
        "ends": [ends[at] for at in order],
        "steps": [steps[at] for at in order],
    }
    return DescribedOperator("Slice", (operands.activation(0),), (), attributes)


def transposition(operands: Operands) -> DescribedOperator:
    """TRANSPOSE; one that changes no more than the presented order already does keeps its kind. Raises UnlikeError."""
    moved, source, written = operands.settings(1), operands.order(0), operands.written_order
    axes = list(range(len(source)))
    if sorted(moved) != axes or len(written) != len(source):
        raise UnlikeError
    if tuple(operands.shape(0)[at] for at in moved) != operands.written:
        raise UnlikeError
    order = [source.index(moved[at]) for at in written]
    if order == axes and list(moved) != axes:
        raise UnlikeError
    return DescribedOperator("Transpose", (operands.activation(0),), (), {"perm": [*order]})


def softmax(operands: Operands) -> DescribedOperator:
    """SOFTMAX and LOG_SOFTMAX along the file's last axis. Raises UnlikeError."""
    order = operands.order(0)
    if not order or order != operands.written_order:
        raise UnlikeError
    kind = "Softmax" if operands.operator.kind == "SOFTMAX" else "LogSoftmax"
    return DescribedOperator(
        kind, (operands.activation(0),), (), {"axis": order.index(len(order) - 1), OF_ONE_AXIS: True}
    )


def _only(numbers: tuple[int, ...]) -> tuple[int, ...]:
    if len(numbers) != 1:
        raise UnlikeError
    return numbers
