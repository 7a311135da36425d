"""A network of a TFLite file without subgraphs: tensors, and operators in the order in which they run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from onchip.errors import GraphError
from onchip.formats.tflite.file import FileOperator, FileTensor, ModelFile
from onchip.formats.tflite.variables import KeptVariable

ABSENT: Final = -1
"""In place of an optional operand that is not there."""


LOOPS: Final = frozenset({"WHILE", "STABLEHLO_WHILE"})
"""Kinds of loops, which run other subgraphs where they are not unrolled."""


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

    `first_tensor` is the index of the first tensor of the subgraph that it stands in. A loop that stays has the
    constants of what it runs `within`, and a workspace for it.
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
    """Tensors and operators in the order in which they run, without subgraphs; `name` is the main subgraph's.

    `inputs` and `outputs` are as many as the main subgraph's; one tensor may be there twice. `variables` are state
    that is no tensor in the file; `remarks` are what a user should know of how it was read.
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
        """Its outputs, and what variables hold afterwards."""
        return (*self.outputs, *(variable.after for variable in self.variables))

    def content(self, file: ModelFile, index: int) -> memoryview | None:
        """The bytes that the file states for a tensor; None where it states none."""
        stated = self.tensors[index].stated.content
        return None if stated is None else memoryview(file.content)[stated.start : stated.stop]


def named(stated: Sequence[FileTensor]) -> tuple[NetworkTensor, ...]:
    """Each with a name of its own, which follows from the file alone: its own, or that and its number."""
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
    known = {*network.inputs, *(each.before for each in network.variables)}
    known.update(index for index, tensor in enumerate(network.tensors) if _is_there(tensor))
    for operator in network.operators:
        for index in operator.inputs:
            if index >= 0 and index not in known:
                what = "it is read before it is written" if index in written else "nobody writes it"
                place = f"operator {operator.name!r}: tensor {network.tensors[index].name!r}"
                raise GraphError(what, place=place, expected="operators in a topological order")
        known.update(operator.outputs)
    for index in network.written:
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
