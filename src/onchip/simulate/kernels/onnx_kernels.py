"""Kernels that run the operators of an ONNX graph, and their tiles, in onnxruntime.

An operator is the model's nodes between its operands and its results: the fused members, and the views and
dequantisations that reading folded. Running a tile by the model's own nodes is exact if a region of the output depends
only on the operands of the tile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.helper import make_node

from onchip.answer.bindings import Bindings
from onchip.errors import DifferentShapeError, GraphError, InputError
from onchip.formats.onnx.graph import may_drop
from onchip.formats.onnx.nodes import node_names
from onchip.formats.onnx.program import (
    Array,
    ConstantValues,
    Network,
    NodeProgram,
    Session,
    aligned,
    is_native,
    random_array,
)
from onchip.ir.graph import Graph
from onchip.ir.operator import KEY_SLICE, PARAMETER_FIRST, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.window import integers
from onchip.transform.slices.bands import Bytes, bytes_of_region, bytes_put_together, place_of

_RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
)
_LARGE_FILE_BYTES = 100 * 2**20  # onnxruntime holds a file's weights several times while it loads them


_FLOATS = {16: np.float16, 32: np.float32, 64: np.float64}


def _softmax(scores: Array) -> Array:
    weights: Array = np.exp(scores - scores.max(axis=-1, keepdims=True))
    result: Array = weights / weights.sum(axis=-1, keepdims=True)
    return result


def _log_sum(scores: Array) -> Array:
    greatest = scores.max(axis=-1, keepdims=True)
    result: Array = greatest + np.log(np.exp(scores - greatest).sum(axis=-1, keepdims=True))
    return result


MADE: Mapping[str, Callable[..., Array]] = {
    "Add": np.add,
    "Div": np.divide,
    "MatMul": np.matmul,
    "Mul": np.multiply,
    "ReduceLogSumExp": _log_sum,
    "Sigmoid": lambda values: (1 + np.tanh(values / 2)) / 2,
    "Softmax": _softmax,
    "Softplus": lambda values: np.logaddexp(values, 0),
    "Sub": np.subtract,
}
"""Operators of a softmax in slices of its keys, which run without a model's node."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A session, its feeds from operands, its weights, and its results in order."""

    session: Session
    given: tuple[str, ...]
    weights: tuple[str, ...]
    results: tuple[str, ...]


