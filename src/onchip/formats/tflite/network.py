"""The network of a TFLite file: its first subgraph, with calls inlined and decided branches in their place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from onchip.errors import GraphError
from onchip.formats.tflite.file import GREATEST_COUNT, FileOperator, FileSubgraph, FileTensor, ModelFile
from onchip.formats.tflite.options import options_of

ABSENT: Final = -1
"""In place of an optional operand that is not there."""
_DEEPEST_CALL: Final = 32
_LOOPS: Final = frozenset({"WHILE", "STABLEHLO_WHILE"})
_HIDDEN_STATE: Final = frozenset({"CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"})
_NO_SHAPES: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class NetworkTensor:
    """A tensor of the network; `name` is no other's, and `stated` is what the file says of it."""

    name: str
    shape: tuple[int, ...]
    stated: FileTensor

    @property
    def element_type(self) -> int:
        """The schema's number of the element type."""
        return self.stated.element_type


@dataclass(frozen=True, slots=True)
class NetworkOperator:
    """An operator of the network, called like its first output; operands are indices of the network's tensors.

    `first_tensor` is the index of the first tensor of the subgraph that it stands in.
    """

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    stated: FileOperator
    first_tensor: int = 0

    @property
    def kind(self) -> str:
        """The schema's name of the operator's kind."""
        return self.stated.kind


