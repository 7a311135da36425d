"""The operators of an edge program in an order of lowest peak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import getitem
from typing import TYPE_CHECKING, Final, TypeAlias

from onchip.answer.problem import Count
from onchip.answer.result import Status
from onchip.api.budgets import roomy_problem
from onchip.backends.executorch.planner import not_installed
from onchip.errors import GraphError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.memory.spill.min_peak import min_peak_bytes, peak_of_order
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits, Run

if TYPE_CHECKING:
    from executorch.exir import EdgeProgramManager
    from torch.export import ExportedProgram
    from torch.fx import GraphModule, Node
    from torch.fx.passes.infra.pass_base import PassResult


BEGINNING: Final = "<inputs>"
END: Final = "<outputs>"
MOST_BYTES: Final = 1 << 40
Storages: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class EdgeGraph:
    """`operators` are the nodes that run something, each by the name of its operator in the graph."""

    graph: Graph
    operators: dict[str, Node]
    nodes: tuple[Node, ...]

    def nodes_in(self, order: Sequence[int]) -> list[Node]:
        """Return all nodes but inputs and output, with the operators in an order of the graph's operators."""
        emitted = {node for node in self.nodes if node.op == "placeholder"}
        running = set(self.operators.values())
        listed: list[Node] = []

        def emit(node: Node) -> None:
            emitted.add(node)
            listed.append(node)
            for user in node.users:
                if user not in running and user not in emitted and user.op != "output":
                    emit_if_ready(user)

        def emit_if_ready(node: Node) -> None:
            if all(read in emitted for read in node.all_input_nodes):
                emit(node)

        for node in self.nodes:
            if node not in emitted and node not in running and node.op != "output":
                emit_if_ready(node)
        for index in order:
            node = self.operators.get(self.graph.operators[index].name)
            if node is not None:
                emit(node)
        return listed


class EdgeReader:
    """Reads the graph of one method."""

    def __init__(self, program: ExportedProgram) -> None:
        self._nodes: tuple[Node, ...] = tuple(program.graph_module.graph.nodes)
        self._user_inputs = set(program.graph_signature.user_inputs)
        self._storages: dict[Node, Storages] = {}
        self._tensors: list[Tensor] = []
        self._operators: list[Operator] = []
        self._running: dict[str, Node] = {}

    def read(self) -> EdgeGraph:
        """Return the graph; raises GraphError where its operators may not change places, or a size has no bound."""
        inputs: list[str] = []
        for node in self._nodes:
            if node.op == "placeholder":
                self._storages[node] = self._new_storages(node) if node.name in self._user_inputs else ()
                inputs += self._storages[node]
            elif node.op != "output":
                self._read_node(node)
        if inputs:
            self._operators.insert(0, Operator(BEGINNING, "Inputs", (), tuple(inputs)))
        outputs = next(node for node in self._nodes if node.op == "output")
        self._tensors.append(Tensor(END, 1, Role.OUTPUT))
        self._operators.append(Operator(END, "Outputs", self._read_by(outputs), (END,)))
        return EdgeGraph(Graph("edge", tuple(self._tensors), tuple(self._operators)), self._running, self._nodes)

    def _read_node(self, node: Node) -> None:
        _may_change_its_place(node)
        if node.target is getitem:
            source, index = node.args
            whole, part = self._storages[source], _part_name(source, index)
            is_whole = len(_tensors_of(source)) <= 1
            self._storages[node] = whole if is_whole else tuple(name for name in whole if name == part)
            return
        # ExecuTorch will make it a view, which an output never is
        is_elided = "view_copy" in str(node.target) and all(user.op != "output" for user in node.users)
        if is_elided or not _tensors_of(node):
            self._storages[node] = self._read_by(node)
            return
        reads = self._read_by(node)
        written = self._storages[node] = self._new_storages(node)
        self._operators.append(Operator(node.name, str(node.target), reads, written))
        self._running[node.name] = node

    def _read_by(self, node: Node) -> Storages:
        return tuple(dict.fromkeys(name for read in node.all_input_nodes for name in self._storages[read]))

    def _new_storages(self, node: Node) -> Storages:
        """Add the tensors that a node writes; those without bytes only where it writes nothing else."""
        values = _tensors_of(node)
        names = [node.name] if len(values) == 1 else [_part_name(node, index) for index in range(len(values))]
        sizes = {name: _most_bytes(value, node) for name, value in zip(names, values, strict=True)}
        written = {name: size for name, size in sizes.items() if size} or dict.fromkeys(names[:1], 1)
        self._tensors += (Tensor(name, size, Role.ACTIVATION) for name, size in written.items())
        return tuple(written)


def _part_name(node: Node, index: object) -> str:
    return f"{node.name}[{index}]"


def _tensors_of(node: Node) -> list[object]:
    import torch

    value = node.meta.get("val")
    values = value if isinstance(value, (list, tuple)) else (value,)
    return [each for each in values if isinstance(each, torch.Tensor)]


