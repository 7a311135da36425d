"""Build a Graph from a flat TFLite network, and a part of a model as a model of its own.

An offset of a flatbuffer leads forwards. Therefore new tables in front of the old bytes can lead to the tables,
vectors and strings there, which are not copied.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import flatbuffers
import numpy as np
import numpy.typing as npt

from onchip.errors import GraphError
from onchip.formats.states_and_loops import NEXT
from onchip.formats.tflite.file import Accessor, ModelFile, bits_of, refused_if_damaged, type_name
from onchip.formats.tflite.kinds import DescribedOperator, Operands, description_of, in_own_words
from onchip.formats.tflite.network import LOOPS, FlatNetwork, NetworkOperator
from onchip.formats.tflite.storage import MapLayouts, Presentation, TensorStorage
from onchip.ir.graph import Graph, State
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor


@dataclass(frozen=True, slots=True)
class ReadNetwork:
    """A graph with its sources.

    `index` maps a tensor's name to its index in the network, and `presented` to the order of its axes; a state has two
    names, the second for its next value. `source` maps an operator's name to the operator of the network.
    """

    graph: Graph
    file: ModelFile
    storage: TensorStorage
    index: dict[str, int]
    presented: dict[str, Presentation]
    source: dict[str, NetworkOperator]

    @property
    def network(self) -> FlatNetwork:
        """The network of the file."""
        return self.storage.network

    @property
    def states(self) -> tuple[str, ...]:
        """The names of the tensors that keep their value from one inference to the next."""
        inputs = self.graph.with_role(Role.INPUT)
        kept = {variable.before for variable in self.network.variables}
        indices = [(tensor.name, self.index[tensor.name]) for tensor in inputs]
        return tuple(name for name, index in indices if index in kept or self.storage.is_state(index))


def build_network(file: ModelFile, network: FlatNetwork, name: str) -> ReadNetwork:
    """Build the raw graph; raises GraphError for elements without a size and for a state that two operators share."""
    return _NetworkBuilder(file, TensorStorage(file, network), name).build()


@dataclass
class _NetworkBuilder:
    file: ModelFile
    storage: TensorStorage
    name: str
    tensors: dict[str, Tensor] = field(default_factory=dict)
    operators: list[Operator] = field(default_factory=list)
    index: dict[str, int] = field(default_factory=dict)
    presented: dict[str, Presentation] = field(default_factory=dict)
    source: dict[str, NetworkOperator] = field(default_factory=dict)
    copies: dict[int, str] = field(default_factory=dict)
    states: list[State] = field(default_factory=list)
    layouts: MapLayouts = field(init=False)
    taken: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.layouts = MapLayouts(self.storage)
        self.taken = {tensor.name for tensor in self.storage.network.tensors}

    def build(self) -> ReadNetwork:
        network = self.storage.network
        outputs, inputs = dict.fromkeys(network.written), set(network.inputs)
        for index in dict.fromkeys(network.inputs):
            self._add(index, Role.INPUT)
        self._add_states(inputs)
        for variable in network.variables:
            self._add(variable.before, Role.INPUT)
        described = self._described()
        for index in outputs:
            if self.storage.writer(index) is None:
                self._add_copy(index)
        for operator in network.operators:
            if (description := described.get(operator.name)) is not None:
                self._add_operator(operator, description)
            else:
                for index in operator.outputs:
                    if index in outputs and self._is_source(self.storage.base(index)):
                        self._add_copy(index)
        self._mark_outputs()
        self.states += self._variables_that_stay()
        graph = Graph(self.name, tuple(self.tensors.values()), tuple(self.operators), tuple(self.states))
        return ReadNetwork(graph, self.file, self.storage, self.index, self.presented, self.source)

    def _variables_that_stay(self) -> Iterator[State]:
        """Yield the variables whose next value has a tensor that is nothing else: no output, nor another variable."""
        network = self.storage.network
        shown = Counter(self.storage.base(one) for one in dict.fromkeys(network.outputs))
        shown.update(self.storage.base(variable.after) for variable in network.variables)
        for variable in network.variables:
            base = self.storage.base(variable.after)
            old = self.storage.tensor(variable.before).name
            new = self.copies.get(base, self.storage.tensor(base).name)
            if shown[base] == 1 and self.tensors[old].size_bytes == self.tensors[new].size_bytes:
                yield State(old, new)

    def _described(self) -> dict[str, DescribedOperator]:
        """Return the description of each operator that runs; the first of two orders of a parameter wins."""
        described: dict[str, DescribedOperator] = {}
        order: dict[int, Presentation] = {}
        for operator in self.storage.network.operators:
            if self.storage.is_folded(operator):
                continue
            operands = Operands(operator, self.storage, self.layouts)
            description = description_of(operands)
            if any(order.get(index, wanted) != wanted for index, wanted in description.parameters):
                description = in_own_words(operands)
            if description.kind != operator.kind:
                order |= dict(description.parameters)
            described[operator.name] = description
        for index, presented in order.items():
            self._add(index, Role.PARAMETER, presented)
        return described

    def _add_states(self, inputs: set[int]) -> None:
        """Add the states as inputs; raises GraphError for a state that two operators share."""
        owner: dict[int, str] = {}
        for operator in self.storage.network.operators:
            for index in self.storage.state_of(operator):
                if index in owner:
                    what = f"both {owner[index]!r} and {operator.name!r} keep their state in it"
                    raise GraphError(what, f"tensor {self.storage.tensor(index).name!r}", "one operator")
                owner[index] = operator.name
                if index not in inputs:
                    self._add(index, Role.INPUT)

    def _add_operator(self, operator: NetworkOperator, description: DescribedOperator) -> None:
        outputs = [self._add(index, Role.ACTIVATION) for index in operator.outputs]
        for index in self.storage.state_of(operator):
            name = self._fresh(f"{self.storage.tensor(index).name}{NEXT}")
            outputs.append(self._add(index, Role.OUTPUT, name=name))
            self.states.append(State(self.storage.tensor(index).name, name, in_place=True))
        inputs = tuple(self.storage.tensor(self.storage.base(index)).name for index in description.inputs)
        parameters = tuple(self._add(index, Role.PARAMETER) for index, _ in description.parameters)
        self.source[operator.name] = operator
        self.operators.append(
            Operator(
                operator.name,
                description.kind,
                inputs,
                tuple(outputs),
                parameters,
                dict(description.attributes),
                workspace_bytes=operator.workspace_bytes,
            )
        )

    def _is_source(self, base: int) -> bool:
        """Return True if no operator writes `base`; an output over it must be copied."""
        return self.storage.is_constant(base) or self.storage.writer(base) is None

    def _add_copy(self, output: int) -> None:
        """Add an Identity that writes a network output over an input, a state or a parameter."""
        base = self.storage.base(output)
        if base in self.copies:
            copy = self.tensors[self.copies[base]]
            self.tensors[copy.name] = replace(copy, aliases=(*copy.aliases, self.storage.tensor(output).name))
            return
        own = self.storage.tensor(output).name
        name = self._fresh(f"{own}.output") if output == base else own
        is_parameter = self.storage.is_constant(base)
        stored = tuple(self.storage.stored_as(base)) if is_parameter else ()
        parameters = tuple(self._add(index, Role.PARAMETER) for index in stored)
        presented = None if is_parameter or output != base else self.layouts.presented(base)
        self._add(output, Role.OUTPUT, presented or Presentation.of(self.storage.tensor(output).shape), name=name)
        self.copies[base] = name
        inputs = () if is_parameter else (self.storage.tensor(base).name,)
        self.operators.append(Operator(name, "Identity", inputs, (name,), parameters))

    def _add(self, index: int, role: Role, presented: Presentation | None = None, name: str = "") -> str:
        """Add a tensor unless it is known; return its name. Raises GraphError for elements without a size."""
        tensor = self.storage.tensor(index)
        name = name or tensor.name
        if name in self.tensors:
            return name
        bits = bits_of(tensor.element_type)
        if bits is None:
            what = f"its elements, {type_name(tensor.element_type)}, have no fixed size"
            raise GraphError(what, f"tensor {tensor.name!r}", "numbers")
        if presented is None:
            is_parameter = role is Role.PARAMETER
            presented = Presentation.of(tensor.shape) if is_parameter else self.layouts.presented(index)
        self.index[name], self.presented[name] = index, presented
        self.tensors[name] = Tensor.of_shape(name, presented.shape, bits, role)
        return name

    def _mark_outputs(self) -> None:
        for output in dict.fromkeys(self.storage.network.written):
            base = self.storage.base(output)
            if self._is_source(base):
                continue
            own, name = self.storage.tensor(output).name, self.storage.tensor(base).name
            tensor = self.tensors[name]
            aliases = tensor.aliases if output == base else (*tensor.aliases, own)
            self.tensors[name] = replace(tensor, role=Role.OUTPUT, aliases=aliases)

    def _fresh(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name


IDENTIFIER: Final = b"TFL3"
BUFFER_ALIGNMENT_BYTES: Final = 16
"""Alignment of the bytes of constants and of metadata."""
_ALIGNMENT_BYTES: Final = 64
_VERSION: Final = 3
_MODEL_FIELDS, _MODEL_VERSION, _MODEL_CODES, _MODEL_SUBGRAPHS, _MODEL_BUFFERS = 5, 0, 1, 2, 4
_CODE_FIELDS, _CODE_OLDER_NUMBER, _CODE_VERSION, _CODE_NUMBER = 4, 0, 2, 3
_SUBGRAPH_FIELDS, _SUBGRAPH_TENSORS, _SUBGRAPH_INPUTS, _SUBGRAPH_OUTPUTS, _SUBGRAPH_OPERATORS = 4, 0, 1, 2, 3
_OPERATOR_FIELDS, _OPERATOR_CODE, _OPERATOR_INPUTS, _OPERATOR_OUTPUTS, _OPERATOR_INTERMEDIATES = 13, 0, 1, 2, 8
_OPERATOR_NUMBERS: Final = (3, 6, 11)
"""Types of an operator's options, and the format of custom options."""
_OPERATOR_TABLES: Final = (4, 5, 7, 12)
"""Options of an operator, which stay in place, and the list of inputs that are variables."""


