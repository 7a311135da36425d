"""Constant tensors of a model, the values of the small ones, and the results of type inference."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Final

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.helper import get_attribute_value

from onchip.errors import GraphError
from onchip.formats.onnx.file import LARGEST_VALUE_ELEMENTS
from onchip.formats.onnx.nodes import DEFAULT_DOMAINS, Types, kind_of, static_shape

_RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
_FACTS_OF_A_SHAPE = {"Shape", "Size"}
_EXPANDING = {
    "AffineGrid",
    "BlackmanWindow",
    "CenterCropPad",
    "Col2Im",
    "ConstantOfShape",
    "Expand",
    "EyeLike",
    "HammingWindow",
} | {"HannWindow", "MaxUnpool", "MelWeightMatrix", "OneHot", "Pad", "Range", "Resize", "Tile", "Upsample"}
"""Kinds whose output size is set by the value of a small operand."""
_QUANTISING = {"QuantizeLinear", "DequantizeLinear"}
_FIRST_EVALUATED = 19
"""First version of quantisation in ONNX's evaluator; for 8-bit integers earlier versions compute the same."""
_GREATEST_STEPS, _GREATEST_RUNS = 5_000_000, 5_000
"""Limits on the search for values and their evaluation, against networks that are made to take long."""
_DATA_FIELDS = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")


class Constants:
    """The constant tensors of a model; values are computed only when a shape depends on them."""

    def __init__(self, model: onnx.ModelProto, types: Types) -> None:
        self._model = model
        self._types = types
        self.names: set[str] = set()
        """Names of all constants, also of those whose value is not kept."""
        self._values: dict[str, TensorProto] = {}
        self._makers: dict[str, onnx.NodeProto] = {}
        self._position: dict[str, int] = {}
        self._failed: set[str] = set()
        self._steps = 0
        self._runs = 0

    @property
    def opset(self) -> int:
        """Version of ONNX's own operators that the model requires."""
        return max((one.version for one in self._model.opset_import if one.domain in DEFAULT_DOMAINS), default=1)

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def add_tensor(self, name: str, tensor: TensorProto) -> None:
        """Add a constant that the file states."""
        self.names.add(name)
        elements = prod(tensor.dims)
        is_small = elements <= LARGEST_VALUE_ELEMENTS and any(len(getattr(tensor, field)) for field in _DATA_FIELDS)
        if not elements or (is_small and _is_whole(tensor)):
            self._values[name] = renamed(tensor, name)

    def are_computed_by(self, node: onnx.NodeProto) -> bool:
        """Return True if the outputs of `node` are constants; the shape of a static tensor is a constant."""
        kind = kind_of(node)
        if kind in _FACTS_OF_A_SHAPE and any(node.input[:1]):
            return True
        return kind not in _RANDOM and all(name in self.names for name in node.input if name)

    def add_node(self, node: onnx.NodeProto) -> None:
        """Add a node whose outputs are constants."""
        is_fact = kind_of(node) in _FACTS_OF_A_SHAPE and any(node.input[:1])
        if is_fact and (shape := static_shape(self._types[node.input[0]])) is not None:
            bounds = {attribute.name: attribute.i for attribute in node.attribute}
            part = shape[bounds.get("start", 0) : bounds.get("end", len(shape))]
            fact = np.array(prod(shape) if kind_of(node) == "Size" else part, np.int64)
            self.add_tensor(node.output[0], numpy_helper.from_array(fact))
        elif kind_of(node) == "Constant" and (stated := _stated_value(node)) is not None:
            self.add_tensor(node.output[0], stated)
        else:
            for output in filter(None, node.output):
                self.names.add(output)
                self._position[output] = len(self._makers)
                self._makers[output] = node

    def known_value(self, name: str) -> TensorProto | None:
        """Return the value of a small constant if no evaluation is necessary."""
        return self._values.get(name)

    def value(self, name: str) -> TensorProto | None:
        """Return the value of a small constant, computed if necessary; None if it is not available."""
        if name not in self._values and name in self._makers and name not in self._failed:
            for maker in self._needed_for(name):
                self._compute(maker)
            if name not in self._values:
                self._failed.add(name)
        return self._values.get(name)

    def integers(self, node: onnx.NodeProto, place: int) -> list[int] | None:
        """Return the integers of a constant operand of a node; None if it is absent or not available."""
        name = node.input[place] if place < len(node.input) else ""
        value = self.value(name) if name else None
        if value is None or (array := numpy_helper.to_array(value)).dtype.kind not in "biuf":
            return None
        return [int(number) for number in array.reshape(-1)]

    def _needed_for(self, name: str) -> list[onnx.NodeProto]:
        """Return the nodes to evaluate, in order; empty if an operand is missing or too large."""
        needed: dict[str, int] = {}
        waiting = [name]
        while waiting:
            wanted = waiting.pop()
            if wanted in self._values or wanted in needed:
                continue
            self._steps += 1
            shape = static_shape(self._types[wanted]) if wanted in self._types else None
            is_large = shape is not None and prod(shape) > LARGEST_VALUE_ELEMENTS
            is_lost = wanted not in self._makers or wanted in self._failed or is_large
            if is_lost or self._steps > _GREATEST_STEPS:
                return []
            needed[wanted] = self._position[wanted]
            waiting.extend(filter(None, self._makers[wanted].input))
        nodes = {id(self._makers[output]): self._makers[output] for output in sorted(needed, key=needed.__getitem__)}
        return list(nodes.values())

    def _compute(self, node: onnx.NodeProto) -> None:
        """Evaluate a node whose operands are known, and keep its outputs if they are small."""
        outputs = [output for output in node.output if output]
        operands = [operand for operand in node.input if operand]
        self._runs += 1
        if self._runs > _GREATEST_RUNS or not all(operand in self._values for operand in operands):
            return
        if any(output not in self._types for output in outputs) and not self._has_bounded_output(node):
            return
        values = self._evaluated(node, {operand: self._values[operand] for operand in operands})
        for output, value in zip(outputs, values, strict=False):
            self.add_tensor(output, value)

    def evaluated(self, node: onnx.NodeProto, operands: Mapping[str, TensorProto]) -> list[TensorProto]:
        """Return the outputs of one node for these values of its operands; empty if they cannot be computed."""
        self._runs += 1
        return self._evaluated(node, operands) if self._runs <= _GREATEST_RUNS else []

    def _evaluated(self, node: onnx.NodeProto, operands: Mapping[str, TensorProto]) -> list[TensorProto]:
        opsets = list(self._model.opset_import)
        if kind_of(node) in _QUANTISING and self.opset < _FIRST_EVALUATED:
            opsets = [onnx.helper.make_opsetid("", _FIRST_EVALUATED)]
        program = onnx.ModelProto(ir_version=self._model.ir_version, opset_import=opsets)
        program.graph.name = "constant"
        program.graph.node.append(node)
        program.graph.initializer.extend(operands.values())
        for output in filter(None, node.output):
            program.graph.output.add(name=output)
        return _run(program)

    def _has_bounded_output(self, node: onnx.NodeProto) -> bool:
        """Return True if a node with unknown output size cannot write much more than it reads."""
        if kind_of(node) == "Range" and len(node.input) == 3 and all(node.input):
            start, limit, delta = (numpy_helper.to_array(self._values[operand]) for operand in node.input)
            with np.errstate(all="ignore"):
                length = (limit.astype(np.float64) - start) / delta.astype(np.float64)
            return bool(length.size == 1 and np.all(length <= LARGEST_VALUE_ELEMENTS))
        return kind_of(node) not in _EXPANDING


