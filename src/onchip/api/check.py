"""The check of an answer file of any kind, identified by its `format`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from onchip.answer.document import RECOMPUTED_MACS, Claim, PlanDocument
from onchip.answer.problem import Count, Objective, Problem, Recompute
from onchip.answer.program import Allocate, Compute, Free, Plan
from onchip.api.check_request import AnswerCheck, CheckRequest
from onchip.api.networks import Network, ensure_reading_is, fitted_to_scratchpads, network_to_plan, text_of
from onchip.api.phases import phase
from onchip.api.target import Target, TargetFinder
from onchip.errors import InputError, UsageError
from onchip.formats.files import AnswerFormat, format_of_answer
from onchip.formats.networks import read_tflite_network
from onchip.formats.own.graph_json import graph_sha256
from onchip.ir.graph import Graph
from onchip.ir.operator import InPlace, Operator
from onchip.model.timeline.mac_count import durations_on, recomputed_macs
from onchip.plugins import PluginGroup
from onchip.reports.program.outcome import Check
from onchip.reports.schedule.outcome import ScheduleCheck
from onchip.transform.rewrite.shared_bytes import ALIASES
from onchip.verify.rules import Rule, Violation
from onchip.verify.verifier import verify

if TYPE_CHECKING:
    from onchip.formats.tflite.storage import Presentation

__all__ = ["Check", "ScheduleCheck", "check_file", "check_plan", "ensure_whole_model"]


Checked: TypeAlias = Check | ScheduleCheck | AnswerCheck


@phase("reading")
def check_file(request: CheckRequest) -> Checked:
    """Verify an answer file, or the plan of a TFLite file, Vela or XLA; raises InputError for an unreadable file."""
    file = request.file
    form = None if file.suffix in (".tflite", ".txt") else format_of_answer(file)
    if request.may_be_partial and form is not AnswerFormat.MAPPING:
        raise UsageError("only a mapping file may lack layers", place="partial", expected="a mapping file")
    match form:
        case None:
            return _check_of_another_tool(request)
        case AnswerFormat.SCHEDULE:
            from onchip.api.check_schedule import check_schedule_file

            return check_schedule_file(request)
        case AnswerFormat.STRATEGY:
            from onchip.api.check_strategy import check_strategy_file

            return check_strategy_file(request)
        case AnswerFormat.MAPPING:
            from onchip.api.check_mapping import check_mapping_file

            return check_mapping_file(request)
        case AnswerFormat.PLAN:
            return check_plan(file, request.graph_source, request.target, request.insisted)


def _check_of_another_tool(request: CheckRequest) -> AnswerCheck:
    """Check a plan that another tool wrote, such as a TFLite file or the allocation that Vela printed."""
    if request.insisted:
        what = "a plan in a TFLite file does not record it"
        if request.file.suffix != ".tflite":
            what = "the file of another compiler does not record it"
        raise UsageError(what, place=min(request.insisted), expected="nothing")
    checks = PluginGroup[[Path, str, Target], AnswerCheck | None]("onchip.file_checks", (AnswerCheck, type(None)))
    for name in checks.names:
        check = checks.find(name)
        found = None if check is None else check(request.file, text_of(request.graph_source), request.target)
        if found is not None:
            return found
    tools = ", ".join(checks.names)
    raise InputError("the file has an unknown format", file=str(request.file), expected=f"a file of one of {tools}")


@phase("reading")
def check_plan(plan_file: Path, network: Network, target: Target, insisted: Mapping[str, object]) -> Check:
    """Verify a plan file against a network, on the plan's own memories or on those of `target`.

    The network is read as the plan says; `insisted` are fields of Reading that must agree. Raises InputError for
    unreadable files.
    """
    from onchip.formats.own.plan_json import read_plan

    document = read_plan(plan_file)
    reading = document.reading
    ensure_reading_is(reading, insisted, str(plan_file))
    planned = planned_problem(document, network)
    sha256 = graph_sha256(planned.graph)
    if document.graph.sha256 != sha256:
        _every_name_is_known(document.answer, planned.graph, str(plan_file))
    problem = _on_target(planned, target)
    with phase("verifying"):
        verdict = verify(problem, document.answer, document.claim)
        verdict = replace(verdict, violations=(*verdict.violations, *_miscounted_macs(problem, document.claim)))
    return Check(document, problem, sha256, verdict)


def _miscounted_macs(problem: Problem, claim: Claim | None) -> Iterator[Violation]:
    """Yield the difference between the recomputed multiply-accumulates of the tiles and those of the claim."""
    counted, claimed = recomputed_macs(problem.graph) or 0, claim and claim.figures.get(RECOMPUTED_MACS)
    if claimed is not None and claimed != counted:
        detail = f"{claimed:,} is claimed, the tiles compute {counted:,} again"
        yield Violation(Rule.FIGURE_DIFFERS, RECOMPUTED_MACS, detail)


def planned_problem(document: PlanDocument, network: Network) -> Problem:
    """Return the problem that a plan answers, with the network read as the plan says."""
    reading = document.reading
    problem = Problem(
        network_to_plan(network, reading),
        document.answer.memories,
        Objective(document.claim.objective) if document.claim else Objective.TRAFFIC,
        document.order,
        reading.count,
        document.transfers,
        document.placement,
        durations=document.durations,
        recomputation=document.recomputation,
    )
    return fitted_to_scratchpads(problem, network, reading)


def ensure_whole_model(
    check: Check, plan: Path, who: str, *, own_shapes: bool = False, takes_tiles: bool = False
) -> None:
    """Raise InputError for a plan that `who` cannot obey: of other bits, tiles or constants than the model's own.

    With `own_shapes`, a plan of other shapes is refused as well; with `takes_tiles`, one of tiles is not.
    """
    reading, operators = check.document.reading, check.problem.graph.operators
    refusals = (
        ("bits", reading.bits is not None, "a plan of the model's own bits"),
        ("shapes", own_shapes and bool(reading.shapes), "a plan of the model's own shapes"),
        ("count", reading.count is not Count.ACTIVATIONS, "a plan of `count='activations'`"),
        ("recompute", reading.recompute is Recompute.ALLOWED, "a plan in which operators run once"),
        ("cap_tensors", reading.cap_tensors, "a plan of whole operators"),
        ("tiles", not takes_tiles and any(one.tile for one in operators), "a plan of whole operators: --tiles never"),
    )
    for place, is_refused, expected in refusals:
        if is_refused:
            what = f"{who} does not support the plan's {place}"
            raise InputError(what, file=str(plan), place=f"reading: {place}", expected=expected)


def _on_target(problem: Problem, target: Target) -> Problem:
    """Return the problem on the target's memories if it names any, with the links and rates of an accelerator."""
    finder = TargetFinder(problem.graph, problem.count)
    memories, transfers, durations = finder.memories(target, problem.memories), problem.transfers, problem.durations
    if target.accelerator is not None:
        accelerator = finder.accelerator(target, problem.objective)[0]
        transfers = target.transfers_on(accelerator, problem.objective)
        durations = durations and durations_on(accelerator, durations.cycles)
    return replace(problem, memories=memories, transfers=transfers, durations=durations)


