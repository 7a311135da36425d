"""The network of a TFLite file: its first subgraph, with calls, branches and loops inlined.

A branch with a known condition is inlined; otherwise both are, and a SELECT_V2 selects the result. A loop with a known
trip count is unrolled, up to a limit; any other loop stays one operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Final, TypeAlias

import numpy as np

from onchip.errors import GraphError
from onchip.formats.states_and_loops import (
    EXPECTED_OF_KEPT_LOOPS,
    GREATEST_ITERATIONS,
    GREATEST_UNROLLED_NODES,
    ensure_of_a_size,
)
from onchip.formats.tflite.file import (
    GREATEST_COUNT,
    FileOperator,
    FileSubgraph,
    FileTensor,
    ModelFile,
    bits_of,
    dtype_of,
    options_of,
)
from onchip.formats.tflite.graph import build_network
from onchip.formats.tflite.network import (
    ABSENT,
    LOOPS,
    FlatNetwork,
    NetworkOperator,
    Values,
    Variables,
    ensure_written_before_read,
    named,
)
from onchip.ir.graph import Graph
from onchip.ir.tensor import size_in_bytes
from onchip.model.capacity.bounds import inner_peak_bytes

Known: TypeAlias = "Values | None"
"""A value if it follows from constants, else None."""
_GREATEST_ELEMENTS: Final = 16
_GREATEST_STEPS: Final = 200_000
_COMPUTED: Final[Mapping[str, np.ufunc]] = {
    "ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "MINIMUM": np.minimum, "MAXIMUM": np.maximum,
    "LESS": np.less, "LESS_EQUAL": np.less_equal, "GREATER": np.greater, "GREATER_EQUAL": np.greater_equal,
    "EQUAL": np.equal, "NOT_EQUAL": np.not_equal,
    "LOGICAL_AND": np.logical_and, "LOGICAL_OR": np.logical_or, "LOGICAL_NOT": np.logical_not,
}  # fmt: skip
"""Kinds that compute counters and conditions, over integers and truth values."""
_DEEPEST_CALL: Final = 32


def flat_network(file: ModelFile) -> FlatNetwork:
    """Inline the main subgraph; raises GraphError for control flow of unknown size and for unwritten operands."""
    bodies = Bodies(
        lambda index, depth, bodies: _flat(file, index, depth, bodies),
        lambda network: build_network(file, network, network.name or "body").graph,
    )
    return _flat(file, 0, 0, bodies)


def _flat(file: ModelFile, index: int, depth: int, bodies: Bodies) -> FlatNetwork:
    inlining = _Inlining(file, bodies)
    main = file.subgraphs[index]
    first = inlining.add_tensors(main)
    inlining.run(main, first, depth)
    return inlining.network(main)


@dataclass
class _Inlining:
    """The state of inlining; `same` maps a tensor to the tensor that it equals, across the borders of calls."""

    file: ModelFile
    bodies: Bodies
    tensors: list[FileTensor] = field(default_factory=list)
    steps: list[InlinedStep] = field(default_factory=list)
    same: dict[int, int] = field(default_factory=dict)
    variables: Variables = field(default_factory=Variables)
    first_steps: list[InlinedStep] = field(default_factory=list)
    has_run_once: set[int] = field(default_factory=set)
    remarks: list[str] = field(default_factory=list)
    undecided: int = 0
    unrolled: int = 0

    def network(self, main: FileSubgraph) -> FlatNetwork:
        """Return the inlined network; raises GraphError for unwritten operands."""
        self.same |= self.variables.constants("READ_VARIABLE")
        tensors = named(self.tensors)
        operators: list[NetworkOperator] = []
        for step in (*self.first_steps, *self.steps):
            read, written = tuple(map(self.resolved, step.inputs)), tuple(map(self.resolved, step.outputs))
            if not written:
                what = f"{step.operator.kind} writes nothing"
                raise GraphError(what, f"operator {len(operators)}", "at least one output")
            name, workspace = tensors[written[0]].name, 0 if step.need is None else step.need.workspace_bytes
            operators.append(NetworkOperator(name, read, written, step.operator, step.first, step.within, workspace))
        given = tuple(self.resolved(index) for index in main.inputs if index >= 0)
        wanted = tuple(self.resolved(index) for index in main.outputs if index >= 0)
        kept = self.variables.kept(self.resolved)
        network = FlatNetwork(main.name, tensors, tuple(operators), given, wanted, kept, tuple(self.remarks))
        ensure_written_before_read(network)
        return network

    def add_tensors(self, subgraph: FileSubgraph) -> int:
        """Add the tensors of a subgraph; return the index of the first. Raises GraphError for too many."""
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
        """Take over the operators of a subgraph whose tensors begin at `first`; raises GraphError."""
        if depth > _DEEPEST_CALL:
            what = "its subgraphs call each other"
            raise GraphError(what, expected=f"at most {_DEEPEST_CALL} calls inside each other")
        for operator in subgraph.operators:
            inputs = tuple(ABSENT if at < 0 else self.resolved(first + at) for at in operator.inputs)
            self._take(InlinedStep(operator, first, inputs, tuple(first + at for at in operator.outputs)), depth)

    def _take(self, step: InlinedStep, depth: int) -> None:
        match step.operator.kind:
            case "CALL":
                body = self.file.subgraphs[self._subgraph_index(step, "subgraph")]
                self._hand_out(step, self._inlined(step, body, step.inputs, depth))
            case "IF":
                self._branch(step, depth)
            case kind if kind in LOOPS:
                self._loop(step, depth)
            case "CALL_ONCE":
                self._run_once(step, depth)
            case "VAR_HANDLE":
                for index in step.outputs:
                    self.variables.add_handle(index, step.operator)
            case "READ_VARIABLE":
                self._read(step)
            case "ASSIGN_VARIABLE":
                self._assign(step)
            case _:
                self._add(step)

    def _add(self, step: InlinedStep) -> None:
        self.steps.append(step)
        if len(self.steps) > GREATEST_COUNT:
            raise GraphError(f"calls make {len(self.steps)} operators", expected=f"at most {GREATEST_COUNT}")

    # Subgraphs

    def _inlined(
        self, step: InlinedStep, body: FileSubgraph, inputs: Sequence[int], depth: int, stated_at: int | None = None
    ) -> tuple[int, ...]:
        """Inline a subgraph on these inputs; return its outputs. Constants are those of the copy at `stated_at`."""
        self._has_operands(step, body, len(inputs))
        first = self.add_tensors(body)
        for at, tensor in enumerate(body.tensors):
            if stated_at is not None and (tensor.content is not None or tensor.is_variable):
                self.same[first + at] = self.resolved(stated_at + at)
        for inner, outer in zip(body.inputs, inputs, strict=True):
            if inner >= 0 and outer >= 0 and first + inner != self.resolved(outer):
                self.same[first + inner] = self.resolved(outer)
        self.run(body, first, depth + 1)
        return tuple(ABSENT if inner < 0 else self.resolved(first + inner) for inner in body.outputs)

    def _has_operands(self, step: InlinedStep, body: FileSubgraph, inputs: int, outputs: int | None = None) -> None:
        expected = len(step.outputs) if outputs is None else outputs
        if inputs != len(body.inputs) or expected != len(body.outputs):
            wanted = f"{len(body.inputs)} inputs and {len(body.outputs)} outputs, as its subgraph has"
            what = f"{step.operator.kind} has {inputs} inputs and {expected} outputs"
            raise GraphError(what, self._place(step), wanted)

    def _hand_out(self, step: InlinedStep, results: Sequence[int]) -> None:
        for result, outer in zip(results, step.outputs, strict=True):
            if result >= 0 and result != outer:
                self.same[outer] = result

    def _subgraph_index(self, step: InlinedStep, option: str) -> int:
        index = options_of(step.operator).get(option, 0)
        if not 0 < index < len(self.file.subgraphs):
            what = f"it runs subgraph {index} of {len(self.file.subgraphs)}"
            raise GraphError(what, self._place(step), "another one of the file's")
        return int(index)

    def _place(self, step: InlinedStep) -> str:
        known = step.outputs or tuple(index for index in step.inputs if index >= 0)
        return f"operator {self.tensors[known[0]].name!r}" if known else f"operator {len(self.steps)}"

    # IF

    def _branch(self, step: InlinedStep, depth: int) -> None:
        condition = step.inputs[0] if step.inputs else ABSENT
        options = ("then_subgraph_index", "else_subgraph_index")
        stated = self.tensors[condition].content if condition >= 0 else None
        if stated is not None:
            taken = options[0] if any(self.file.content[stated.start : stated.stop]) else options[1]
            branch = self.file.subgraphs[self._subgraph_index(step, taken)]
            self._hand_out(step, self._inlined(step, branch, step.inputs[1:], depth))
            return
        branches = [self.file.subgraphs[self._subgraph_index(step, option)] for option in options]
        self.undecided += 1
        found = [self._inlined(step, branch, step.inputs[1:], depth) for branch in branches]
        self.undecided -= 1
        for output, one, other in zip(step.outputs, *found, strict=True):
            self._are_alike(step, [self.tensors[index] for index in (one, other, output) if index >= 0])
            if one == other:
                self.same[output] = one
            else:
                select = FileOperator("SELECT_V2", (), (), None)
                self._add(InlinedStep(select, step.first, (condition, one, other), (output,)))
        what = f"{self._place(step)}: its condition is not known before it runs: both branches are planned"
        self.remarks.append(f"{what}, and a SELECT_V2 takes the one")

    def _are_alike(self, step: InlinedStep, stated: Sequence[FileTensor]) -> None:
        """Raise GraphError for tensors of several types or shapes where one stands for the other."""
        if len({(each.shape, each.element_type) for each in stated}) != 1:
            shapes = ", ".join(str(list(each.shape)) for each in stated)
            what = f"{step.operator.kind} hands on {stated[-1].name!r} as {shapes}"
            raise GraphError(what, self._place(step), "one type and shape")

    # Loops

    def _loop(self, step: InlinedStep, depth: int) -> None:
        indices = [self._subgraph_index(step, f"{which}_subgraph_index") for which in ("cond", "body")]
        condition, body = (self.file.subgraphs[index] for index in indices)
        self._has_operands(step, body, len(step.inputs))
        self._has_operands(step, condition, len(step.inputs), 1)
        known = [None if at < 0 else value_of(self.file, self.tensors[at]) for at in step.inputs]
        trips = trips_of(self.file, condition, body, known)
        too_many = trips is not None and trips * (1 + len(body.operators)) > GREATEST_UNROLLED_NODES - self.unrolled
        if trips is None or trips > GREATEST_ITERATIONS or too_many:
            self._keep(step, indices[0], indices[1], trips, depth)
            return
        state, first = step.inputs, None
        self.unrolled += trips * (1 + len(body.operators))
        for _ in range(trips):
            begins, said = len(self.tensors), len(self.remarks)
            state = self._inlined(step, body, state, depth, first)
            if first is not None:
                del self.remarks[said:]  # remarks on the body are kept once
            first = begins if first is None else first
        self.remarks.append(f"{self._place(step)}: it runs {trips} times: each iteration's operators are planned")
        self._hand_out(step, state)

    def _keep(self, step: InlinedStep, condition: int, body: int, trips: int | None, depth: int) -> None:
        """Keep a loop as one operator, with the workspace of its condition and body; raises GraphError."""
        decides, runs = self.file.subgraphs[condition], self.file.subgraphs[body]
        for at, (outer, output) in enumerate(zip(step.inputs, step.outputs, strict=True)):
            stated = [self.tensors[index] for index in (outer, output) if index >= 0]
            stated += [graph.tensors[graph.inputs[at]] for graph in (decides, runs)]
            stated.append(runs.tensors[runs.outputs[at]])
            self._are_alike(step, stated)
        need = self.bodies.need(condition, body, depth, self._place(step))
        first = len(self.tensors)
        self.tensors.extend(need.constants)
        within = tuple(range(first, len(self.tensors)))
        self._add(InlinedStep(step.operator, step.first, step.inputs, step.outputs, need, within))
        many = "how often it runs is not known" if trips is None else f"it runs {trips} times"
        many = f"it runs more than {GREATEST_ITERATIONS} times" if (trips or 0) > GREATEST_ITERATIONS else many
        what = f"{self._place(step)}: {many}: it stays one operator, with a workspace of {need.workspace_bytes} bytes"
        self.remarks.append(f"{what} for what lives in its body at once and for its state once more")

    # Variables

    def _run_once(self, step: InlinedStep, depth: int) -> None:
        """Record the initial values of variables; the subgraph does not run in an inference."""
        index = self._subgraph_index(step, "init_subgraph_index")
        if index in self.has_run_once:
            return
        self.has_run_once.add(index)
        subgraph = self.file.subgraphs[index]
        own, steps = self.variables, self.steps
        self.variables, self.steps = Variables(own.handles), []
        self.run(subgraph, self.add_tensors(subgraph), depth + 1)
        self.first_steps += self._constant_steps(self.steps)
        own.initial |= {name: self.resolved(held) for name, held in self.variables.held.items()}
        self.variables, self.steps = own, steps
        what = f"subgraph {index} runs once, before the first inference, and is not planned"
        names = ", ".join(repr(name[1]) for name in own.initial) or "nothing"
        self.remarks.append(f"{what}: it says what variables begin with ({names})")

    def _constant_steps(self, steps: Sequence[InlinedStep]) -> list[InlinedStep]:
        """Return the steps whose values are constants."""
        known: set[int] = set()
        found = []
        for step in steps:
            read = [self.resolved(index) for index in step.inputs if index >= 0]
            if read and all(index in known or self.tensors[index].content is not None for index in read):
                known.update(map(self.resolved, step.outputs))
                found.append(step)
        return found

    def _read(self, step: InlinedStep) -> None:
        name = self.variables.of(step.operator, step.inputs, self._place(step))
        for index in step.outputs:
            held = self.variables.held.get(name, self.variables.first_read.get(name))
            if held is None:
                self.variables.first_read[name] = index
            else:
                self.same[index] = held

    def _assign(self, step: InlinedStep) -> None:
        name = self.variables.of(step.operator, step.inputs, self._place(step))
        if self.undecided or len(step.inputs) < 2 or step.inputs[1] < 0:
            what = f"variable {name[1]!r} is assigned inside a conditional branch, or without a value"
            raise GraphError(what, self._place(step), "assignments that run in every inference")
        self.variables.held[name] = self.resolved(step.inputs[1])


def trips_of(file: ModelFile, condition: FileSubgraph, body: FileSubgraph, given: Sequence[Known]) -> int | None:
    """Return the trip count of a loop for these initial values; None if unknown, the limit plus one above it."""
    state, steps = list(given), 0
    for trips in range(GREATEST_ITERATIONS + 1):
        (goes_on,) = _outputs(file, condition, state) or (None,)
        if goes_on is None or goes_on.size != 1:
            return None
        if not goes_on.any():
            return trips
        state = _outputs(file, body, state)
        steps += len(condition.operators) + len(body.operators)
        if steps > _GREATEST_STEPS:
            return None
    return GREATEST_ITERATIONS + 1


def value_of(file: ModelFile, tensor: FileTensor) -> Known:
    """Return the value of a constant of a few integers or truth values; None for any other tensor."""
    dtype = dtype_of(tensor.element_type)
    if tensor.content is None or tensor.is_sparse or dtype is None or dtype.kind not in "biu":
        return None
    content = file.content[tensor.content.start : tensor.content.stop]
    elements = prod(tensor.shape)
    if elements > _GREATEST_ELEMENTS or len(content) != elements * dtype.itemsize:
        return None
    return np.frombuffer(content, dtype).reshape(tensor.shape)


def _outputs(file: ModelFile, graph: FileSubgraph, given: Sequence[Known]) -> list[Known]:
    """Return the outputs of a graph for these inputs, as far as they follow from constants."""
    found: dict[int, Known] = dict(zip(graph.inputs, given, strict=False))

    def known_at(index: int) -> Known:
        if index not in found:
            found[index] = value_of(file, graph.tensors[index]) if 0 <= index < len(graph.tensors) else None
        return found[index]

    for operator in graph.operators:
        compute = _COMPUTED.get(operator.kind)
        if compute is None or len(operator.outputs) != 1:
            continue
        operands = [known_at(index) for index in operator.inputs]
        known = [value for value in operands if value is not None]
        is_plain = not options_of(operator).get("fused_activation_function")
        if len(known) == len(operands) == compute.nin and is_plain and len({value.dtype for value in known}) == 1:
            with np.errstate(all="ignore"):
                found[operator.outputs[0]] = np.asarray(compute(*known))
    return [known_at(index) for index in graph.outputs]


@dataclass(frozen=True, slots=True)
class BodyNeed:
    """Requirements of a loop in addition to its operands: a workspace, and the constants of its subgraphs."""

    workspace_bytes: int
    constants: tuple[FileTensor, ...]


@dataclass(frozen=True, slots=True)
class InlinedStep:
    """An operator, the index of the first tensor of its subgraph, and its operands as indices of the network's."""

    operator: FileOperator
    first: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    need: BodyNeed | None = None
    within: tuple[int, ...] = ()