def field_place(table: Accessor, slot: int) -> int:
    """Return the position of a field's bytes in the file; 0 if the table does not have the field."""
    offset = table._tab.Offset(4 + 2 * slot)
    return int(table._tab.Pos + offset) if offset else 0


class Front:
    """A builder of tables in front of the bytes of a file.

    A target is the builder's position of a new object, or minus the position of an old object in the file; 0 is none.
    """

    def __init__(self, alignment_bytes: int) -> None:
        self.builder: Any = flatbuffers.Builder(0)
        self.builder.minalign = alignment_bytes

    def target(self, table: Accessor, slot: int) -> int:
        """Return the target of a field of an old table; 0 if the table does not have the field."""
        place = field_place(table, slot)
        return -int(table._tab.Indirect(place)) if place else 0

    def targets(self, table: Accessor, slot: int) -> list[int]:
        """Return the targets in a vector of an old table; empty if the table does not have the field."""
        tab, vector = table._tab, -self.target(table, slot)
        count = struct.unpack_from("<I", tab.Bytes, vector)[0] if vector else 0
        return [-int(tab.Indirect(vector + 4 + 4 * at)) for at in range(count)]

    def vector(self, targets: Sequence[int]) -> int:
        """Write a vector of offsets; return its target."""
        self.builder.StartVector(4, len(targets), 4)
        for target in reversed(targets):
            self.builder.PrependUOffsetTRelative(target)
        return int(self.builder.EndVector())

    def integers(self, numbers: Sequence[int]) -> int:
        """Write a vector of int32 numbers; return its target."""
        self.builder.StartVector(4, len(numbers), 4)
        for number in reversed(numbers):
            self.builder.PrependInt32(number)
        return int(self.builder.EndVector())

    def buffer(self, content: npt.NDArray[np.uint8]) -> int:
        """Write a buffer of these bytes; return its target."""
        self.builder.Prep(BUFFER_ALIGNMENT_BYTES, len(content))
        return self.table(1, {0: int(self.builder.CreateNumpyVector(content))}, {})

    def numbers(self, numbers: npt.NDArray[Any]) -> int:
        """Write a vector of numbers; return its target."""
        return int(self.builder.CreateNumpyVector(numbers))

    def text(self, text: str) -> int:
        """Write a text; return its target."""
        return int(self.builder.CreateString(text))

    def table(self, fields: int, targets: Mapping[int, int], numbers: Mapping[int, int]) -> int:
        """Write a table with this number of fields, each of four bytes; return its target."""
        self.builder.StartObject(fields)
        for slot, target in targets.items():
            self.builder.PrependUOffsetTRelativeSlot(slot, target, 0)
        for slot, number in numbers.items():
            self.builder.PrependInt32Slot(slot, number, None)
        return int(self.builder.EndObject())

    def finished(self, root: int) -> bytes:
        """Return the bytes in front of the file's, padded to the alignment."""
        self.builder.Finish(root, file_identifier=IDENTIFIER)
        return bytes(self.builder.Output())


