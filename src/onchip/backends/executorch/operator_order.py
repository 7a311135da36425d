"""The operators of an edge program in an order of least peak, where that is lower than theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from onchip.answer.problem import Count
from onchip.answer.result import Status
from onchip.api.budgets import roomy_problem
from onchip.backends.executorch.installed import not_installed
from onchip.errors import GraphError
from onchip.memory.spill.min_peak import min_peak_bytes, peak_of_order
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits, Run

if TYPE_CHECKING:
    from executorch.exir import EdgeProgramManager
    from torch.export import ExportedProgram
    from torch.fx import GraphModule, Node
    from torch.fx.passes.infra.pass_base import PassResult

SECONDS: Final = 10.0
ALIGNMENT_BYTES: Final = 16
"""ExecuTorch's own."""


@dataclass(frozen=True, slots=True)
class OrderedMethod:
    """What is known of one method: the most bytes live at once as it was and as it is, and what no order falls below.

    `reason` says why its operators may not change places, where they may not; there are no figures then.
    """

    name: str
    status: Status
    given_peak_bytes: int | None = None
    peak_bytes: int | None = None
    lower_bound_bytes: int = 0
    reason: str | None = None

    @property
    def is_reordered(self) -> bool:
        """Whether the operators stand in another order than before."""
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
    """Put the operators of each method in an order of least peak, by `EdgeProgramManager.transform`, which verifies.

    A method whose peak would not fall stays as it is, as does one whose operators may not change places: those that
    write into what they read or draw random numbers. `limits` count for each method. Raises UsageError without
    ExecuTorch.
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
        """Return a module of its own, equal but for the order of its nodes."""
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
    from onchip.backends.executorch.edge_graph import edge_graph

    try:
        read = edge_graph(program)
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
