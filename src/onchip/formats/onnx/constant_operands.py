"""What newer versions of ONNX hand to a node as constants, and older ones stated as attributes: they are attributes.

How a slice, a pad or a reduction lies in its input follows from these; values that are computed while the network runs
are known to nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import onnx
from onnx import numpy_helper

from onchip.formats.onnx.model_types import ModelTypes
from onchip.formats.onnx.nodes import kind_of
from onchip.ir.operator import OF_ONE_AXIS, AttributeValue

_REDUCTIONS: Final = (
    *("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "ReduceProd", "ReduceL1", "ReduceL2"),
    *("ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"),
)
_NAMED: Final[Mapping[str, Mapping[int, str]]] = {
    "Slice": {1: "starts", 2: "ends", 3: "axes", 4: "steps"},
    "Pad": {1: "pads", 3: "axes"},
    "Resize": {2: "scales", 3: "sizes"},
    "Upsample": {1: "scales"},
    "Tile": {1: "repeats"},
    "TopK": {1: "k"},
    "Split": {1: "split"},
    "CumSum": {1: "axis"},
    "STFT": {1: "frame_step", 3: "frame_length"},
    **{kind: {1: "axes"} for kind in _REDUCTIONS},
}
"""By kind the attribute that an input, by its place, stands for."""
_OF_LAST_AXIS: Final = ("Softmax", "LogSoftmax", "Hardmax")
_FIRST_OF_LAST_AXIS: Final = 13


def constant_attributes(node: onnx.NodeProto, types: ModelTypes) -> dict[str, AttributeValue]:
    """Return the attributes that constant inputs of a node stand for, and those whose default the version says."""
    found: dict[str, AttributeValue] = {}
    for place, name in _NAMED.get(kind_of(node), {}).items():
        operand = node.input[place] if place < len(node.input) else ""
        value = types.constants.value(operand) if operand in types.constants else None
        if value is not None:
            found[name] = numpy_helper.to_array(value).reshape(-1).tolist()
    if kind_of(node) == "Pad" and "axes" in found:
        _pad_every_axis(node, types, found)
    if kind_of(node) in _OF_LAST_AXIS:
        is_of_one_axis = types.constants.opset >= _FIRST_OF_LAST_AXIS
        found |= {"axis": -1, OF_ONE_AXIS: True} if is_of_one_axis else {"axis": 1}
    return found


def _pad_every_axis(node: onnx.NodeProto, types: ModelTypes, found: dict[str, AttributeValue]) -> None:
    """Pads of some axes as those of all."""
    axes, pads = found.pop("axes"), found.get("pads")
    rank = len(types.shape_and_element_type(node.input[0])[0])
    if not isinstance(axes, list) or not isinstance(pads, list) or len(pads) != 2 * len(axes):
        return
    every: list[AttributeValue] = [0] * (2 * rank)
    for at, axis in enumerate(axes):
        if isinstance(axis, int):
            every[axis % rank], every[rank + axis % rank] = pads[at], pads[len(axes) + at]
    found["pads"] = every
