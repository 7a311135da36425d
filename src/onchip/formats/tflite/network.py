"""A network of a TFLite file without subgraphs: tensors, variables, operators in order, and the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from onchip.errors import GraphError, UsageError
from onchip.formats.tflite.file import FileOperator, FileTensor, ModelFile, mended, refused_if_damaged

Values: TypeAlias = npt.NDArray[Any]
_LONGEST_REASON: Final = 160


class Interpreter:
    """A model, ready to run; raises GraphError with `place` if the runtime refuses it.

    With `is_delegated`, XNNPACK runs the operators that it supports, including a few more custom ones. With
    `is_reference` the plain kernels run, which compute the same integers as TFLite Micro.
    """

    def __init__(
        self, model: bytes, place: str | None = None, *, is_delegated: bool = False, is_reference: bool = False
    ) -> None:
        try:
            runtime = import_module("ai_edge_litert.interpreter")
        except ImportError:
            what = "ai-edge-litert, which runs TFLite models, is not installed"
            raise UsageError(what, expected="pip install 'onchip[tflite]'") from None
        resolvers = runtime.OpResolverType
        own = resolvers.BUILTIN_REF if is_reference else resolvers.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        self._place = place
        try:
            self._interpreter = runtime.Interpreter(
                model_content=model,
                num_threads=1,
                experimental_op_resolver_type=resolvers.AUTO if is_delegated else own,
            )
        except Exception as error:  # the runtime raises ValueError and RuntimeError
            raise self._refusal(error) from None
        self._shapes: dict[int, tuple[int, ...]] | None = None

    def run(self, given: Mapping[int, Values], wanted: Sequence[int]) -> list[Values]:
        """Return the values of tensors by index, with equal bits for equal inputs; raises GraphError.

        `given` are inputs of the model, or variables.
        """
        try:
            self._allocate(given)
            for index, array in given.items():
                self._interpreter.set_tensor(index, np.ascontiguousarray(array).reshape(array.shape))
            self._interpreter.invoke()
            return [self._interpreter.get_tensor(index) for index in wanted]
        except Exception as error:  # see above
            raise self._refusal(error) from None

    def shapes_with(self, inputs: Mapping[int, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
        """Return the shape of every tensor for these input shapes; raises GraphError if they are impossible."""
        zeros = {}
        for detail in self._interpreter.get_input_details():
            shape = inputs.get(detail["index"], tuple(map(int, detail["shape"])))
            zeros[detail["index"]] = np.zeros(shape, detail["dtype"])
        self.run(zeros, ())
        details = self._interpreter.get_tensor_details()
        return {int(detail["index"]): tuple(map(int, detail["shape"])) for detail in details}

    def _allocate(self, given: Mapping[int, Values]) -> None:
        shapes = {index: array.shape for index, array in given.items()}
        if shapes == self._shapes:
            return
        inputs = {detail["index"]: tuple(map(int, detail["shape"])) for detail in self._interpreter.get_input_details()}
        for index, shape in shapes.items():
            if index in inputs and inputs[index] != shape:
                self._interpreter.resize_tensor_input(index, shape)
        self._interpreter.allocate_tensors()
        self._shapes = shapes

    def _refusal(self, error: Exception) -> GraphError:
        lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        return GraphError(
            f"ai-edge-litert refuses it: {lines[0][:_LONGEST_REASON]}", self._place, "a model that it can run"
        )


VariableName: TypeAlias = tuple[str, str]
"""Container and name, which all handles of a variable share."""
_EXPECTED = "variables that VAR_HANDLE names"


@dataclass(frozen=True, slots=True)
class KeptVariable:
    """A variable that keeps its value: the tensors of its value before and after an inference.

    `initial` is its initial constant, None if the file states none. A variable that is never assigned is a constant.
    """

    name: str
    before: int
    after: int
    initial: int | None


@dataclass
class Variables:
    """Variables by the index of their handle, with their current value, first read and initial value."""

    handles: dict[int, VariableName] = field(default_factory=dict)
    held: dict[VariableName, int] = field(default_factory=dict)
    first_read: dict[VariableName, int] = field(default_factory=dict)
    initial: dict[VariableName, int] = field(default_factory=dict)

    def add_handle(self, index: int, operator: FileOperator) -> None:
        """Note the variable that a VAR_HANDLE names; raises InputError for a damaged one."""
        self.handles[index] = _variable_of(operator)

    def of(self, operator: FileOperator, inputs: Sequence[int], place: str) -> VariableName:
        """Return the variable that an operator reads or assigns; raises GraphError for an unknown handle."""
        name = self.handles.get(inputs[0]) if inputs else None
        if name is None:
            raise GraphError(f"{operator.kind} has a variable that nobody names", place, _EXPECTED)
        return name

    def kept(self, resolved: Callable[[int], int]) -> tuple[KeptVariable, ...]:
        """Return the variables that are read before they are assigned; `resolved` maps a tensor to its equal."""
        return tuple(
            KeptVariable("/".join(filter(None, name)), index, resolved(self.held[name]), self.initial.get(name))
            for name, index in self.first_read.items()
            if name in self.held
        )

    def constants(self, place: str) -> dict[int, int]:
        """Return a map from reads of variables that are never assigned to initial constants; raises GraphError."""
        found = {}
        for name, index in self.first_read.items():
            if name not in self.held:
                if name not in self.initial:
                    what = f"variable {name[1]!r} is read, and nobody assigns it"
                    raise GraphError(what, place, "a CALL_ONCE that does")
                found[index] = self.initial[name]
        return found


def _variable_of(operator: FileOperator) -> VariableName:
    import tflite

    with refused_if_damaged():
        place = operator.table.BuiltinOptions()
        if place is None or operator.table.BuiltinOptionsType() != tflite.BuiltinOptions.VarHandleOptions:
            return "", ""
        options = tflite.VarHandleOptions()
        options.Init(place.Bytes, place.Pos)
        container, name = (
            (text or b"").decode(errors="backslashreplace") for text in (options.Container(), options.SharedName())
        )
    return container, name


ABSENT: Final = -1
"""Index of an omitted optional operand."""


LOOPS: Final = frozenset({"WHILE", "STABLEHLO_WHILE"})
"""Kinds of loops, which run other subgraphs unless they are unrolled."""


@dataclass(frozen=True, slots=True)
class NetworkTensor:
    """A tensor of the network with a unique `name`; `stated` is the tensor of the file."""

    name: str
    shape: tuple[int, ...]
    stated: FileTensor

    @property
    def element_type(self) -> int:
        """The schema's number of the element type."""
        return self.stated.element_type