def renamed(tensor: TensorProto, name: str) -> TensorProto:
    """Return a copy of the tensor by another name."""
    named = TensorProto()
    named.CopyFrom(tensor)
    named.name = name
    return named


def _is_whole(tensor: TensorProto) -> bool:
    """Return True if the amount of data in the tensor matches its shape."""
    try:
        numpy_helper.to_array(tensor)
    except Exception:  # onnx and numpy raise several types for damaged data
        return False
    return True


def _run(program: onnx.ModelProto) -> list[TensorProto]:
    """Return the outputs; empty if the evaluator fails."""
    # Only networks that compute their shapes need the evaluator.
    from onnx.reference import ReferenceEvaluator

    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            arrays = ReferenceEvaluator(program).run(None, {})
        return [numpy_helper.from_array(np.asarray(array)) for array in arrays]
    except Exception:  # the evaluator lacks the operator; the reader of the value reports it
        return []


_STATED: Final = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32}


def _stated_value(node: onnx.NodeProto) -> TensorProto | None:
    """Return the value of a Constant node; None for strings and sparse tensors."""
    for attribute in node.attribute:
        if attribute.name == "value":
            stated: TensorProto = attribute.t
            return stated
        if attribute.name in _STATED:
            value = np.array(get_attribute_value(attribute), _STATED[attribute.name])
            return numpy_helper.from_array(value, node.output[0])
    return None


@dataclass(frozen=True, slots=True)
class KeptNode:
    """A node with a graph; its last `captured` inputs are outer tensors that the graph reads.

    `bounded` are outputs whose shape is an upper bound.
    """

    captured: int
    workspace_bytes: int
    bounded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelTypes:
    """Results of type inference: constants, the outputs of each node that are tensors, and their types.

    An unread optional output is not a tensor. `unknown` maps a tensor whose type could not be inferred to its error,
    which is raised only if the tensor is needed. The shape of a tensor in `bounded` is an upper bound, because it
    follows from values. `kept` are loops that are not unrolled, by their first output. A tensor without elements is a
    constant.
    """

    static: Types
    unknown: Mapping[str, GraphError]
    constants: Constants
    outputs: tuple[tuple[str, ...], ...]
    bounded: frozenset[str] = frozenset()
    kept: Mapping[str, KeptNode] = field(default_factory=dict)
    variable_axes: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Map from each tensor in `bounded` to the axes that may be smaller; an absent tensor has all axes."""

    def kept_as(self, node: onnx.NodeProto) -> KeptNode | None:
        """Return the properties of a node that is a loop; None for any other node."""
        return next((self.kept[name] for name in node.output if name in self.kept), None)

    def is_empty(self, name: str) -> bool:
        """Return True if the tensor is known to have no elements; it needs no memory and no transfers."""
        shape = static_shape(self.static[name]) if name in self.static else None
        return shape is not None and 0 in shape

    def shape_and_element_type(self, name: str) -> tuple[tuple[int, ...], int]:
        """Return shape and element type; raises GraphError, naming the writer, for a tensor of unknown size."""
        if name in self.unknown:
            raise self.unknown[name]
        kind = self.static[name]
        return static_shape(kind) or (), kind.tensor_type.elem_type