def part_of_model(
    read: ReadNetwork,
    content: bytes,
    operators: Sequence[NetworkOperator],
    inputs: Sequence[int],
    outputs: Sequence[int],
) -> tuple[bytes, int]:
    """Return a model of these operators, and the number of bytes in front of `content`, the bytes of the file.

    Tensors keep the indices of the network. Raises GraphError for a file with buffers behind the flatbuffer, InputError
    for a damaged file.
    """
    file = read.file
    if file.has_outer_buffers:
        what = "models with buffers outside the flatbuffer (above 2 GB) cannot be run"
        raise GraphError(what, expected="a model with its buffers inside")
    with refused_if_damaged():
        front, table = Front(_ALIGNMENT_BYTES), file.table
        select = table.OperatorCodesLength()
        targets = {
            _SUBGRAPH_TENSORS: front.vector([-tensor.stated.place for tensor in read.network.tensors]),
            _SUBGRAPH_INPUTS: front.integers(inputs),
            _SUBGRAPH_OUTPUTS: front.integers(outputs),
            _SUBGRAPH_OPERATORS: front.vector([_operator(front, operator, select) for operator in operators]),
        }
        subgraphs = [front.table(_SUBGRAPH_FIELDS, targets, {})]
        if any(one.kind in LOOPS for one in operators):
            subgraphs += [-table.Subgraphs(at)._tab.Pos for at in range(1, len(file.subgraphs))]
        targets = {
            _MODEL_CODES: _codes(front, table),
            _MODEL_SUBGRAPHS: front.vector(subgraphs),
            _MODEL_BUFFERS: front.target(table, _MODEL_BUFFERS),
        }
        start = front.finished(front.table(_MODEL_FIELDS, targets, {_MODEL_VERSION: _VERSION}))
    return start + content, len(start)