@dataclass(frozen=True, slots=True)
class NetworkOperator:
    """An operator of the network, named after its first output; operands are indices of the network's tensors.

    `first_tensor` is the index of the first tensor of its subgraph. A loop that stays has the constants of its
    subgraphs in `within`, and a workspace.
    """

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    stated: FileOperator
    first_tensor: int = 0
    within: tuple[int, ...] = ()
    workspace_bytes: int = 0

    @property
    def kind(self) -> str:
        """The schema's name of the operator's kind."""
        return self.stated.kind


@dataclass(frozen=True, slots=True)
class FlatNetwork:
    """Tensors and operators in execution order, without subgraphs; `name` is that of the main subgraph.

    `inputs` and `outputs` are those of the main subgraph, and may repeat a tensor. `variables` are states that are not
    tensors in the file; `remarks` are for the user.
    """

    name: str
    tensors: tuple[NetworkTensor, ...]
    operators: tuple[NetworkOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    variables: tuple[KeptVariable, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def written(self) -> tuple[int, ...]:
        """The outputs, and the values of variables after an inference."""
        return (*self.outputs, *(variable.after for variable in self.variables))

    def content(self, file: ModelFile, index: int) -> memoryview | None:
        """Return the bytes that the file states for a tensor; None if it states none."""
        stated = self.tensors[index].stated.content
        return None if stated is None else memoryview(file.content)[stated.start : stated.stop]


def named(stated: Sequence[FileTensor]) -> tuple[NetworkTensor, ...]:
    """Return the tensors with unique names that follow from the file alone: the own name, or that and the index."""
    taken = {"dram"}
    found = []
    own = {tensor.name for tensor in stated}
    for index, tensor in enumerate(stated):
        name = tensor.name or f"tensor {index}"
        if name in taken or (not tensor.name and name in own):
            name = f"{name} #{index}"
            while name in taken or name in own:
                name += "_"
        taken.add(name)
        found.append(NetworkTensor(name, tensor.shape, tensor))
    return tuple(found)


def ensure_written_before_read(network: FlatNetwork) -> None:
    """Raise GraphError unless operands are written first, or are constants, variables or empty."""
    written: dict[int, str] = {}
    inputs = set(network.inputs)
    for operator in network.operators:
        for index in operator.outputs:
            tensor = network.tensors[index]
            if index in written:
                what = f"both {written[index]!r} and {operator.name!r} write it"
                raise GraphError(what, f"tensor {tensor.name!r}", "one producer")
            if index in inputs:
                what = f"{operator.name!r} writes it, and it is a network input"
                raise GraphError(what, f"tensor {tensor.name!r}", "one producer")
            written[index] = operator.name
    known = {*network.inputs, *(each.before for each in network.variables)}
    for index, tensor in enumerate(network.tensors):
        if tensor.stated.content is not None or tensor.stated.is_variable or 0 in tensor.shape:
            known.add(index)
    for operator in network.operators:
        for index in operator.inputs:
            if index >= 0 and index not in known:
                what = "it is read before it is written" if index in written else "nobody writes it"
                place = f"operator {operator.name!r}: tensor {network.tensors[index].name!r}"
                raise GraphError(what, place, "operators in a topological order")
        known.update(operator.outputs)
    for index in network.written:
        if index not in known:
            name = network.tensors[index].name
            raise GraphError("no operator writes it", f"network output {name!r}", "a producer")


def readers_of(network: FlatNetwork) -> Iterator[tuple[int, NetworkOperator]]:
    """Yield each tensor that an operator reads, with the operator, in execution order."""
    for operator in network.operators:
        for index in dict.fromkeys(operator.inputs):
            if index >= 0:
                yield index, operator


_SAYS_ITS_SHAPE: Final = {"TRANSPOSE_CONV": 0, "RESHAPE": 1, "BROADCAST_TO": 1, "FILL": 0}
_SAYS_ITS_PIXELS: Final = {"RESIZE_BILINEAR": 1, "RESIZE_NEAREST_NEIGHBOR": 1}


def said_shape(network: FlatNetwork, index: int) -> Values | None:
    """Return the value of an input that states the shape of an output; None for any other input."""
    for operator in network.operators:
        for places, skipped in ((_SAYS_ITS_SHAPE, slice(None)), (_SAYS_ITS_PIXELS, slice(1, 3))):
            place = places.get(operator.kind)
            if place is not None and place < len(operator.inputs) and operator.inputs[place] == index:
                return np.array(network.tensors[operator.outputs[0]].shape[skipped])
    return None


def resized(file: ModelFile, network: FlatNetwork, shapes: Mapping[str, tuple[int, ...]]) -> FlatNetwork:
    """Return the network with these input shapes, inferred by the interpreter; raises UsageError."""
    index = {network.tensors[at].name: at for at in network.inputs}
    for name, shape in shapes.items():
        if name not in index:
            known = ", ".join(map(repr, index)) or "none: it has no inputs"
            raise UsageError("no network input has this name", f"shapes {name}", known)
        if min(shape, default=1) < 1:
            raise UsageError(f"its shape is {list(shape)}", f"shapes {name}", "sizes of at least 1")
    changed = {index[name]: shape for name, shape in shapes.items() if shape != network.tensors[index[name]].shape}
    if not changed:
        return network
    if len(file.subgraphs) > 1:
        what = "the file has several subgraphs, whose shapes do not follow from another one"
        raise GraphError(what, "`shapes`", "the file's own shapes")
    found = Interpreter(mended(file)).shapes_with(changed)
    shapes_found = found | changed
    tensors = [replace(one, shape=shapes_found.get(at, one.shape)) for at, one in enumerate(network.tensors)]
    return replace(network, tensors=tuple(tensors))
