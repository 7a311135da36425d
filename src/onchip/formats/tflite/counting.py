"""How often a WHILE runs: its condition, and what hangs on its counters, computed from constants alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np

from onchip.formats.tflite.file import FileSubgraph, FileTensor, ModelFile
from onchip.formats.tflite.options import options_of
from onchip.formats.tflite.runtime import Values
from onchip.formats.tflite.types import dtype_of
from onchip.formats.unrolling import GREATEST_ITERATIONS

Known: TypeAlias = "Values | None"
"""A value, where constants alone decide it."""
_GREATEST_ELEMENTS: Final = 16
_GREATEST_STEPS: Final = 200_000
_COMPUTED: Final[Mapping[str, np.ufunc]] = MappingProxyType(
    {
        "ADD": np.add,
        "SUB": np.subtract,
        "MUL": np.multiply,
        "MINIMUM": np.minimum,
        "MAXIMUM": np.maximum,
        "LESS": np.less,
        "LESS_EQUAL": np.less_equal,
        "GREATER": np.greater,
        "GREATER_EQUAL": np.greater_equal,
        "EQUAL": np.equal,
        "NOT_EQUAL": np.not_equal,
        "LOGICAL_AND": np.logical_and,
        "LOGICAL_OR": np.logical_or,
        "LOGICAL_NOT": np.logical_not,
    }
)
"""Kinds that counters and conditions are made of, over integers and truth values."""


def trips_of(file: ModelFile, condition: FileSubgraph, body: FileSubgraph, given: Sequence[Known]) -> int | None:
    """How often a body runs whose state begins so; one more than are unrolled for whatever is more; None: unknown."""
    state, steps = list(given), 0
    for trips in range(GREATEST_ITERATIONS + 1):
        (goes_on,) = _outputs(file, condition, state) or (None,)
        if goes_on is None or goes_on.size != 1:
            return None
        if not goes_on.any():
            return trips
        state = _outputs(file, body, state)
        steps += len(condition.operators) + len(body.operators)
        if steps > _GREATEST_STEPS:
            return None
    return GREATEST_ITERATIONS + 1


def value_of(file: ModelFile, tensor: FileTensor) -> Known:
    """The value of a constant of a few integers or truth values; None for any other tensor."""
    dtype = dtype_of(tensor.element_type)
    if tensor.content is None or tensor.is_sparse or dtype is None or dtype.kind not in "biu":
        return None
    content = file.content[tensor.content.start : tensor.content.stop]
    elements = prod(tensor.shape)
    if elements > _GREATEST_ELEMENTS or len(content) != elements * dtype.itemsize:
        return None
    return np.frombuffer(content, dtype).reshape(tensor.shape)


def _outputs(file: ModelFile, graph: FileSubgraph, given: Sequence[Known]) -> list[Known]:
    """What a graph hands out if it is given this, as far as constants decide it."""
    found = {index: value for index, value in zip(graph.inputs, given, strict=False) if value is not None}
    for operator in graph.operators:
        compute = _COMPUTED.get(operator.kind)
        if compute is None or len(operator.outputs) != 1:
            continue
        operands = [_known(file, graph, index, found) for index in operator.inputs]
        known = [value for value in operands if value is not None]
        is_plain = not options_of(operator).get("fused_activation_function")
        if len(known) == len(operands) == compute.nin and is_plain and len({value.dtype for value in known}) == 1:
            found[operator.outputs[0]] = _computed(compute, known)
    return [_known(file, graph, index, found) for index in graph.outputs]


def _computed(compute: np.ufunc, operands: Sequence[Values]) -> Values:
    with np.errstate(all="ignore"):
        return np.asarray(compute(*operands))


def _known(file: ModelFile, graph: FileSubgraph, index: int, found: Mapping[int, Values]) -> Known:
    if index in found or not 0 <= index < len(graph.tensors):
        return found.get(index)
    return None if index in graph.inputs else value_of(file, graph.tensors[index])
