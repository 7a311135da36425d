"""Kernels that run the operators and the tiles of a TFLite graph in ai-edge-litert.

An operator is the model's operators between its operands and its results: the fused members, and the views and
dequantisations that reading folded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from onchip.errors import DifferentShapeError, GraphError, InputError, errors_in_file
from onchip.formats.networks import read_tflite_network
from onchip.formats.onnx.program import random_array
from onchip.formats.states_and_loops import NEXT
from onchip.formats.tflite.file import INT4, dtype_of, mended, type_name
from onchip.formats.tflite.graph import ReadNetwork, part_of_model
from onchip.formats.tflite.network import Interpreter, NetworkOperator, Values, said_shape
from onchip.formats.tflite.storage import Presentation
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.simulate.kernels.onnx_kernels import OnnxTileKernels, relative_difference

if TYPE_CHECKING:
    from onchip.simulate.kernels.onnx_kernels import OnnxKernels

Content: TypeAlias = npt.NDArray[np.uint8]
_NO_SHAPES: Mapping[str, tuple[int, ...]] = MappingProxyType({})
_KEPT_BYTES: Final = 2**28  # limit of cached interpreters: each contains another copy of the file
_KNOWN_TO_XNNPACK: Final = frozenset(
    {"custom.Convolution2DTransposeBias", "custom.MaxPoolingWithArgmax2D", "custom.MaxUnpooling2D"}
)
"""Custom operators without own TFLite kernels; a model with one runs entirely in XNNPACK, so that all its values
compare.
"""


@dataclass(frozen=True, slots=True)
class _Part:
    """Operators of the file in order, with the activations and constants that they read."""

    operators: tuple[NetworkOperator, ...]
    given: tuple[int, ...]
    constants: tuple[int, ...]


class TfliteKernels:
    """Kernels for the operators of `graph`, read from `path` with its inputs of the given shapes, or as `read`."""

    name = "ai-edge-litert"

    def __init__(
        self,
        graph: Graph,
        path: Path,
        shapes: Mapping[str, tuple[int, ...]] = _NO_SHAPES,
        *,
        seed: int = 0,
        read: ReadNetwork | None = None,
    ) -> None:
        self._graph = graph
        self.path = path
        self._seed = seed
        self.read = read or read_tflite_network(path, shapes)
        self.content = mended(self.read.file)
        self._storage = self.read.storage
        self._rank = {operator.name: rank for rank, operator in enumerate(self.read.network.operators)}
        self._is_delegated = any(one.kind in _KNOWN_TO_XNNPACK for one in self.read.network.operators)
        self._constants: dict[int, Content] = {}
        kept = self.read.network.variables
        self._initial = {each.before: each.initial for each in kept if self._is_known(each.initial)}
        self._ready: dict[tuple[str, ...], Interpreter] = {}

    def _is_known(self, index: int | None) -> bool:
        return index is not None and self._storage.is_constant(index)

    # Initial contents of DRAM

    def parameter(self, tensor: Tensor) -> Content:
        """Return a parameter's bytes in presented order; zeros for an unread one that fusing created."""
        index = self.read.index.get(tensor.name)
        if index is None:
            return np.zeros(tensor.size_bytes, np.uint8)
        return self._presented(tensor.name, self._constant(index))

    def network_input(self, tensor: Tensor) -> Content:
        """Return the first bytes of an input that is not given."""
        return self._presented(tensor.name, bytes_of_array(self.first_value(tensor)))

    def given_input(self, tensor: Tensor, array: Values) -> Content:
        """Return the bytes of an input array, with axes as in the file; raises InputError for another type or shape."""
        return self._presented(tensor.name, bytes_of_array(self.first_value(tensor, array)))

    def first_value(self, tensor: Tensor, given: Values | None = None) -> Values:
        """Return an input with axes as in the file: the given array, else random numbers that name and seed determine.

        An input that defines the shape of an operator's output is the shape in the graph; a variable has its initial
        value in the file. Raises InputError for a given array of another type or shape.
        """
        index = self.read.index[tensor.name]
        if given is None and (initial := self._initial.get(index)) is not None:
            return self.constant(initial)
        dtype, shape = self._native_type(index)
        if given is None:
            said = said_shape(self.read.network, index)
            array = random_array(tensor.name, dtype, shape, self._seed) if said is None else said.astype(dtype)
            return array.reshape(shape)
        if (given.dtype, given.shape) != (dtype, shape):
            what = f"it holds {given.dtype}{list(given.shape)}"
            raise InputError(what, place=f"tensor {tensor.name!r}", expected=f"{dtype}{list(shape)}")
        return given

    def element_type(self, output: str) -> np.dtype[Any]:
        """Return the type of an operator's output; raises GraphError for a type without a numpy equivalent."""
        return self._native_type(self.read.index[output])[0]

    def _native_type(self, index: int) -> tuple[np.dtype[Any], tuple[int, ...]]:
        tensor = self._storage.tensor(index)
        dtype = dtype_of(tensor.element_type)
        if dtype is None:
            what = f"its elements are {type_name(tensor.element_type)}, which cannot be handed to ai-edge-litert"
            raise GraphError(what, file=str(self.path), place=f"tensor {tensor.name!r}", expected="a type numpy knows")
        return dtype, tensor.shape

    def constant(self, index: int) -> Values:
        """Return a constant's value with axes as in the file, stated or computed."""
        return self._array(index, self._constant(index))

    def _constant(self, index: int) -> Content:
        """Return a constant's bytes in the file's order, stated or computed."""
        if index not in self._constants:
            stated = self.read.network.content(self.read.file, index)
            if stated is not None and not self._storage.tensor(index).stated.is_sparse:
                self._constants[index] = np.frombuffer(stated, np.uint8)
            else:
                part = self._part([index], {})
                self._constants[index] = bytes_of_array(self._run(part, f"tensor {index}", {}, {}, [index])[0])
        return self._constants[index]

    # Operators

    def run(self, operator: Operator, operands: Mapping[str, Content]) -> Mapping[str, Content]:
        """Return the operator's outputs; raises GraphError if ai-edge-litert cannot run it."""
        contents = {self.read.index[name]: self._in_file(name, content) for name, content in operands.items()}
        states = {name: self.read.index[name] for name in operator.outputs if self._is_next(name)}
        wanted = [self.read.index[name] for name in operator.outputs]
        part = self._part([index for index in wanted if index not in states.values()], contents)
        if not part.operators:
            found = [contents[at] if at in contents else self._copied(at, contents) for at in wanted]
        else:
            given = {index: self._array(index, contents[index]) for index in part.given}
            changed = {at: contents[at] for at in part.constants if at in contents}
            changed = {at: new for at, new in changed.items() if not np.array_equal(new, self._constant(at))}
            results = self._run(part, f"operator {operator.name!r}", given, changed, wanted)
            found = [bytes_of_array(result) for result in results]
        return {name: self._presented(name, each) for name, each in zip(operator.outputs, found, strict=True)}

    def _copied(self, index: int, contents: Mapping[int, Content]) -> Content:
        base = self._storage.base(index)
        return contents[base] if base in contents else self._constant(index)

    def _is_next(self, name: str) -> bool:
        return self._storage.is_state(self.read.index[name]) and name.rstrip("_").endswith(NEXT)

    def _part(self, wanted: Sequence[int], given: Mapping[int, Content]) -> _Part:
        """Return the operators that compute `wanted` from `given`, including views; raises GraphError."""
        operators: dict[str, NetworkOperator] = {}
        met: dict[int, None] = {}
        constants: dict[int, None] = {}
        waiting, seen = list(wanted), set[int]()
        while waiting:
            index = waiting.pop()
            if index < 0 or index in seen:
                continue
            seen.add(index)
            writer = self._storage.writer(index)
            if index in given and not self._storage.is_constant(index):
                met[index] = None
            elif writer is not None:
                operators[writer.name] = writer
                waiting.extend(writer.inputs)
            elif self._storage.is_constant(index):
                constants[index] = None
            elif index not in wanted:
                name = self._storage.tensor(index).name
                raise GraphError("nothing computes it", place=f"tensor {name!r}", expected="a network input handed in")
        ordered = sorted(operators.values(), key=lambda operator: self._rank[operator.name])
        return _Part(tuple(ordered), tuple(met), tuple(constants))

    def _run(
        self,
        part: _Part,
        place: str,
        given: Mapping[int, Values],
        changed: Mapping[int, Content],
        wanted: Sequence[int],
    ) -> list[Values]:
        """Run the part, with other bytes for some of its constants."""
        key = (place, *map(str, part.given))
        ready = self._ready.get(key)
        with self._in_this_file():
            if ready is None or changed:
                inputs = [index for index in part.given if not self._storage.is_state(index)]
                outputs = [index for index in wanted if not self._storage.is_state(index)]
                model, front = part_of_model(self.read, self.content, part.operators, inputs, outputs)
                model = self._with_constants(model, front, changed)
                ready = Interpreter(model, place, is_delegated=self._is_delegated)
                if not changed and (len(self._ready) + 1) * len(model) <= _KEPT_BYTES:
                    self._ready[key] = ready
            results = ready.run(given, wanted)
            for index, result in zip(wanted, results, strict=True):
                self._has_its_shape(index, result)
        return results

    def _has_its_shape(self, index: int, result: Values) -> None:
        """Raise DifferentShapeError if the runtime writes another shape than the file says."""
        tensor = self._storage.tensor(index)
        if result.shape != tensor.shape:
            what = f"ai-edge-litert makes it {list(result.shape)}"
            expected = f"{list(tensor.shape)}, as the file says"
            raise DifferentShapeError(what, place=f"tensor {tensor.name!r}", expected=expected)

    def _with_constants(self, model: bytes, front: int, changed: Mapping[int, Content]) -> bytes:
        """Return the model with other bytes in the buffers of some constants."""
        if not changed:
            return model
        content = bytearray(model)
        for index, new in changed.items():
            stated = self._storage.tensor(index).stated
            if stated.content is None or stated.is_sparse or stated.content.stop - stated.content.start != new.size:
                what = "its bytes are computed from others, and cannot be handed in"
                raise GraphError(what, place=f"tensor {stated.name!r}", expected="a plan that counts activations")
            content[front + stated.content.start : front + stated.content.stop] = new.tobytes()
        return bytes(content)

    # Bytes

    def _presented(self, name: str, content: Content) -> Content:
        tensor = self._storage.tensor(self.read.index[name])
        return as_presented(content, tensor.element_type, tensor.shape, self.read.presented[name])

    def _in_file(self, name: str, content: Content) -> Content:
        tensor = self._storage.tensor(self.read.index[name])
        return as_in_file(content, tensor.element_type, tensor.shape, self.read.presented[name])

    def _array(self, index: int, content: Content) -> Values:
        dtype, shape = self._native_type(index)
        return np.ascontiguousarray(content).view(dtype).reshape(shape)

    @contextmanager
    def _in_this_file(self) -> Iterator[None]:
        with errors_in_file(str(self.path)):
            yield

    # The whole model

    def difference_from_whole_model(
        self, inputs: Mapping[str, Content], outputs: Mapping[str, Content]
    ) -> float | None:
        """Return the maximum |a - b| of the outputs a and the whole model's b, relative to the maximum |b|.

        Infinite if only one of them is not a number; None if the initial values of the model's variables differ from
        the graph's. The runtime does not return the final values of variables.
        """
        main = self.read.file.subgraphs[0]
        variables = {variable.before for variable in self.read.network.variables}
        if not self._begins_alike(variables, inputs):
            return None
        given = {}
        for tensor in self._graph.with_role(Role.INPUT):
            index = self.read.index[tensor.name]
            if index in variables:
                continue
            given[index] = self._array(index, self._in_file(tensor.name, inputs[tensor.name]))
        named = {self._storage.tensor(at).name: at for at in given if self._storage.is_state(at)}
        stated = [index for index in main.outputs if index >= 0]
        with self._in_this_file():
            whole = Interpreter(self.content, is_delegated=self._is_delegated)
            results = whole.run(given, [*stated, *named.values()])
        found = self._outputs_by_name(outputs)
        wanted = [self._storage.tensor(index).name for index in self.read.network.outputs]
        wanted += [f"{name}{NEXT}" for name in named]
        apart = [
            relative_difference(found[name].view(result.dtype), result.reshape(-1))
            for name, result in zip(wanted, results, strict=True)
        ]
        return max(apart, default=0.0)

    def _begins_alike(self, variables: Collection[int], inputs: Mapping[str, Content]) -> bool:
        """Return True if all variables have the initial values in the file."""
        names = {self.read.index[tensor.name]: tensor for tensor in self._graph.with_role(Role.INPUT)}
        return all(
            index in self._initial and np.array_equal(inputs[names[index].name], self.network_input(names[index]))
            for index in variables
        )

    def _outputs_by_name(self, outputs: Mapping[str, Content]) -> dict[str, Content]:
        """Return the bytes of each network output in the file's order, by its name in the file."""
        found = {}
        for tensor in self._graph.with_role(Role.OUTPUT):
            content = self._in_file(tensor.name, outputs[tensor.name])
            for name in (tensor.name, *tensor.aliases):
                found[name] = content
                found.setdefault(name.rstrip("_").removesuffix(".output"), content)
        return found


