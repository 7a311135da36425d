"""A network as a graph of operators and tensors, with states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import combinations

from onchip.errors import GraphError
from onchip.ir.operator import InPlace, Operator
from onchip.ir.tensor import Role, Tensor


@dataclass(frozen=True, slots=True)
class State:
    """A network input `old` whose next value is the network output `new`, of the same size.

    `alias` is the name under which a file lists `new` as an output if that output is a view; it is no additional
    output. With `in_place` the operator that reads `old` and writes `new` may overwrite `old`: its kernel updates the
    state.
    """

    old: str
    new: str
    in_place: bool = False
    alias: str = ""


RESERVED_NAME = "dram"


@dataclass(frozen=True)
class Graph:
    """A network of tensors and operators; the operators are in the given order, which is topological.

    `states` are pairs of a network input and a network output. Raises GraphError for duplicate or reserved names,
    unknown tensors, a tensor with two producers or without a required one, a parameter among the inputs, cycles,
    overlapping in-place ranges, and an invalid state.
    """

    name: str
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    states: tuple[State, ...] = ()
    origin: object | None = field(default=None, init=False, repr=False, compare=False)
    """Origin of a graph that was read from a file; a changed copy has none."""

    def __post_init__(self) -> None:
        self._names_are_unique()
        self._operands_are_known()
        self._each_tensor_has_the_producer_its_role_asks_for()
        self._the_given_order_is_topological()
        self._what_is_in_place_lies_within()
        self._a_state_is_an_input_and_an_output()

    @cached_property
    def tensor(self) -> Mapping[str, Tensor]:
        """Return a map from name to tensor."""
        return {tensor.name: tensor for tensor in self.tensors}

    @cached_property
    def operator(self) -> Mapping[str, Operator]:
        """Return a map from name to operator."""
        return {operator.name: operator for operator in self.operators}

    @cached_property
    def producer(self) -> Mapping[str, Operator]:
        """Return a map from tensor name to the operator that writes it; network inputs and parameters have none."""
        return {name: operator for operator in self.operators for name in operator.outputs}

    @cached_property
    def readers(self) -> Mapping[str, tuple[Operator, ...]]:
        """Return a map from tensor name to the operators that read it, each once, in the given order."""
        readers: dict[str, list[Operator]] = {tensor.name: [] for tensor in self.tensors}
        for operator in self.operators:
            for name in operator.reads:
                readers[name].append(operator)
        return {name: tuple(operators) for name, operators in readers.items()}

    @cached_property
    def shares_bytes(self) -> bool:
        """Return True if some output may share bytes with an input."""
        return any(operator.in_place for operator in self.operators)

    def states_among(self, tensors: Iterable[Tensor]) -> tuple[State, ...]:
        """Return the states whose two tensors are both among `tensors`."""
        names = {tensor.name for tensor in tensors} if self.states else set[str]()
        return tuple(state for state in self.states if state.old in names and state.new in names)

    def with_role(self, role: Role) -> tuple[Tensor, ...]:
        """Return the tensors of one role, in order."""
        return tuple(tensor for tensor in self.tensors if tensor.role is role)

    def with_bits(self, bits: int) -> Graph:
        """Return the same network with `bits` per element; raises GraphError if a shape is unknown."""
        return replace(self, tensors=tuple(_with_bits(tensor, bits) for tensor in self.tensors))

    def _names_are_unique(self) -> None:
        tensor_names = Counter(name for tensor in self.tensors for name in (tensor.name, *tensor.aliases))
        operator_names = Counter(operator.name for operator in self.operators)
        for what, names in (("tensor", tensor_names), ("operator", operator_names)):
            for name, times in names.items():
                if times > 1:
                    raise GraphError(f"{times} {what}s have this name", place=f"{what} {name!r}", expected="one")
                if name == RESERVED_NAME:
                    raise GraphError("the name is reserved", place=f"{what} {name!r}", expected="another name")

    def _operands_are_known(self) -> None:
        for operator in self.operators:
            for names in (operator.inputs, operator.parameters, operator.outputs):
                for name in names:
                    if name not in self.tensor:
                        place, expected = f"operator {operator.name!r}", "a tensor of the graph"
                        raise GraphError(f"tensor {name!r} is unknown", place=place, expected=expected)
            for names, is_parameter in ((operator.inputs, False), (operator.parameters, True)):
                for name in names:
                    role = self.tensor[name].role
                    if (role is Role.PARAMETER) is not is_parameter:
                        listed = "parameters" if is_parameter else "inputs"
                        raise GraphError(
                            f"{name!r} of role {role} stands among its {listed}",
                            place=f"operator {operator.name!r}",
                            expected="parameters among parameters, all else among inputs",
                        )

    def _each_tensor_has_the_producer_its_role_asks_for(self) -> None:
        producers: dict[str, str] = {}
        for operator in self.operators:
            for name in operator.outputs:
                if name in producers:
                    raise GraphError(
                        f"both {producers[name]!r} and {operator.name!r} write it",
                        place=f"tensor {name!r}",
                        expected="one producer",
                    )
                producers[name] = operator.name
        for tensor in self.tensors:
            is_source = tensor.role in (Role.INPUT, Role.PARAMETER)
            if is_source and tensor.name in producers:
                raise GraphError(
                    f"operator {producers[tensor.name]!r} writes it",
                    place=f"tensor {tensor.name!r}",
                    expected=f"no producer for role {tensor.role}",
                )
            if not is_source and tensor.name not in producers:
                raise GraphError(
                    "no operator writes it",
                    place=f"tensor {tensor.name!r}",
                    expected=f"a producer for role {tensor.role}",
                )

    def lender(self, tensor: str, offset_bytes: int, offset_of: Callable[[str], int | None]) -> str | None:
        """Return the resident input whose bytes an output takes at an offset; None if the output takes free bytes."""
        producer = self.producer.get(tensor)
        pairs = () if producer is None else producer.in_place
        taken = (one.input for one in pairs if one.output == tensor and offset_of(one.input) == offset_bytes)
        return next(taken, None)

    def _what_is_in_place_lies_within(self) -> None:
        """Check that one tensor of each pair contains the other, and that pairs are disjoint or alternatives."""
        for operator in filter(lambda one: one.in_place, self.operators):
            pairs = [(one, self._shared_range(operator, one)) for one in operator.in_place]
            inputs = Counter(one.input for one in operator.in_place)
            for (one, mine), (other, its) in combinations(pairs, 2):
                is_choice = one.output == other.output and mine == its and inputs[one.input] == inputs[other.input] == 1
                shift = other.shift_bytes - one.shift_bytes if one.output != other.output else 0
                is_apart = mine[1] <= its[0] + shift or its[1] + shift <= mine[0]
                if (one.output != other.output and one.input != other.input) or is_choice or is_apart:
                    continue
                what = f"{one.output!r} in place of {one.input!r} and {other.output!r} of {other.input!r} share bytes"
                raise GraphError(what, place=f"operator {operator.name!r}", expected="bytes of their own, or a choice")

    def _shared_range(self, operator: Operator, one: InPlace) -> tuple[int, int]:
        """Return the byte range of the output that is shared with the input; raises GraphError if it is partial."""
        read, written = self.tensor[one.input].size_bytes, self.tensor[one.output].size_bytes
        start, stop = max(0, -one.shift_bytes), min(written, read - one.shift_bytes)
        if stop - start != min(read, written):
            what = f"{one.output!r} of {written} bytes is in place of {one.input!r} of {read}"
            where = f"{what}, {one.shift_bytes} behind it" if one.shift_bytes else what
            raise GraphError(where, place=f"operator {operator.name!r}", expected="one within the other")
        return start, stop

    def _a_state_is_an_input_and_an_output(self) -> None:
        """Check that each tensor is in at most one state, and that both tensors of a state have the same size."""
        seen: set[str] = set()
        for state in self.states:
            for name, role in ((state.old, Role.INPUT), (state.new, Role.OUTPUT)):
                place = f"state {state.old!r}"
                if name not in self.tensor:
                    raise GraphError(f"tensor {name!r} is unknown", place=place, expected="a tensor of the graph")
                if self.tensor[name].role is not role:
                    what = f"{name!r} has the role {self.tensor[name].role}"
                    raise GraphError(what, place=place, expected="a network input, then a network output")
                if name in seen:
                    raise GraphError(f"{name!r} is in two states", place=place, expected="one")
                seen.add(name)
            old, new = self.tensor[state.old].size_bytes, self.tensor[state.new].size_bytes
            if old != new:
                what = f"{state.old!r} has {old} bytes and {state.new!r} has {new}"
                raise GraphError(what, place=f"state {state.old!r}", expected="as many")

    def _the_given_order_is_topological(self) -> None:
        position = {operator.name: index for index, operator in enumerate(self.operators)}
        written = {name: index for index, operator in enumerate(self.operators) for name in operator.outputs}
        # In large networks this check is much faster than a search for cycles.
        if all(
            written.get(name, -1) < index for index, operator in enumerate(self.operators) for name in operator.inputs
        ):
            return
        predecessors = {
            operator.name: [self.producer[name].name for name in operator.reads if name in self.producer]
            for operator in self.operators
        }
        try:
            tuple(TopologicalSorter(predecessors).static_order())
        except CycleError as error:
            cycle = " -> ".join(repr(name) for name in error.args[1])
            raise GraphError(f"the operators {cycle} form a cycle", expected="an acyclic graph") from None
        for name, befores in predecessors.items():
            for before in befores:
                if position[before] > position[name]:
                    raise GraphError(
                        f"it stands before {before!r}, whose output it reads",
                        place=f"operator {name!r}",
                        expected="operators in a topological order",
                    )


def _with_bits(tensor: Tensor, bits: int) -> Tensor:
    if tensor.shape is None:
        raise GraphError(
            f"it is given in bytes, so it cannot be counted at {bits} bits per element",
            place=f"tensor {tensor.name!r}",
            expected="shape and bits",
        )
    resized = Tensor.of_shape(tensor.name, tensor.shape, bits, tensor.role)
    return replace(resized, aliases=tensor.aliases, part_of=tensor.part_of, region=tensor.region)