@dataclass(frozen=True, slots=True)
class FlatNetwork:
    """Tensors and operators in the order in which they run, without subgraphs; `name` is the main subgraph's.

    `inputs` and `outputs` are as many as the main subgraph's; one tensor may be there twice.
    """

    name: str
    tensors: tuple[NetworkTensor, ...]
    operators: tuple[NetworkOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def content(self, file: ModelFile, index: int) -> memoryview | None:
        """The bytes that the file states for a tensor; None where it states none."""
        stated = self.tensors[index].stated.content
        return None if stated is None else memoryview(file.content)[stated.start : stated.stop]


def flat_network(file: ModelFile) -> FlatNetwork:
    """Inline everything; raises GraphError for control flow that hangs on values, and for what nobody writes."""
    inlining = _Inlining(file)
    main = file.subgraphs[0]
    first = inlining.add_tensors(main)
    inlining.run(main, first, 0)
    resolved = inlining.resolved
    tensors = _named(inlining.tensors)
    operators: list[NetworkOperator] = []
    for operator, first_tensor, inputs, outputs in inlining.steps:
        read, written = tuple(map(resolved, inputs)), tuple(map(resolved, outputs))
        if not written:
            what = f"{operator.kind} writes nothing"
            raise GraphError(what, place=f"operator {len(operators)}", expected="at least one output")
        operators.append(NetworkOperator(tensors[written[0]].name, read, written, operator, first_tensor))
    given = tuple(resolved(index) for index in main.inputs if index >= 0)
    wanted = tuple(resolved(index) for index in main.outputs if index >= 0)
    network = FlatNetwork(main.name, tensors, tuple(operators), given, wanted)
    _each_tensor_is_written_before_it_is_read(network)
    return network


@dataclass
class _Inlining:
    """`same` says of a tensor which other one it is: an operand of a call is its body's, and the other way about."""

    file: ModelFile
    tensors: list[FileTensor] = field(default_factory=list)
    steps: list[tuple[FileOperator, int, tuple[int, ...], tuple[int, ...]]] = field(default_factory=list)
    same: dict[int, int] = field(default_factory=dict)

    def add_tensors(self, subgraph: FileSubgraph) -> int:
        """The index of the first; raises GraphError for too many."""
        first = len(self.tensors)
        self.tensors.extend(subgraph.tensors)
        if len(self.tensors) > GREATEST_COUNT:
            raise GraphError(f"calls make {len(self.tensors)} tensors", expected=f"at most {GREATEST_COUNT}")
        return first

    def resolved(self, index: int) -> int:
        while index in self.same:
            index = self.same[index]
        return index

    def run(self, subgraph: FileSubgraph, first: int, depth: int) -> None:
        if depth > _DEEPEST_CALL:
            raise GraphError(
                "its subgraphs call each other", expected=f"at most {_DEEPEST_CALL} calls inside each other"
            )
        for operator in subgraph.operators:
            inputs = tuple(ABSENT if at < 0 else self.resolved(first + at) for at in operator.inputs)
            outputs = tuple(first + at for at in operator.outputs)
            body = self._body(operator, inputs, outputs)
            if body is None:
                self.steps.append((operator, first, inputs, outputs))
                if len(self.steps) > GREATEST_COUNT:
                    raise GraphError(f"calls make {len(self.steps)} operators", expected=f"at most {GREATEST_COUNT}")
            else:
                self._inline(operator, body, inputs[1:] if operator.kind == "IF" else inputs, outputs, depth)

    def _inline(
        self, operator: FileOperator, body: FileSubgraph, inputs: Sequence[int], outputs: Sequence[int], depth: int
    ) -> None:
        if len(inputs) != len(body.inputs) or len(outputs) != len(body.outputs):
            expected = f"{len(body.inputs)} inputs and {len(body.outputs)} outputs, as its subgraph has"
            what = f"{operator.kind} has {len(inputs)} inputs and {len(outputs)} outputs"
            raise GraphError(what, place=self._place(outputs), expected=expected)
        first = self.add_tensors(body)
        for inner, outer in zip(body.inputs, inputs, strict=True):
            if inner >= 0 and outer >= 0 and first + inner != self.resolved(outer):
                self.same[first + inner] = self.resolved(outer)
        self.run(body, first, depth + 1)
        for inner, outer in zip(body.outputs, outputs, strict=True):
            if inner >= 0 and self.resolved(first + inner) != outer:
                self.same[outer] = self.resolved(first + inner)

    def _body(self, operator: FileOperator, inputs: Sequence[int], outputs: Sequence[int]) -> FileSubgraph | None:
        """The subgraph that stands for an operator, None for one that stands for itself; raises GraphError."""
        place = self._place(outputs)
        if operator.kind == "CALL":
            return self._subgraph(options_of(operator).get("subgraph", 0), place)
        if operator.kind == "IF":
            condition = self._condition(inputs)
            if condition is None:
                what = "IF hangs on a value that only a run knows"
                raise GraphError(what, place=place, expected="a network whose control flow is decided")
            branch = "then_subgraph_index" if condition else "else_subgraph_index"
            return self._subgraph(options_of(operator).get(branch, 0), place)
        if operator.kind in _LOOPS:
            raise GraphError(
                f"{operator.kind} runs a graph of its own", place=place, expected="a network without loops"
            )
        if operator.kind in _HIDDEN_STATE:
            what = f"{operator.kind} has state that is no tensor of a fixed size"
            raise GraphError(what, place=place, expected="a network without resource variables")
        return None

    def _subgraph(self, index: int | float, place: str) -> FileSubgraph:
        if not 0 < index < len(self.file.subgraphs):
            what = f"it runs subgraph {index} of {len(self.file.subgraphs)}"
            raise GraphError(what, place=place, expected="another one of the file's")
        return self.file.subgraphs[int(index)]

    def _condition(self, inputs: Sequence[int]) -> bool | None:
        stated = self.tensors[inputs[0]].content if inputs and inputs[0] >= 0 else None
        return None if stated is None else any(self.file.content[stated.start : stated.stop])

    def _place(self, outputs: Sequence[int]) -> str:
        return f"operator {self.tensors[outputs[0]].name!r}" if outputs else f"operator {len(self.steps)}"


def _named(stated: Sequence[FileTensor]) -> tuple[NetworkTensor, ...]:
    """Each with a name of its own, which follows from the file alone: its own, or that and its number."""
    taken = {"dram"}
    named = []
    own = {tensor.name for tensor in stated}
    for index, tensor in enumerate(stated):
        name = tensor.name or f"tensor {index}"
        if name in taken or (not tensor.name and name in own):
            name = f"{name} #{index}"
            while name in taken or name in own:
                name += "_"
        taken.add(name)
        named.append(NetworkTensor(name, tensor.shape, tensor))
    return tuple(named)


def _each_tensor_is_written_before_it_is_read(network: FlatNetwork) -> None:
    """Raise GraphError otherwise. What nobody writes is a constant, a variable or of no elements."""
    written: dict[int, str] = {}
    inputs = set(network.inputs)
    for operator in network.operators:
        for index in operator.outputs:
            tensor = network.tensors[index]
            if index in written:
                what = f"both {written[index]!r} and {operator.name!r} write it"
                raise GraphError(what, place=f"tensor {tensor.name!r}", expected="one producer")
            if index in inputs:
                what = f"{operator.name!r} writes it, and it is a network input"
                raise GraphError(what, place=f"tensor {tensor.name!r}", expected="one producer")
            written[index] = operator.name
    known = {*network.inputs, *(index for index, tensor in enumerate(network.tensors) if _is_there(tensor))}
    for operator in network.operators:
        for index in operator.inputs:
            if index >= 0 and index not in known:
                what = "it is read before it is written" if index in written else "nobody writes it"
                place = f"operator {operator.name!r}: tensor {network.tensors[index].name!r}"
                raise GraphError(what, place=place, expected="operators in a topological order")
        known.update(operator.outputs)
    for index in network.outputs:
        if index not in known:
            name = network.tensors[index].name
            raise GraphError("no operator writes it", place=f"network output {name!r}", expected="a producer")


def _is_there(tensor: NetworkTensor) -> bool:
    stated = tensor.stated
    return stated.content is not None or stated.is_variable or 0 in tensor.shape


def with_shapes(network: FlatNetwork, shapes: Mapping[int, tuple[int, ...]]) -> FlatNetwork:
    """The same network with other shapes for some of its tensors, by their index."""
    tensors = tuple(
        replace(tensor, shape=shapes.get(index, tensor.shape)) for index, tensor in enumerate(network.tensors)
    )
    return replace(network, tensors=tensors)


def readers_of(network: FlatNetwork) -> Iterator[tuple[int, NetworkOperator]]:
    """Each tensor that an operator reads, with the operator, in the order in which they run."""
    for operator in network.operators:
        for index in dict.fromkeys(operator.inputs):
            if index >= 0:
                yield index, operator