def as_presented(content: Content, element_type: int, shape: tuple[int, ...], presented: Presentation) -> Content:
    """Return the bytes of a tensor with `shape` in the file, in the presented order."""
    if presented.order == tuple(range(len(shape))):
        return content
    elements = _elements(content, element_type, prod(shape)).reshape(shape)
    return _packed(elements.transpose(presented.order), element_type)


def as_in_file(content: Content, element_type: int, shape: tuple[int, ...], presented: Presentation) -> Content:
    """Return the bytes of a presented tensor, in the file's order."""
    if presented.order == tuple(range(len(shape))):
        return content
    turned = tuple(shape[at] for at in presented.order)
    elements = _elements(content, element_type, prod(shape)).reshape(turned)
    return _packed(elements.transpose(np.argsort(presented.order)), element_type)


def bytes_of_array(array: npt.NDArray[Any]) -> Content:
    """Return the bytes of an array in element order."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _elements(content: Content, element_type: int, count: int) -> npt.NDArray[Any]:
    """Return one entry per element; the lower half of a byte comes first."""
    if element_type == INT4:
        return np.stack((content & 15, content >> 4), axis=-1).reshape(-1)[:count]
    dtype = dtype_of(element_type)
    return content.view(np.uint16 if dtype is None else dtype)  # bfloat16 is only moved


def _packed(elements: npt.NDArray[Any], element_type: int) -> Content:
    flat = np.ascontiguousarray(elements).reshape(-1)
    if element_type != INT4:
        return flat.view(np.uint8)
    halves = np.concatenate((flat, np.zeros(len(flat) % 2, np.uint8))).reshape(-1, 2)
    packed: Content = (halves[:, 0] | halves[:, 1] << 4).astype(np.uint8)
    return packed


class TfliteTileKernels(OnnxTileKernels):
    """Runs `graph`, the tiles of `whole`; `kernels` runs the operators."""

    name = TfliteKernels.name

    def __init__(self, graph: Graph, whole: Graph, kernels: TfliteKernels) -> None:
        # OnnxTileKernels uses only the part of the interface that both kinds share; bands are those of the presented
        # axes.
        super().__init__(graph, whole, cast("OnnxKernels", kernels))
