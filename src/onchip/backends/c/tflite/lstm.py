"""TFLite's long short-term memory of integers, as a kernel takes it."""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, frexp
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from onchip.backends.c.project.calls import BYTES, KernelCall, Record, TensorOperand, table
from onchip.backends.c.project.walks import copy_call
from onchip.backends.c.tflite.node import LiteNode
from onchip.backends.c.tflite.quantisation import FixedPoint, Quantisation

_INPUT_WEIGHTS: Final = (1, 2, 3, 4)
_UNIT_WEIGHTS: Final = (5, 6, 7, 8)
_BIASES: Final = (12, 13, 14, 15)
_HIDDEN, _CELL = 18, 19
_NOT_THERE: Final = (9, 10, 11, 16, 17, 20, 21, 22, 23)
"""Peepholes, a projection and layer norms, which no kernel has."""
_BEFORE_A_GATE: Final = 2.0**-12
_GATE: Final = 2.0**-15
_TANH: Final = 4
"""The schema's number of the activation."""
_ONE_MORE: Final = 0x800000000000000000000000000000800011009020440005C0467BAEFA7BD110
"""Bit i: TFLite's table of sigmoid(i / 24) in units of 2^-16 has one more there than the nearest number."""


def sigmoid_table() -> list[int]:
    """Return TFLite's table of sigmoid(i / 24) in units of 2^-16."""
    return [round(65536 / (1 + exp(-at / 24))) + (_ONE_MORE >> at & 1) for at in range(256)]


def lstm(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the calls that hand on both states, where they do not stay in place, and bring them on step by step."""
    if node.element() != "int8" or any(node.has(place) for place in _NOT_THERE):
        node.refuse(f"of {node.element()}, or with peepholes, a projection or norms")
    if node.option("fused_activation_function") != _TANH or not all(node.has(place) for place in _BIASES):
        node.refuse("without a tanh, or without biases")
    hidden, cell = (
        TensorOperand(node.next_state(place), kind) for place, kind in ((_HIDDEN, "int8_t"), (_CELL, "int16_t"))
    )
    for place, following in ((_HIDDEN, hidden), (_CELL, cell)):
        size_bytes = int(np.prod(node.shape(place))) * node.element_bytes(place)
        yield copy_call(size_bytes, TensorOperand(node.state(place), BYTES), following.tensor)
    yield KernelCall("lstm_s8", (_record(node), node.read(0, "int8"), hidden, cell, node.written("int8")))


def _record(node: LiteNode) -> Record:
    units, inputs = node.shape(1)
    first, second, _ = node.shape(0)
    is_time_major = bool(node.option("time_major"))
    batch, steps = (second, first) if is_time_major else (first, second)
    near, far = (batch, 1) if is_time_major else (1, steps)
    cell_power = frexp(node.quantisation(_CELL).scale)[1] - 1
    clip = float(node.options.get("cell_clip", 0.0)) / node.quantisation(_CELL).scale
    return Record(
        "lstm",
        (
            *(("batch", batch), ("steps", steps), ("inputs", inputs), ("units", units)),
            *(("input_batch", far * inputs), ("input_step", near * inputs)),
            *(("output_batch", far * units), ("output_step", near * units)),
            *(("input_zero", node.quantisation(0).zero), ("hidden_zero", node.quantisation(_HIDDEN).zero)),
            *(("cell_clip", int(min(clip, 32767.0))), ("cell_shift", 15 + cell_power - 3)),
            ("of_input", _of_gates(node, node.quantisation(0), _INPUT_WEIGHTS)),
            ("of_units", _of_gates(node, node.quantisation(_HIDDEN), _UNIT_WEIGHTS)),
            *_between_gates(node),
            ("sigmoid", table("sigmoid", sigmoid_table(), "uint16")),
            ("input_weights", table(f"{node.operator} input weights", _joined(node, _INPUT_WEIGHTS), "int8")),
            ("unit_weights", table(f"{node.operator} unit weights", _joined(node, _UNIT_WEIGHTS), "int8")),
            ("biases", table(f"{node.operator} biases", _joined(node, _BIASES), "int32")),
        ),
    )


def _of_gates(node: LiteNode, read: Quantisation, places: tuple[int, ...]) -> tuple[Record, ...]:
    """What brings a gate's sum of products to units of 2^-12."""
    joint = (float(np.float32(read.scale) * np.float32(node.quantisation(place).scale)) for place in places)
    return tuple(FixedPoint.of(one / _BEFORE_A_GATE).rescaling(0) for one in joint)


def _between_gates(node: LiteNode) -> tuple[tuple[str, Record], ...]:
    cell, hidden = node.quantisation(_CELL), node.quantisation(_HIDDEN)
    return (
        ("kept", FixedPoint.of(_GATE * cell.scale / cell.scale).rescaling(0)),
        ("added", FixedPoint.of(_GATE * _GATE / cell.scale).rescaling(0)),
        ("said", FixedPoint.of(_GATE * _GATE / hidden.scale).rescaling(hidden.zero)),
    )


def _joined(node: LiteNode, places: tuple[int, ...]) -> npt.NDArray[Any]:
    return np.concatenate([node.constant(place).reshape(-1) for place in places])
