"""The whole program on one page: read -> solve -> verify -> document."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from onchip.analysis.bounds import compulsory_bytes, greatest_need
from onchip.arch.accelerator import Accelerator
from onchip.errors import GraphError, InputError, InternalError, UsageError
from onchip.frontends.fusion import fuse
from onchip.frontends.graph_json import graph_sha256, read_graph
from onchip.ir.graph import Graph
from onchip.plan.document import Claim, Granularity, PlanDocument, Reading, Source, Split
from onchip.plan.plan import Compute, Plan
from onchip.plan.problem import Objective, Order, Problem
from onchip.plan.result import Result
from onchip.report.outcome import Check, Description, Outcome, Seconds
from onchip.solve.budgets import budgets_of, roomy_problem
from onchip.solve.limits import Limits, Run
from onchip.solve.registry import Method, method_named
from onchip.solve.start import RunStarter, silent_run
from onchip.solve.target import Target, TargetFinder
from onchip.verify.figures import Figures
from onchip.verify.verifier import verify

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """What `plan` is asked: a network, how to read it, what for, what is to be least, how to search."""

    network: str
    reading: Reading = field(default_factory=Reading)
    target: Target = field(default_factory=Target)
    objective: Objective = Objective.TRAFFIC
    order: Order = Order.FREE
    method: str = "exact"
    limits: Limits = field(default_factory=Limits)


def plan_network(request: Request, start: RunStarter = silent_run) -> Outcome:
    """Read, solve, verify; raises InternalError if the plan found is not legal."""
    method = method_named(request.method)
    count = request.reading.count
    graph, read_seconds = _timed(lambda: read_network(request.network, request.reading))
    finder = TargetFinder(graph, count, request.limits, start)
    (accelerator, min_peak_bytes), budget_seconds = _timed(
        lambda: finder.accelerator(request.target, request.objective)
    )
    problem = Problem(graph, accelerator.scratchpads, request.objective, request.order, count)
    with start(request.limits) as run:
        result, solve_seconds = _timed(lambda: _solved(problem, method, run))
    figures, verify_seconds = _timed(lambda: _verified(problem, result))
    return Outcome(
        problem,
        result,
        request.limits.seed,
        Seconds(read_seconds, budget_seconds, solve_seconds, verify_seconds),
        greatest_need(problem),
        min_peak_bytes,
        figures,
        _document(request.reading, accelerator, problem, result),
    )


def plan_problem(problem: Problem, method: str = "exact", limits: Limits | None = None) -> Result[Plan]:
    """Solve and verify; raises InternalError if the plan found is not legal."""
    with silent_run(limits or Limits()) as run:
        result = _solved(problem, method_named(method), run)
    _verified(problem, result)
    return result


def check_plan(plan_file: Path, network: str, target: Target, insisted: Mapping[str, object]) -> Check:
    """Verify a plan file against a network, on the plan's own memories or on those of `target`.

    The network is read as the plan says; `insisted` are fields of Reading that must say the same.
    """
    from onchip.frontends.plan_json import read_plan

    document = read_plan(plan_file)
    reading = document.reading
    for name, value in insisted.items():
        if value != (planned := getattr(reading, name)):
            raise UsageError(f"{value} contradicts the plan", file=str(plan_file), place=name, expected=f"{planned}")
    graph = read_network(network, reading)
    sha256 = graph_sha256(graph)
    if document.graph.sha256 != sha256:
        _every_name_is_known(document.plan, graph, str(plan_file))
    memories = TargetFinder(graph, reading.count).memories(target, document.plan.memories)
    objective = document.claim.objective if document.claim else Objective.TRAFFIC
    problem = Problem(graph, memories, objective, count=reading.count)
    verdict = verify(problem, document.plan, document.claim)
    return Check(document, problem, sha256, verdict)


def describe_network(network: str, reading: Reading, limits: Limits, start: RunStarter = silent_run) -> Description:
    """Say what is in a network."""
    problem = roomy_problem(read_network(network, reading), reading.count)
    budgets = budgets_of(problem, limits, start)
    return Description(problem, budgets.required, budgets.least_peak, compulsory_bytes(problem))


def read_network(source: str, reading: Reading = Reading()) -> Graph:  # noqa: B008 (frozen)
    """Read a bundled network, an .onnx file or a graph file, as `reading` says."""
    if reading.split is not Split.NEVER:
        raise UsageError(f"operators are to be split: {reading.split}", place="split", expected=Split.NEVER)
    try:
        graph = _read_raw(source, reading.dims)
        if not graph.operators:
            raise GraphError("it has no operators", expected="at least one")
        sized = graph if reading.bits is None else graph.with_bits(reading.bits)
        return fuse(sized) if reading.granularity is Granularity.FUSED else sized
    except GraphError as error:
        raise error if error.file else error.in_file(source) from None


def _read_raw(source: str, dims: Mapping[str, int]) -> Graph:
    if source.endswith(".onnx"):
        from onchip.frontends.onnx_model import read_onnx

        return read_onnx(Path(source), dims)
    if dims:
        raise UsageError("it has no symbolic dimensions", file=source, place="--dim", expected="an .onnx file")
    if source.endswith((".json", ".json.gz")):
        return read_graph(Path(source))
    from onchip.workloads.bundled import bundled_networks, load_network

    if source not in bundled_networks():
        raise InputError(
            "no such network", file=source, expected="an .onnx or .json file, or a name `onchip networks` lists"
        )
    return load_network(source)


def _solved(problem: Problem, method: Method, run: Run) -> Result[Plan]:
    """Methods plan the first scratchpad; until one plans more, a plan that leaves them out would be no optimum."""
    if len(problem.memories) > 1:
        names = ", ".join(memory.name for memory in problem.memories)
        raise UsageError(
            f"there are {len(problem.memories)} scratchpads: {names}", place=f"method {method.name}", expected="one"
        )
    return method(problem, run)


def _verified(problem: Problem, result: Result[Plan]) -> Figures | None:
    """Return the figures of the plan as the verifier finds them. Nothing gets past here unverified."""
    if result.answer is None or result.objective_value is None:
        return None
    claim = Claim(result.method, result.status, problem.objective, result.objective_value, result.lower_bound)
    verdict = verify(problem, result.answer, claim)
    if verdict.violations:
        raise InternalError(
            f"its plan has {len(verdict.violations)} violations, the first: {verdict.violations[0]}",
            place=f"method {result.method}",
            expected="a legal plan; please report this",
        )
    return verdict.figures


def _document(
    reading: Reading, accelerator: Accelerator, problem: Problem, result: Result[Plan]
) -> PlanDocument | None:
    if result.answer is None or result.objective_value is None:
        return None
    from onchip.frontends.accelerator_yaml import accelerator_sha256

    return PlanDocument(
        Source(problem.graph.name, graph_sha256(problem.graph)),
        Source(accelerator.name, accelerator_sha256(accelerator)),
        reading,
        result.answer,
        Claim(result.method, result.status, problem.objective, result.objective_value, result.lower_bound),
    )


def _every_name_is_known(plan: Plan, graph: Graph, file: str) -> None:
    """A plan that says it is for this very graph may be wrong; any other with unknown names is for another graph."""
    for index, instruction in enumerate(plan.instructions):
        is_operator = isinstance(instruction, Compute)
        name = instruction.operator if isinstance(instruction, Compute) else instruction.tensor
        if name not in (graph.operator if is_operator else graph.tensor):
            what = "operator" if is_operator else "tensor"
            raise InputError(
                f"the network has no {what} {name!r}",
                file=file,
                place=f"instruction {index}",
                expected=f"a plan for {graph.name!r}",
            )


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    started = time.perf_counter()
    return work(), time.perf_counter() - started