def _most_bytes(value: object, node: Node) -> int:
    """Return the bytes of a tensor at the upper bounds of its dimensions; raises GraphError without a bound."""
    from executorch.exir.sym_util import eval_upper_bound

    size = value.element_size()  # type: ignore[attr-defined]
    for dimension in value.shape:  # type: ignore[attr-defined]
        size *= eval_upper_bound(dimension) or 0
    if size > MOST_BYTES:
        raise GraphError(
            "a dimension has no upper bound", place=f"node {node.name!r}", expected="one, as by torch.export.Dim"
        )
    return int(size)


def _may_change_its_place(node: Node) -> None:
    """Raise GraphError for an operator that writes into its inputs or draws random numbers."""
    from torch import Tag

    operator = getattr(node.target, "_op", node.target)
    schema = getattr(operator, "_schema", None)
    if schema is not None and schema.is_mutable:
        what = "it writes into what it reads"
    elif Tag.nondeterministic_seeded in getattr(operator, "tags", ()):
        what = "it draws random numbers"
    else:
        return
    raise GraphError(what, place=f"node {node.name!r}", expected="operators that may change places")


SECONDS: Final = 10.0
ALIGNMENT_BYTES: Final = 16
"""ExecuTorch's own."""


@dataclass(frozen=True, slots=True)
class OrderedMethod:
    """A method with its peak bytes before and after reordering, and the lower bound over all orders.

    `reason` says why the operators keep their order; the figures are None then.
    """

    name: str
    status: Status
    given_peak_bytes: int | None = None
    peak_bytes: int | None = None
    lower_bound_bytes: int = 0
    reason: str | None = None

    @property
    def is_reordered(self) -> bool:
        """True if the order of the operators changed."""
        return self.peak_bytes != self.given_peak_bytes

    def __str__(self) -> str:
        if self.given_peak_bytes is None or self.peak_bytes is None:
            return f"{self.name}: left as it is: {self.reason}"
        change = f"{self.given_peak_bytes:,} -> {self.peak_bytes:,}" if self.is_reordered else f"{self.peak_bytes:,}"
        return f"{self.name}: {self.status}: peak {change} bytes, lower bound {self.lower_bound_bytes:,} bytes"


@dataclass(frozen=True)
class ReorderedProgram:
    """`edge` is the program as it goes on; the one that was given is untouched."""

    edge: EdgeProgramManager
    methods: tuple[OrderedMethod, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.methods))


def reorder_operators(
    edge: EdgeProgramManager,
    limits: Limits = Limits(time_limit_seconds=SECONDS),  # noqa: B008 (frozen)
) -> ReorderedProgram:
    """Put the operators of each method in an order of lowest peak, by `EdgeProgramManager.transform`, which verifies.

    A method keeps its order if the peak would not fall, or if an operator writes into its inputs or draws random
    numbers. `limits` count for each method. Raises UsageError without ExecuTorch.
    """
    try:
        import executorch.exir  # noqa: F401
    except ModuleNotFoundError as error:
        raise not_installed(error) from None
    ordered = {name: _ordered(name, edge.exported_program(name), limits) for name in sorted(edge.methods)}
    passes = {name: [nodes] for name, (method, nodes) in ordered.items() if nodes is not None}
    return ReorderedProgram(edge.transform(passes) if passes else edge, tuple(method for method, _ in ordered.values()))


@dataclass(frozen=True)
class OperatorOrder:
    """A pass that lists a module's nodes in the order of these names; inputs stay first and the output last."""

    names: tuple[str, ...]

    def __call__(self, module: GraphModule) -> PassResult:
        """Return a new module that differs only in the order of its nodes."""
        from torch.fx import Graph as FxGraph
        from torch.fx import GraphModule
        from torch.fx.passes.infra.pass_base import PassResult

        nodes = {node.name: node for node in module.graph.nodes}
        reordered = FxGraph()
        copies: dict[Node, Node] = {}
        inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
        output = next(node for node in module.graph.nodes if node.op == "output")
        for node in (*inputs, *(nodes[name] for name in self.names), output):
            copies[node] = reordered.node_copy(node, copies.__getitem__)
        reordered.lint()
        result = GraphModule(module, reordered)
        result.meta.update(module.meta)
        return PassResult(result, True)


def _ordered(name: str, program: ExportedProgram, limits: Limits) -> tuple[OrderedMethod, OperatorOrder | None]:
    """Find an order of one method, and the pass that makes it; no pass where nothing would be gained."""
    try:
        read = EdgeReader(program).read()
    except GraphError as error:
        return OrderedMethod(name, Status.UNKNOWN, reason=str(error)), None
    problem = roomy_problem(read.graph, Count.ACTIVATIONS, ALIGNMENT_BYTES)
    run = Run(limits, deadline=Deadline.after(limits.time_limit_seconds))
    result = min_peak_bytes(problem, run)
    given = peak_of_order(IndexedProblem.of(problem), tuple(range(len(read.graph.operators))))
    order: Sequence[int] = result.answer or ()
    peak = given if result.objective_value is None else min(given, result.objective_value)
    method = OrderedMethod(name, result.status, given, peak, result.lower_bound)
    if not method.is_reordered:
        return method, None
    return method, OperatorOrder(tuple(node.name for node in read.nodes_in(order)))
