"""Parts of a model as models of their own, the values of their constants, and onnxruntime to run them.

onnxruntime is imported only to run a model. It uses one thread and no optimisations, so that runs are comparable.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper
from onnx.external_data_helper import load_external_data_for_tensor, uses_external_data
from onnx.helper import make_tensor_type_proto, tensor_dtype_to_np_dtype

from onchip.answer.bindings import Bindings
from onchip.errors import GraphError, InputError, UsageError
from onchip.formats.onnx.control_flow import unfold
from onchip.formats.onnx.dimensions import bind
from onchip.formats.onnx.file import LARGEST_VALUE_ELEMENTS, load_model
from onchip.formats.onnx.graph import Storage
from onchip.formats.onnx.nodes import DEFAULT_DOMAINS, kind_of

Array: TypeAlias = npt.NDArray[Any]
_FATAL_ONLY = 4  # an error is raised, and said once: by who catches it
_ALIGNMENT_BYTES = 64


class Session:
    """A model, or its file, ready to run; raises GraphError with `file` and `place`."""

    def __init__(self, model: bytes | str, file: str, place: str | None = None) -> None:
        try:
            runtime = import_module("onnxruntime")
        except ImportError:
            what, expected = "onnxruntime, which runs ONNX models, is not installed", "pip install 'onchip[run]'"
            raise UsageError(what, expected=expected) from None
        options = runtime.SessionOptions()
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = options.enable_mem_pattern = False
        options.log_severity_level = _FATAL_ONLY
        self._file = file
        self._place = place
        try:
            self._session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime has an exception type for each of its codes
            raise self._refusal(error) from None

    def run(self, outputs: Sequence[str], feeds: Mapping[str, Array]) -> list[Array]:
        """Return the arrays of `outputs`, with equal bits for equal feeds; raises GraphError if the run fails."""
        try:
            results: list[Array] = self._session.run(list(outputs), dict(feeds))
        except Exception as error:  # see above
            raise self._refusal(error) from None
        return results

    def _refusal(self, error: Exception) -> GraphError:
        lines = str(error).splitlines() or [type(error).__name__]
        what = f"onnxruntime refuses it: {lines[0]}"
        return GraphError(what, file=self._file, place=self._place, expected="a model it can run")


def aligned(content: npt.NDArray[np.uint8], dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """Return the bytes as an array at an aligned address, copied if necessary, since alignment affects sums."""
    if content.ctypes.data % _ALIGNMENT_BYTES:
        room = np.empty(content.size + _ALIGNMENT_BYTES, np.uint8)
        start = -room.ctypes.data % _ALIGNMENT_BYTES
        room[start : start + content.size] = content
        content = room[start : start + content.size]
    return content.view(dtype).reshape(shape)


_BATCH_NORM_SCALE, _BATCH_NORM_SHIFT, _BATCH_NORM_MEAN, _BATCH_NORM_VARIANCE = 1, 2, 3, 4
_WEIGHTED = {"Conv", "ConvTranspose", "Gemm", "MatMul", "RNN", "GRU", "LSTM", "FusedMatMul"}
_SETTINGS = {
    *("Clip", "Resize", "Upsample", "Pad", "Pow", "QuantizeLinear", "DequantizeLinear", "OneHot", "TopK", "Range")
}
"""Kinds whose further operands are settings and not weights."""


def random_array(name: str, dtype: np.dtype[np.generic], shape: tuple[int, ...], seed: int) -> Array:
    """Return a random input: floats in [-1, 1), bytes of any value, other integers 0 or 1 (possible indices)."""
    generator = _generator(name, seed)
    if dtype.kind == "f":
        return (generator.random(shape, np.float32) * 2 - 1).astype(dtype)
    if dtype.itemsize == 1 and dtype.kind in "iu":
        return generator.integers(0, 256, shape).astype(np.uint8).view(dtype)
    return generator.integers(0, 2, shape).astype(dtype)


def random_parameter(
    name: str, dtype: np.dtype[np.generic], shape: tuple[int, ...], reader: tuple[onnx.NodeProto, int], seed: int
) -> Array | None:
    """Return a random array for operand `index` of `reader`, scaled so that the network's values stay finite.

    Returns None for parameters that must keep their value: single numbers (limits, exponents, scales), settings, and
    integers except quantised weights.
    """
    node, index = reader
    kind = kind_of(node)
    is_setting = prod(shape) < 2 or (index > 0 and kind in _SETTINGS)
    if dtype.kind == "f" and not is_setting:
        return _random_floats(_generator(name, seed), shape, node, index).astype(dtype, copy=False)
    is_quantised_weight = dtype.kind in "iu" and dtype.itemsize == 1 and len(shape) > 1 and not is_setting
    return random_array(name, dtype, shape, seed) if is_quantised_weight else None


def _random_floats(
    generator: np.random.Generator, shape: tuple[int, ...], node: onnx.NodeProto, index: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    kind = kind_of(node)
    normal = generator.standard_normal
    if kind in _WEIGHTED and index == 1 and len(shape) > 1:
        weights = normal(shape, np.float32)
        weights *= np.float32(1 / np.sqrt(_fan_in(node, shape)))  # in place: there is room for it once
        return weights
    is_shift = kind == "BatchNormalization" and index in (_BATCH_NORM_SHIFT, _BATCH_NORM_MEAN)
    if is_shift or kind in _WEIGHTED:
        return normal(shape, np.float32) * np.float32(0.1)
    if kind == "Gather":
        return normal(shape, np.float32)
    # A variance, a factor, a divisor, a root's argument: positive is right for all, and near 1 keeps the scale.
    return generator.random(shape, np.float32) + np.float32(0.5)


def _fan_in(node: onnx.NodeProto, shape: tuple[int, ...]) -> int:
    """Return the number of products that are summed for an element of the output."""
    is_transposed = any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
    sizes = {"MatMul": shape[-2], "FusedMatMul": shape[-2], "Gemm": shape[is_transposed]}
    sizes["ConvTranspose"] = shape[0] * prod(shape[2:])
    return sizes.get(node.op_type, prod(shape[1:]))


def _generator(name: str, seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


_OLDEST_IR, _NEWEST_IR = 8, 13
"""Range of IR versions: below 4 every initializer must be an input, too; above 13 onnxruntime refuses."""


@dataclass(frozen=True, slots=True)
class NodeProgram:
    """Nodes in the order of the model, and the tensors and constants that they start from."""

    nodes: tuple[onnx.NodeProto, ...]
    given: tuple[str, ...]
    constants: tuple[str, ...]


class Network:
    """A model with its weights, from which parts can be cut."""

    def __init__(self, path: Path, bindings: Bindings) -> None:
        self.path = path
        model = load_model(path, with_weights=True)  # refuses what cannot be planned, and so what cannot be run
        bind(model.graph, bindings)
        unfolded = unfold(model)
        graph, self.types = unfolded.graph, unfolded.types
        self.storage = Storage(graph, self.types)
        self.nodes: tuple[onnx.NodeProto, ...] = tuple(graph.node)
        self.initializers = {tensor.name: tensor for tensor in graph.initializer}
        outputs = dict.fromkeys(value.name for value in graph.output)
        self.outputs = tuple(name for name in outputs if not self.types.is_empty(name))
        self.inputs = tuple(value.name for value in graph.input if self.storage.is_network_input(value.name))
        empty = (value.name for value in graph.input if self.types.is_empty(value.name))
        self.known_inputs = (*bindings.values, *(name for name in empty if name not in self.initializers))
        self._opsets = tuple(model.opset_import)
        self._ir_version = min(max(model.ir_version, _OLDEST_IR), _NEWEST_IR)
        self._writer = {output: index for index, node in enumerate(self.nodes) for output in node.output if output}

    @property
    def opset(self) -> int:
        """Version of ONNX's own operators; 1 if the file states none."""
        return max((one.version for one in self._opsets if one.domain in DEFAULT_DOMAINS), default=1)

    def initializer(self, name: str) -> onnx.TensorProto | None:
        """Return a tensor that the file states, with its external data; raises InputError if these are missing."""
        tensor = self.initializers.get(name)
        if tensor is not None and uses_external_data(tensor):
            try:
                load_external_data_for_tensor(tensor, str(self.path.parent))
            except Exception as error:  # onnx raises its own for damaged and for missing files
                what = f"its external data cannot be read: {error}"
                raise InputError(what, file=str(self.path), place=f"tensor {name!r}", expected="the data") from None
        return tensor

    def writer(self, name: str) -> onnx.NodeProto | None:
        """Return the node that writes a tensor, if one does."""
        return self.nodes[self._writer[name]] if name in self._writer else None

    def is_constant(self, name: str) -> bool:
        """Return True if the tensor's value is known before the network runs."""
        return name in self.types.constants

    def part(self, wanted: Sequence[str], given: Collection[str]) -> NodeProgram:
        """Return the nodes that compute `wanted` from `given`, including views; raises GraphError."""
        indices: set[int] = set()
        constants: dict[str, None] = {}
        met: dict[str, None] = {}
        seen: set[str] = set()
        waiting = list(wanted)
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in given:
                met[name] = None
            elif (
                self.is_constant(name) and self.storage.base(name) == name and [*self.storage.stored_as(name)] == [name]
            ):
                constants[name] = None
            elif name in self._writer:
                indices.add(self._writer[name])
                waiting.extend(filter(None, self.nodes[self._writer[name]].input))
            else:
                raise GraphError("nothing computes it", f"tensor {name!r}", "a network input handed in")
        return NodeProgram(tuple(self.nodes[index] for index in sorted(indices)), tuple(met), tuple(constants))

    def model(self, part: NodeProgram, wanted: Sequence[str], embedded: Sequence[onnx.TensorProto]) -> onnx.ModelProto:
        """Return the part as a model; constants that are not `embedded` are its inputs."""
        return self.program(part.nodes, (*part.given, *part.constants), wanted, embedded)

    def program(
        self,
        nodes: Collection[onnx.NodeProto],
        operands: Sequence[str],
        wanted: Sequence[str],
        embedded: Sequence[onnx.TensorProto],
    ) -> onnx.ModelProto:
        """Return a model of these nodes; operands that are not `embedded` are its inputs."""
        model = onnx.ModelProto(ir_version=self._ir_version, opset_import=self._opsets)
        model.graph.name = "part"
        ranks = {id(node): index for index, node in enumerate(self.nodes)}
        model.graph.node.extend(self._as_in_file(node) for node in sorted(nodes, key=lambda node: ranks[id(node)]))
        model.graph.initializer.extend(embedded)
        inside = {tensor.name for tensor in embedded}
        for name in operands:
            if name in inside:
                continue
            kind = self.types.static[name]
            if name in self.types.bounded:  # its sizes are only upper bounds
                sizes = [None] * len(kind.tensor_type.shape.dim)
                kind = make_tensor_type_proto(kind.tensor_type.elem_type, sizes)
            model.graph.input.add(name=name, type=kind)
        for name in wanted:
            model.graph.output.add(name=name)
        return model

    def _as_in_file(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """Return the node without the inputs that its graph captures, which a runtime finds without them."""
        loop = self.types.kept_as(node)
        if loop is None or not loop.captured:
            return node
        stated = onnx.NodeProto()
        stated.CopyFrom(node)
        del stated.input[-loop.captured :]
        return stated


class ConstantValues:
    """Arrays of constants: stated, computed or random, each made when it is first needed."""

    def __init__(self, network: Network, random_weights: int | None) -> None:
        self._network = network
        self._seed = random_weights
        self._arrays: dict[str, Array] = {}
        self._reader: dict[str, tuple[onnx.NodeProto, int]] = {}
        for node in network.nodes:
            if not any(network.storage.base(output) != output for output in node.output):  # a view is no reader
                for index, operand in enumerate(node.input):
                    self._reader.setdefault(network.storage.base(operand), (node, index))

    def array(self, name: str) -> Array:
        """Return the value of a constant that is stored as itself; raises InputError if it is not available."""
        if name not in self._arrays:
            made_up = None
            if self._seed is not None and name in self._reader:
                made_up = random_parameter(name, *self.type_of(name), self._reader[name], self._seed)
            array = self._own(name) if made_up is None else made_up
            if is_native(array.dtype):
                content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
                array = aligned(content, array.dtype, array.shape)
            self._arrays[name] = array
        return self._arrays[name]

    def is_fed(self, name: str) -> bool:
        """Return True if a constant is an input of a run and not part of its model, so that weights are stored once.

        Small constants may state a shape, which some kernels need in advance; only numpy's own types can be inputs.
        """
        dtype, shape = self.type_of(name)
        return is_native(dtype) and prod(shape) > LARGEST_VALUE_ELEMENTS

    def type_of(self, name: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """Return element type and shape of any tensor of the model."""
        shape, element_type = self._network.types.shape_and_element_type(name)
        return np.dtype(tensor_dtype_to_np_dtype(element_type)), shape

    def _own(self, name: str) -> Array:
        stated = self._network.initializer(name)
        if stated is None:
            return self._computed(name)
        del self._network.initializers[name]
        try:
            return numpy_helper.to_array(stated)
        except Exception as error:  # onnx and numpy raise several types for damaged data
            what = f"its data do not make its shape {list(stated.dims)}: {' '.join(str(error).split())}"
            raise GraphError(what, f"tensor {name!r}", "whole data", file=str(self._network.path)) from None

    def _computed(self, name: str) -> Array:
        """Evaluate the nodes that make a constant from the tensors of the file."""
        network = self._network
        nodes: dict[int, onnx.NodeProto] = {}
        leaves: dict[str, onnx.TensorProto] = {}
        waiting = [name]
        while waiting:
            wanted = waiting.pop()
            leaf = network.types.constants.known_value(wanted) or network.initializer(wanted)
            node = network.writer(wanted)
            if leaf is not None:
                leaves[wanted] = leaf
            elif node is None:
                what = "the value of this parameter is not a plain tensor"
                expected = "an initializer or a constant node"
                raise GraphError(what, file=str(network.path), place=f"tensor {wanted!r}", expected=expected)
            elif id(node) not in nodes:
                nodes[id(node)] = node
                waiting.extend(filter(None, node.input))
        model = network.program(nodes.values(), (), (name,), tuple(leaves.values()))
        return Session(model.SerializeToString(), str(network.path), f"tensor {name!r}").run([name], {})[0]


def is_native(dtype: np.dtype[Any]) -> bool:
    """Return True if numpy itself has the type; onnx keeps others (4 bits, bfloat16) in types of ml_dtypes."""
    return dtype.kind in "biuf"