class OnnxKernels:
    """Kernels for the operators of `graph`, read from `path`.

    The seed `random_weights` replaces the model's weights.
    """

    name = "onnxruntime"

    def __init__(
        self, graph: Graph, path: Path, bindings: Bindings, *, seed: int = 0, random_weights: int | None = None
    ) -> None:
        self._graph = graph
        self._has_key_slices = any(KEY_SLICE in one.attributes for one in graph.operators)
        self._path = path
        self._seed = seed
        self._random_weights = random_weights
        self.network = Network(path, bindings)
        self.values = ConstantValues(self.network, random_weights)
        self._model_name = dict(self._names_of_folded_biases())
        self._prepared: dict[tuple[str, ...], _Prepared] = {}
        self._found_shapes: dict[str, tuple[int, ...]] = {}

    # Initial contents of DRAM

    def parameter(self, tensor: Tensor) -> Bytes:
        """Return a parameter's bytes; zeros for one that reading created and no node reads."""
        name = self._model_name.get(tensor.name, tensor.name)
        content = _bytes_of(self.values.array(name)) if self.network.is_constant(name) else None
        if content is None or content.size != tensor.size_bytes:
            return np.zeros(tensor.size_bytes, np.uint8)
        return content

    def network_input(self, tensor: Tensor) -> Bytes:
        """Return random bytes of the input's type, determined by its name and the seed."""
        dtype, shape = self._native_type(tensor.name)
        return _bytes_of(random_array(tensor.name, dtype, shape, self._seed))

    def given_input(self, tensor: Tensor, array: Array) -> Bytes:
        """Return the bytes of a given value; raises InputError for another type or shape."""
        dtype, shape = self._native_type(tensor.name)
        if (array.dtype, array.shape) != (dtype, shape):
            raise InputError(
                f"it holds {array.dtype}{list(array.shape)}",
                place=f"tensor {tensor.name!r}",
                expected=f"{dtype}{list(shape)}",
            )
        return _bytes_of(array)

    def element_type(self, output: str) -> np.dtype[np.generic]:
        """Return the type of an operator's output; raises GraphError for a type without a numpy equivalent."""
        return self._native_type(self._wanted(output))[0]

    def _native_type(self, name: str) -> tuple[np.dtype[np.generic], tuple[int, ...]]:
        dtype, shape = self.values.type_of(name)
        if not is_native(dtype):
            what = f"its elements are {dtype}, which cannot be handed to onnxruntime"
            raise GraphError(what, file=str(self._path), place=f"tensor {name!r}", expected="a type numpy knows")
        return dtype, shape

    def _names_of_folded_biases(self) -> Mapping[str, str]:
        """Return a map from each bias of a folded BatchNorm to BatchNorm's own shift, which the nodes read."""
        named = dict(zip(node_names(self.network.nodes), self.network.nodes, strict=True))
        found = {}
        for operator in self._graph.operators:
            norms = [named[name] for name in operator.members if named[name].op_type == "BatchNormalization"]
            for name in operator.parameters:
                if name not in self.network.types.static and norms:
                    found[name] = self.network.storage.base(norms[0].input[2])
        return found

    # Operators

    def run(self, operator: Operator, operands: Mapping[str, Bytes]) -> Mapping[str, Bytes]:
        """Return the operator's outputs; raises GraphError if onnxruntime cannot run it.

        An operator of tensors that the model lacks, from reading a softmax in slices, runs in numpy.
        """
        names = (*operator.inputs, *operator.outputs)
        if self._has_key_slices and any(self._wanted(name) not in self.network.types.static for name in names):
            return self._run_made(operator, operands)
        given = {self._model_name.get(name, name): content for name, content in operands.items()}
        arrays = self._arrays(given)
        prepared = self._prepare(operator, given)
        feeds = {name: arrays[name] for name in prepared.given if name in arrays}
        feeds |= {name: self.values.array(name) for name in prepared.weights}
        results = prepared.session.run(prepared.results, feeds)
        return {name: self._whole_bytes(name, result) for name, result in zip(operator.outputs, results, strict=True)}

    def _run_made(self, operator: Operator, operands: Mapping[str, Bytes]) -> Mapping[str, Bytes]:
        """Return the output of an operator that is no node of the model, computed in floating point."""
        (written,) = operator.outputs
        dtype = _FLOATS[self._graph.tensor[written].bits or 0]

        def array(name: str) -> Array:
            tensor = self._graph.tensor[name]
            content = operands[name] if name in operands else self.parameter(tensor)
            return content.view(dtype).reshape(tensor.shape or ())

        names = (*operator.inputs, *operator.parameters)
        arrays = [array(name) for name in (names[::-1] if PARAMETER_FIRST in operator.attributes else names)]
        if operator.kind == "Slice":
            (starts, shape) = operator.attributes["starts"], self._graph.tensor[written].shape or ()
            (axis,) = integers(operator, "axes", (0,))
            first = starts[0] if isinstance(starts, list) and isinstance(starts[0], int) else 0
            result = arrays[0].take(range(first, first + shape[axis]), axis)
        else:
            result = MADE[operator.kind](*arrays)
        return {written: _bytes_of(np.ascontiguousarray(result, dtype))}

    def _ensure_planned_shape(self, name: str, result: Array) -> None:
        """Raise DifferentShapeError if onnxruntime writes another shape than the planned one, or one beyond a bound."""
        planned = self.values.type_of(name)[1]
        is_bound = name in self.network.types.bounded
        fits = result.shape == planned
        if is_bound and result.ndim == len(planned):
            fits = all(size <= most for size, most in zip(result.shape, planned, strict=True))
        if not fits:
            what = f"onnxruntime writes the shape {list(result.shape)}"
            expected = f"{'at most ' if is_bound else ''}{list(planned)}, as planned"
            raise DifferentShapeError(what, file=str(self._path), place=f"tensor {name!r}", expected=expected)

    def _whole_bytes(self, name: str, result: Array) -> Bytes:
        """Return the bytes of a result; zeros follow if its planned shape is a bound. Raises DifferentShapeError."""
        self._ensure_planned_shape(self._wanted(name), result)
        content = _bytes_of(result)
        if name not in self.network.types.bounded:
            return content
        self._found_shapes[name] = result.shape
        whole = np.zeros(self._graph.tensor[name].size_bytes, np.uint8)
        whole[: content.size] = content
        return whole

    def _arrays(self, given: Mapping[str, Bytes]) -> dict[str, Array]:
        """Return the values that can be fed; others must be embedded in the model."""
        types = {name: self.values.type_of(name) for name in given}
        arrays = {}
        for name, (dtype, shape) in types.items():
            if is_native(dtype):
                found = self._found_shapes.get(name, shape)
                arrays[name] = aligned(given[name][: prod(found) * dtype.itemsize], dtype, found)
        return arrays

    def _prepare(self, operator: Operator, given: Mapping[str, Bytes]) -> _Prepared:
        key = (operator.name, *given)
        if key in self._prepared:
            return self._prepared[key]
        wanted = tuple(self._wanted(name) for name in operator.outputs)
        part = self.network.part(wanted, given)
        self._ensure_values_follow(operator, part)
        strange = [name for name in part.given if not is_native(self.values.type_of(name)[0])]
        inside = [name for name in part.constants if not self.values.is_fed(name)]
        embedded = [numpy_helper.from_array(self.values.array(name), name) for name in inside]
        embedded += [self._tensor_of(name, given[name]) for name in strange]
        model = self.network.model(part, wanted, embedded)
        results = _with_copies(model, operator.outputs, wanted, part.given)
        session = Session(model.SerializeToString(), str(self._path), f"operator {operator.name!r}")
        weights = tuple(name for name in part.constants if name not in inside)
        prepared = _Prepared(session, tuple(name for name in part.given if name not in strange), weights, results)
        if not strange:  # otherwise its bytes are embedded in the model, and may change
            self._prepared[key] = prepared
        return prepared

    def _ensure_values_follow(self, operator: Operator, part: NodeProgram) -> None:
        """Raise GraphError for operators that draw random numbers, which differ in each run."""
        if operator.kind in _RANDOM or any(may_drop(node, self.network.types.constants) for node in part.nodes):
            what = f"{operator.kind} writes other values in each run"
            expected = "operators whose values follow from what they read"
            raise GraphError(what, file=str(self._path), place=f"operator {operator.name!r}", expected=expected)

    def _tensor_of(self, name: str, content: Bytes) -> onnx.TensorProto:
        shape, element_type = self.network.types.shape_and_element_type(name)
        return onnx.TensorProto(name=name, data_type=element_type, dims=shape, raw_data=content.tobytes())

    def _wanted(self, output: str) -> str:
        """Return the model's name of an operator's output; a copy of an input or parameter may have its own name."""
        if output in self.network.types.static:
            return output
        return output.rstrip("_").removesuffix(".output")

    # The whole model

    def whole_model_outputs(self, inputs: Mapping[str, Bytes]) -> dict[str, Array]:
        """Return the network outputs of a run of the whole model.

        Raises DifferentShapeError for another shape than planned.

        The run uses the unmodified file, or all its nodes if the weights are random or the file is large.
        """
        results = self._run_whole_model(inputs)
        # a sequence of tensors is planned as one tensor with a first axis over them
        found = {name: np.stack(one) if isinstance(one, list) else one for name, one in results.items()}
        for name, array in found.items():
            self._ensure_planned_shape(name, array)
        return found

    def _run_whole_model(self, inputs: Mapping[str, Bytes]) -> dict[str, Array]:
        network = self.network
        feeds = self._arrays({name: inputs[name] for name in network.inputs})
        if self._random_weights is None and self._path.stat().st_size < _LARGE_FILE_BYTES:
            session = Session(str(self._path), str(self._path))
            feeds |= {name: self.values.array(name) for name in network.known_inputs}
            return dict(zip(network.outputs, session.run(network.outputs, feeds), strict=True))
        part = network.part(network.outputs, network.inputs)
        inside = [name for name in part.constants if not self.values.is_fed(name)]
        embedded = [numpy_helper.from_array(self.values.array(name), name) for name in inside]
        model = network.model(part, network.outputs, embedded)
        results = _with_copies(model, network.outputs, network.outputs, part.given)
        weights = {name: self.values.array(name) for name in part.constants if name not in inside}
        given = {name: feeds[name] for name in part.given}
        session = Session(model.SerializeToString(), str(self._path))
        return dict(zip(network.outputs, session.run(results, given | weights), strict=True))

    def difference_from_whole_model(self, inputs: Mapping[str, Bytes], outputs: Mapping[str, Bytes]) -> float:
        """Return the maximum |a - b| of a graph's output a and the whole model's b, relative to the maximum |b|.

        The difference is infinite if only one of them is not a number.
        """
        whole = self.whole_model_outputs(inputs)
        outputs_of_graph = self._graph.with_role(Role.OUTPUT)
        known = {name: tensor.name for tensor in outputs_of_graph for name in (tensor.name, *tensor.aliases)}
        known |= {self._wanted(name): tensor for name, tensor in tuple(known.items())}
        found = {name: outputs[known[name]].view(array.dtype)[: array.size] for name, array in whole.items()}
        return max(relative_difference(found[name], array.reshape(-1)) for name, array in whole.items())