def _codes(front: Front, model: Accessor) -> int:
    """Write the operator codes of the old model, followed by SELECT_V2."""
    import tflite

    select = tflite.BuiltinOperator.SELECT_V2
    own = front.table(_CODE_FIELDS, {}, {_CODE_OLDER_NUMBER: select, _CODE_VERSION: 1, _CODE_NUMBER: select})
    return front.vector([*(-model.OperatorCodes(at)._tab.Pos for at in range(model.OperatorCodesLength())), own])


def _operator(front: Front, operator: NetworkOperator, select: int) -> int:
    """Write an operator with the indices of the network; its options are those of the old operator, if it has one."""
    table = operator.stated.table
    targets = {_OPERATOR_INPUTS: front.integers(operator.inputs), _OPERATOR_OUTPUTS: front.integers(operator.outputs)}
    if table is None:
        return front.table(_OPERATOR_FIELDS, targets, {_OPERATOR_CODE: select})
    if table.IntermediatesLength():
        moved = [int(each) + operator.first_tensor if each >= 0 else -1 for each in table.IntermediatesAsNumpy()]
        targets[_OPERATOR_INTERMEDIATES] = front.integers(moved)
    targets |= {slot: front.target(table, slot) for slot in _OPERATOR_TABLES}
    places = {slot: field_place(table, slot) for slot in _OPERATOR_NUMBERS}
    numbers = {slot: table._tab.Bytes[place] for slot, place in places.items() if place}
    return front.table(_OPERATOR_FIELDS, targets, {_OPERATOR_CODE: table.OpcodeIndex(), **numbers})