def _every_name_is_known(plan: Plan, graph: Graph, file: str) -> None:
    """Raise InputError if a plan for another graph hash uses an unknown name: it is a plan for another graph."""
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


def ensure_joined_as_stored(plan: Path, network: str, check: Check) -> None:
    """Raise InputError if the plan joins tensors along axes in an order other than that of the model's kernels.

    A plan orders a map as batch, channels, rows, columns; the TFLite kernels store the channels last. Maps joined along
    the channels are contiguous only in the former order.
    """
    presented = read_tflite_network(Path(network), dict(check.document.reading.shapes)).presented
    tensors = check.problem.graph.tensor
    for operator, pair in _shared(check):
        names = {tensors[name].part_of or name for name in (pair.input, pair.output)}
        if operator.kind in ALIASES and any(name in presented and _is_turned(presented[name]) for name in names):
            what = f"{pair.output!r} lies on {pair.input!r} channels first, and the model's kernels store channels last"
            place = f"operator {operator.name!r}"
            raise InputError(what, file=str(plan), place=place, expected="a plan of `share='in-place'` or none")


def _shared(check: Check) -> Iterator[tuple[Operator, InPlace]]:
    """Yield the pairs of an input and an output that share bytes while their operator runs."""
    places: dict[tuple[str, str], int] = {}
    for line in check.document.answer.instructions:
        match line:
            case Allocate(tensor, memory, offset_bytes):
                places[tensor, memory] = offset_bytes
            case Free(tensor, memory):
                places.pop((tensor, memory), None)
            case Compute(name):
                operator = check.problem.graph.operator[name]
                for pair in operator.in_place:
                    if any(
                        tensor == pair.input and places.get((pair.output, memory)) == offset + pair.shift_bytes
                        for (tensor, memory), offset in places.items()
                    ):
                        yield operator, pair


def _is_turned(presented: Presentation) -> bool:
    """Return True if axes of several elements are presented in another order than the file's."""
    axes = [axis for axis, size in zip(presented.order, presented.shape, strict=False) if size > 1]
    return axes != sorted(axes)
