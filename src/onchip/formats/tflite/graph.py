"""Build a Graph from a flat TFLite network: constants disappear, views fold, operators get onchip's kinds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from onchip.errors import GraphError
from onchip.formats.networks import NEXT
from onchip.formats.tflite.file import ModelFile, bits_of, type_name
from onchip.formats.tflite.kinds import DescribedOperator, Operands, description_of, in_own_words
from onchip.formats.tflite.network import FlatNetwork, NetworkOperator
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
                    place = f"tensor {self.storage.tensor(index).name!r}"
                    raise GraphError(what, place=place, expected="one operator")
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
            raise GraphError(what, place=f"tensor {tensor.name!r}", expected="numbers")
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
