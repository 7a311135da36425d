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
from types import ModuleType
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
from onchip.formats.onnx.file import LARGEST_VALUE_ELEMENTS, load_model, own_weight
from onchip.formats.onnx.graph import Storage
from onchip.formats.onnx.nodes import DEFAULT_DOMAINS, kind_of

Array: TypeAlias = npt.NDArray[Any]
_FATAL_ONLY = 4  # an error is raised, and said once: by who catches it
_ALIGNMENT_BYTES = 64


class Session:
    """A model, or the file of one, ready to run; raises GraphError, `file` and `place` saying of what."""

    def __init__(self, model: bytes | str, file: str, place: str | None = None) -> None:
        runtime = _runtime()
        options = runtime.SessionOptions()
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = options.enable_mem_pattern = False
        options.log_severity_level = _FATAL_ONLY
        self._file = file
        self._place = place
        try:
            self._session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime raises a type of its own for each of its codes
            raise self._refusal(error) from None

    def run(self, outputs: Sequence[str], feeds: Mapping[str, Array]) -> list[Array]:
        """The arrays of `outputs`, bit for bit the same for the same feeds; raises GraphError where it cannot run."""
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
    """The bytes as an array at an aligned address, copied if need be: elsewhere kernels may add up in another order."""
    if content.ctypes.data % _ALIGNMENT_BYTES:
        room = np.empty(content.size + _ALIGNMENT_BYTES, np.uint8)
        start = -room.ctypes.data % _ALIGNMENT_BYTES
        room[start : start + content.size] = content
        content = room[start : start + content.size]
    return content.view(dtype).reshape(shape)


def _runtime() -> ModuleType:
    try:
        return import_module("onnxruntime")
    except ImportError:
        raise UsageError(
            "onnxruntime, which runs ONNX models, is not installed", expected="pip install 'onchip[run]'"
        ) from None


_BATCH_NORM_SCALE, _BATCH_NORM_SHIFT, _BATCH_NORM_MEAN, _BATCH_NORM_VARIANCE = 1, 2, 3, 4
_WEIGHTED = {"Conv", "ConvTranspose", "Gemm", "MatMul", "RNN", "GRU", "LSTM", "FusedMatMul"}
_SETTINGS = {
    "Clip",
    "Resize",
    "Upsample",
    "Pad",
    "Pow",
    "QuantizeLinear",
    "DequantizeLinear",
    "OneHot",
    "TopK",
    "Range",
}
"""Kinds whose further operands say how to compute; they are no weights."""


def random_array(name: str, dtype: np.dtype[np.generic], shape: tuple[int, ...], seed: int) -> Array:
    """A network input: floats in [-1, 1), bytes over their whole range, other integers 0 or 1 (they may be indices)."""
    generator = _generator(name, seed)
    if dtype.kind == "f":
        return (generator.random(shape, np.float32) * 2 - 1).astype(dtype)
    if dtype.itemsize == 1 and dtype.kind in "iu":
        return generator.integers(0, 256, shape).astype(np.uint8).view(dtype)
    return generator.integers(0, 2, shape).astype(dtype)


def random_parameter(
    name: str, dtype: np.dtype[np.generic], shape: tuple[int, ...], reader: tuple[onnx.NodeProto, int], seed: int
) -> Array | None:
    """What stands for a parameter that `reader`, a node, takes as its operand of that index.

    None where the model's own must stay: single numbers (limits, exponents, scales), settings, and
    integers but for quantised weights.
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
    """How many products are added up for an element of the output."""
    match node.op_type:
        case "MatMul" | "FusedMatMul":
            return shape[-2]
        case "Gemm":
            is_transposed = any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
            return shape[1] if is_transposed else shape[0]
        case "ConvTranspose":
            return shape[0] * prod(shape[2:])
    return prod(shape[1:])


def _generator(name: str, seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


_OLDEST_IR, _NEWEST_IR = 8, 13
"""Below 4 every initializer must be an input as well; above 13 onnxruntime refuses."""


@dataclass(frozen=True, slots=True)
class NodeProgram:
    """The nodes, in the model's order, and what they start from: tensors handed in, and constants."""

    nodes: tuple[onnx.NodeProto, ...]
    given: tuple[str, ...]
    constants: tuple[str, ...]