@dataclass
class Bodies:
    """Subgraphs of a file as separate networks with their inner peaks in bytes, each planned once.

    `flat` inlines a subgraph at a depth of calls; `graph_of` builds the graph of the result.
    """

    flat: Callable[[int, int, Bodies], FlatNetwork]
    graph_of: Callable[[FlatNetwork], Graph]
    planned: dict[int, tuple[FlatNetwork, int]] = field(default_factory=dict)

    def need(self, condition: int, body: int, depth: int, place: str) -> BodyNeed:
        """Return the requirements of a loop; raises GraphError for subgraphs that cannot be planned.

        The workspace is the peak inside the condition (with its result) or the body, without their inputs and outputs,
        plus a second copy of the state that an iteration changes, since it reads the state while it writes the next.
        """
        (decides, of_condition), (runs, of_body) = (self._planned(index, depth, place) for index in (condition, body))
        changed = [output for given, output in zip(runs.inputs, runs.outputs, strict=False) if given != output]
        state = _bytes_of(runs, changed)
        workspace_bytes = max(of_condition + _bytes_of(decides, decides.outputs), of_body) + state
        ensure_of_a_size(workspace_bytes, state, place)
        return BodyNeed(workspace_bytes, tuple((_constants(decides) | _constants(runs)).values()))

    def _planned(self, index: int, depth: int, place: str) -> tuple[FlatNetwork, int]:
        if index not in self.planned:
            try:
                network = self.flat(index, depth + 1, self)
                if network.variables or any(tensor.stated.is_variable for tensor in network.tensors):
                    raise GraphError("it keeps variables from one iteration to the next", expected="none in a loop")
                self.planned[index] = network, inner_peak_bytes(self.graph_of(network))
            except GraphError as error:
                where = f"{error.place}: " if error.place else ""
                what = f"its subgraph {index} cannot be planned: {where}{error.what}"
                raise GraphError(what, place, error.expected or EXPECTED_OF_KEPT_LOOPS) from None
        return self.planned[index]


def _constants(network: FlatNetwork) -> dict[int, FileTensor]:
    """Return the constants that a network reads, each once, by the position of its table in the file."""
    read = {index for one in network.operators for index in (*one.inputs, *one.within) if index >= 0}
    stated = (network.tensors[index].stated for index in sorted(read))
    return {tensor.place: tensor for tensor in stated if tensor.content is not None}


def _bytes_of(network: FlatNetwork, indices: Sequence[int]) -> int:
    tensors = (network.tensors[index] for index in indices)
    return sum(size_in_bytes(tensor.shape, bits_of(tensor.element_type) or 0) for tensor in tensors)