def relative_difference(found: Array, expected: Array) -> float:
    """Return the maximum |found - expected|, relative to the maximum finite |expected|."""
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    if same.all():
        return 0.0
    apart = np.abs(found - expected)[~same]
    greatest = np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))
    return float(apart.max() / greatest) if np.isfinite(apart).all() and greatest else np.inf


def _with_copies(
    model: onnx.ModelProto, outputs: tuple[str, ...], wanted: tuple[str, ...], given: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the names of the results in the model; a result that is also an operand gets a copied name."""
    results = []
    operands = {*given, *(tensor.name for tensor in model.graph.initializer), *(i.name for i in model.graph.input)}
    for output, name in zip(outputs, wanted, strict=True):
        result = name
        if name in operands:
            result = f"{output} copied"
            model.graph.node.append(make_node("Identity", [name], [result]))
            next(value for value in model.graph.output if value.name == name).name = result
        results.append(result)
    return tuple(results)


def _bytes_of(array: Array) -> Bytes:
    if not is_native(array.dtype):
        return np.frombuffer(numpy_helper.from_array(array).raw_data, np.uint8)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


class OnnxTileKernels:
    """Runs `graph`, the tiles of `whole`, with the operators of `kernels`."""

    name = OnnxKernels.name

    def __init__(self, graph: Graph, whole: Graph, kernels: OnnxKernels) -> None:
        self._graph = graph
        self._whole = whole
        self._kernels = kernels

    def parameter(self, tensor: Tensor) -> Bytes:
        """Return a parameter's bytes; of a band, its region."""
        base, shape = self._base(tensor)
        return bytes_of_region(self._kernels.parameter(base), shape, place_of(tensor)[1])

    def network_input(self, tensor: Tensor) -> Bytes:
        """Return a random array for the seed; a band is a region of it."""
        base, shape = self._base(tensor)
        return bytes_of_region(self._kernels.network_input(base), shape, place_of(tensor)[1])

    def given_input(self, tensor: Tensor, array: Array) -> Bytes:
        """Return the bytes of a value handed in for the whole tensor; of a band, its region. Raises InputError."""
        base, shape = self._base(tensor)
        return bytes_of_region(self._kernels.given_input(base, array), shape, place_of(tensor)[1])

    def run(self, operator: Operator, operands: Mapping[str, Bytes]) -> Mapping[str, Bytes]:
        """Return the operator's outputs; raises GraphError where onnxruntime does not know how."""
        tile = operator.tile
        if tile is None:
            return self._kernels.run(operator, operands)
        original = self._whole.operator[tile.operator]
        bands: dict[str, list[tuple[Tensor, Bytes]]] = {name: [] for name in original.inputs}
        for name, content in operands.items():
            tensor = tile.seen(self._graph.tensor[name])
            bands.setdefault(place_of(tensor)[0], []).append((tensor, content))
        given = {name: self._put_together(self._whole.tensor[name], each) for name, each in bands.items()}
        values = self._kernels.run(original, given)
        written = {}
        for name in operator.outputs:
            base, region = place_of(self._graph.tensor[name])
            base, region = (base, region) if base in values else (tile.outputs[0], tile.regions[0])
            written[name] = bytes_of_region(values[base], self._whole.tensor[base].shape or (), region)
        return written

    def difference_from_whole_model(self, inputs: Mapping[str, Bytes], outputs: Mapping[str, Bytes]) -> float:
        """Return the difference from the whole model, after the bands are put together."""
        given = {tensor.name: self._gathered(tensor, inputs) for tensor in self._whole.with_role(Role.INPUT)}
        found = {tensor.name: self._gathered(tensor, outputs) for tensor in self._whole.with_role(Role.OUTPUT)}
        return self._kernels.difference_from_whole_model(given, found)

    def _base(self, tensor: Tensor) -> tuple[Tensor, tuple[int, ...]]:
        base = self._whole.tensor[place_of(tensor)[0]]
        return base, base.shape or ()

    def _gathered(self, base: Tensor, contents: Mapping[str, Bytes]) -> Bytes:
        if base.name in contents:
            return contents[base.name]
        bands = [(tensor, contents[tensor.name]) for tensor in self._graph.tensors if tensor.part_of == base.name]
        return self._put_together(base, bands)

    def _put_together(self, base: Tensor, bands: list[tuple[Tensor, Bytes]]) -> Bytes:
        if len(bands) == 1 and bands[0][0].part_of is None:
            return bands[0][1]
        return bytes_put_together(base, bands)