class Network:
    """A model with its weights, of which parts can be cut out."""

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
        """Return the version of ONNX's own operators; 1 where the file says none."""
        return max((one.version for one in self._opsets if one.domain in DEFAULT_DOMAINS), default=1)

    def initializer(self, name: str) -> onnx.TensorProto | None:
        """A tensor that the file states, its external data loaded; raises InputError where that is missing."""
        tensor = self.initializers.get(name)
        if tensor is not None and (content := own_weight(self.path, tensor)) is not None:
            return onnx.TensorProto(name=name, data_type=tensor.data_type, dims=tensor.dims, raw_data=content.tobytes())
        if tensor is not None and uses_external_data(tensor):
            try:
                load_external_data_for_tensor(tensor, str(self.path.parent))
            except Exception as error:  # onnx raises its own for damaged and for missing files
                what = f"its external data cannot be read: {error}"
                raise InputError(what, file=str(self.path), place=f"tensor {name!r}", expected="the data") from None
        return tensor

    def writer(self, name: str) -> onnx.NodeProto | None:
        """The node that writes a tensor."""
        return self.nodes[self._writer[name]] if name in self._writer else None

    def is_constant(self, name: str) -> bool:
        """Whether the tensor's value is known before anything runs."""
        return name in self.types.constants

    def part(self, wanted: Sequence[str], given: Collection[str]) -> NodeProgram:
        """What computes `wanted` from `given`, views and dequantised weights on the way; raises GraphError."""
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
            elif self._is_stored(name):
                constants[name] = None
            elif name in self._writer:
                indices.add(self._writer[name])
                waiting.extend(filter(None, self.nodes[self._writer[name]].input))
            else:
                raise GraphError("nothing computes it", place=f"tensor {name!r}", expected="a network input handed in")
        return NodeProgram(tuple(self.nodes[index] for index in sorted(indices)), tuple(met), tuple(constants))

    def _is_stored(self, name: str) -> bool:
        """Whether a constant is kept as itself: it is no view, and not dequantised from another."""
        if not self.is_constant(name) or self.storage.base(name) != name:
            return False
        return tuple(self.storage.stored_as(name)) == (name,)

    def model(self, part: NodeProgram, wanted: Sequence[str], embedded: Sequence[onnx.TensorProto]) -> onnx.ModelProto:
        """The part as a model; constants that are not `embedded` are inputs of it."""
        return self.program(part.nodes, (*part.given, *part.constants), wanted, embedded)

    def program(
        self,
        nodes: Collection[onnx.NodeProto],
        operands: Sequence[str],
        wanted: Sequence[str],
        embedded: Sequence[onnx.TensorProto],
    ) -> onnx.ModelProto:
        """A model of these nodes; operands that are not `embedded` are its inputs."""
        model = onnx.ModelProto(ir_version=self._ir_version, opset_import=self._opsets)
        model.graph.name = "part"
        ranks = {id(node): index for index, node in enumerate(self.nodes)}
        model.graph.node.extend(self._as_in_file(node) for node in sorted(nodes, key=lambda node: ranks[id(node)]))
        model.graph.initializer.extend(embedded)
        inside = {tensor.name for tensor in embedded}
        for name in operands:
            if name not in inside:
                model.graph.input.add(name=name, type=self._type_as_run(name))
        for name in wanted:
            model.graph.output.add(name=name)
        return model

    def _as_in_file(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """The node without the inputs that its graph reads around it: a runtime finds these by itself."""
        loop = self.types.kept_as(node)
        if loop is None or not loop.captured:
            return node
        stated = onnx.NodeProto()
        stated.CopyFrom(node)
        del stated.input[-loop.captured :]
        return stated

    def _type_as_run(self, name: str) -> onnx.TypeProto:
        """The type of a tensor, without sizes where they are the largest that it can have."""
        planned = self.types.static[name]
        if name not in self.types.bounded:
            return planned
        rank = len(planned.tensor_type.shape.dim)
        return make_tensor_type_proto(planned.tensor_type.elem_type, [None] * rank)


class ConstantValues:
    """Looks up, computes or makes up each constant once, when it is first asked for."""

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
        """The value of a constant that is kept as itself; raises InputError where it cannot be had."""
        if name not in self._arrays:
            made_up = None if self._seed is None else self._random(name, self._seed)
            array = self._own(name) if made_up is None else made_up
            self._arrays[name] = _aligned_array(array) if is_native(array.dtype) else array
        return self._arrays[name]

    def is_fed(self, name: str) -> bool:
        """Whether a constant is handed to a run instead of lying in its model: weights are not stored twice.

        Small ones may say a shape, and some kernels want to know those in advance; numpy's own types
        are the only ones that can be handed in.
        """
        dtype, shape = self.type_of(name)
        return is_native(dtype) and prod(shape) > LARGEST_VALUE_ELEMENTS

    def type_of(self, name: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """Element type and shape of any tensor of the model."""
        shape, element_type = self._network.types.shape_and_element_type(name)
        return np.dtype(tensor_dtype_to_np_dtype(element_type)), shape

    def _random(self, name: str, seed: int) -> Array | None:
        dtype, shape = self.type_of(name)
        return random_parameter(name, dtype, shape, self._reader[name], seed) if name in self._reader else None

    def _own(self, name: str) -> Array:
        dtype, shape = self.type_of(name)
        bare = self._network.initializers.get(name)
        content = None if bare is None or not is_native(dtype) else own_weight(self._network.path, bare)
        if content is not None:  # large: not by way of a tensor, which would hold it once more
            return content.view(dtype).reshape(shape)
        stated = self._network.initializer(name)
        if stated is None:
            return self._computed(name)
        del self._network.initializers[name]
        return self._stated_array(stated, name)

    def _stated_array(self, stated: onnx.TensorProto, name: str) -> Array:
        try:
            return numpy_helper.to_array(stated)
        except Exception as error:  # onnx and numpy raise several types for damaged data
            what = f"its data do not make its shape {list(stated.dims)}: {' '.join(str(error).split())}"
            place = f"tensor {name!r}"
            raise GraphError(what, file=str(self._network.path), place=place, expected="whole data") from None

    def _computed(self, name: str) -> Array:
        """Run the nodes that make a constant from what the file states."""
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
                raise GraphError(
                    what,
                    file=str(network.path),
                    place=f"tensor {wanted!r}",
                    expected="an initializer or a constant node",
                )
            elif id(node) not in nodes:
                nodes[id(node)] = node
                waiting.extend(filter(None, node.input))
        model = network.program(nodes.values(), (), (name,), tuple(leaves.values()))
        return Session(model.SerializeToString(), str(network.path), f"tensor {name!r}").run([name], {})[0]


def _aligned_array(array: Array) -> Array:
    return aligned(np.ascontiguousarray(array).reshape(-1).view(np.uint8), array.dtype, array.shape)


def is_native(dtype: np.dtype[Any]) -> bool:
    """Whether numpy itself knows the type; onnx keeps the others (4 bits, bfloat16) in types of ml_dtypes."""
    return dtype.kind in "biuf"
