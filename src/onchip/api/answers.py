"""The verbs of the Python API that take an answer: a result of a verb, the content of a file, or a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from onchip.answer.document import Document, MappingDocument
from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.problem import Objective
from onchip.answer.program import Plan
from onchip.answer.result import Status
from onchip.answer.strategy import FusionStrategy
from onchip.api.inputs import GivenNetwork, NetworkLike, TargetLike, machine_of, target_of
from onchip.api.networks import Network, text_of
from onchip.api.phases import phase
from onchip.api.results import (
    AuditReport,
    CheckReport,
    FuseResult,
    NetworkMappingResult,
    PlanResult,
    Report,
    Result,
    RunReport,
    ScheduleResult,
    TimeReport,
    View,
)
from onchip.api.target import Target
from onchip.errors import OnchipError, UsageError
from onchip.formats.files import AnswerFormat, format_of_answer
from onchip.ir.layer import Layer
from onchip.search.budget.clock import Stopwatch

if TYPE_CHECKING:
    from onchip.answer.problem import Problem
    from onchip.answer.result import SearchResult
    from onchip.api.check import Checked
    from onchip.api.run import RunValues
    from onchip.arch.accelerator import Accelerator
    from onchip.formats.own.answers import AnswerDocument
    from onchip.reports.execution import Execution, ScheduleExecution, ScheduleTiming, Timing
    from onchip.reports.explain.history import History
    from onchip.reports.program.outcome import BaselinePlan, Check
    from onchip.reports.schedule.outcome import ScheduleOutcome

Answer: TypeAlias = "Result[Any] | Document[Any, Any] | str | Path"
"""An answer: a result of a verb that solves, the content of an answer file, or the file."""


@contextmanager
def answer_file(answer: Answer) -> Iterator[Path]:
    """Yield the file of an answer; an answer without a file is written to a temporary one.

    Raises UsageError for a result without an answer.
    """
    from onchip.formats.own.answers import suffix_of, write_answer

    if isinstance(answer, str | Path):
        yield Path(answer)
        return
    document = answer.document if isinstance(answer, Result) else answer
    if document is None:
        raise UsageError(f"there is none ({answer})", place="answer", expected="a result that has an answer file")
    with TemporaryDirectory(prefix="onchip-") as folder:
        path = Path(folder) / f"answer{suffix_of(document)}"
        write_answer(document, path)
        try:
            yield path
        except OnchipError as error:
            if error.file == str(path):
                error.file = None
            raise


def network_of_answer(answer: Answer, network: NetworkLike | Layer | None) -> Network | Layer:
    """Return the given network, that of the result, or the bundled one that the answer names.

    Raises UsageError if there is none.
    """
    if isinstance(network, Layer):
        return network
    if network is not None:
        return GivenNetwork.of(network).source
    if isinstance(answer, Result) and answer.source is not None:
        return answer.source
    document = answer.document if isinstance(answer, Result) else answer
    return network_of_file(document) if isinstance(document, str | Path) else _bundled(document)


def network_of_file(path: str | Path) -> str:
    """Return the bundled network that an answer file names; raises UsageError if it is not bundled."""
    from onchip.formats.own.answers import read_answer

    try:
        return _bundled(read_answer(Path(path)))
    except UsageError as error:
        raise error.in_file(str(path)) from None


def _bundled(document: AnswerDocument | None) -> str:
    from onchip.formats.own.graph_json import bundled_networks

    name = None if document is None else document.graph.name
    if name not in bundled_networks():
        what = f"the network of the answer, {name!r}, is not bundled"
        raise UsageError(what, place="network", expected="the network that the answer is for")
    return name


def machine_of_answer(answer: Answer, target: TargetLike | None) -> Accelerator | str | None:
    """Return the given accelerator, or that of the result; None if there is neither."""
    if target is not None:
        return machine_of(target)
    return answer.machine if isinstance(answer, Result) else None


@contextmanager
def _opened(answer: Answer, network: NetworkLike | None) -> Iterator[tuple[Path, Network]]:
    """Yield the file of an answer and its network; raises UsageError for the mapping of a layer."""
    source = network_of_answer(answer, network)
    if isinstance(source, Layer):
        raise UsageError("the answer is for a layer", place="answer", expected="the answer for a network")
    with answer_file(answer) as path:
        yield path, source


_OTHER_ANSWERS: Final = {
    AnswerFormat.STRATEGY: ("fusion strategies", "the figures of a strategy, `onchip fuse --report` draws them"),
    AnswerFormat.MAPPING: ("mappings", "the figures of mappings, `onchip map --report` draws them"),
}
"""Answers of few verbs, and what `onchip check` and another command show of them."""


def format_accepted_by(verb: str, path: Path) -> AnswerFormat:
    """Return the format of a plan or a schedule; raises UsageError for other answers, with the command to use."""
    found = format_of_answer(path)
    if found in _OTHER_ANSWERS:
        kind, shown = _OTHER_ANSWERS[found]
        what = f"`onchip {verb}` accepts plans and schedules, not {kind}"
        raise UsageError(what, file=str(path), expected=f"a plan or a schedule; `onchip check` recomputes {shown}")
    return found


def load(path: str | Path, network: NetworkLike | None = None) -> Result[Any]:
    """Read an answer file of any kind.

    Parameters
    ----------
    path
        A plan, schedule, strategy or mapping file.
    network
        The network of the answer, for the verbs that need it later.

    Returns
    -------
    Result
        The answer with the claims of its file, which `check` verifies.

    Raises
    ------
    OnchipError
        The file is unreadable.

    """
    from onchip.formats.own.answers import read_answer

    document, source = read_answer(Path(path)), None if network is None else GivenNetwork.of(network).source
    if isinstance(document.answer, tuple):
        return _loaded_mappings(document, source)
    if isinstance(document.answer, Plan):
        return PlanResult(answer=document.answer, **_claimed(document, source))
    if isinstance(document.answer, FusionStrategy):
        return FuseResult(answer=document.answer, **_claimed(document, source))
    return ScheduleResult(answer=document.answer, machine=document.accelerator, **_claimed(document, source))


_UNITS = {
    **{one.value: one.unit for one in Objective},
    **{one.value: one.unit for one in FusionObjective},
    **{one.value: one.unit for one in ScheduleObjective if one is not ScheduleObjective.TRAFFIC},
}


def _claimed(document: AnswerDocument, source: Network | None) -> dict[str, Any]:
    """Return the fields of a result that the claim of a file states."""
    head, claim = {"document": document, "source": source}, document.claim
    if claim is None:
        nothing = {"minimize": "", "unit": "", "objective": None, "lower_bound": None}
        return {**head, **nothing, "status": Status.UNKNOWN, "notes": ("the file states no status and no bound",)}
    return {
        **head,
        "status": claim.status,
        "minimize": claim.objective,
        "unit": _UNITS.get(claim.objective, ""),
        "objective": claim.objective_value,
        "lower_bound": claim.lower_bound,
        "space": claim.space,
        "figures": dict(claim.figures),
    }


def _loaded_mappings(document: MappingDocument, source: Network | None) -> NetworkMappingResult:
    claims = [one.claim for one in document.answer if one.claim is not None]
    is_whole = bool(claims) and len(claims) == len(document.answer)
    value = sum(one.objective_value for one in claims) if is_whole else None
    return NetworkMappingResult(
        status=Status.FEASIBLE if is_whole else Status.UNKNOWN,
        minimize=claims[0].objective if claims else "",
        unit=_UNITS.get(claims[0].objective, "") if claims else "",
        objective=value,
        lower_bound=sum(one.lower_bound for one in claims) if is_whole else None,
        answer=tuple(one.mapping for one in document.answer),
        document=document,
        source=source,
        notes=("sums over distinct layers",) if is_whole else ("some mappings state no value",),
    )


def check(
    answer: Answer, network: NetworkLike | Layer | None = None, *, target: TargetLike | None = None
) -> CheckReport:
    """Verify an answer, and recompute its claims, without any search.

    Parameters
    ----------
    answer
        A result, the content of an answer file, or a file, also of TFLite, Vela or XLA.
    network
        The network or the layer of the answer; by default that of the result, or the bundled one that the file names.
    target
        The accelerator of a mapping or a strategy; for a plan, a memory or an accelerator instead of its own.

    Returns
    -------
    CheckReport
        The violations, each with its rule, step and subject.

    Raises
    ------
    OnchipError
        A file is unreadable, or the network or the accelerator is not known.

    Examples
    --------
    >>> import onchip as oc
    >>> oc.check(oc.plan(oc.load_network("lenet5", bits=8), "48KiB"))
    the plan is legal

    """
    from onchip.api.check import check_file
    from onchip.api.check_request import CheckRequest

    with answer_file(answer) as path:
        form = format_of_answer(path) if path.suffix not in (".tflite", ".txt") else None
        is_plan = form in (None, AnswerFormat.PLAN)
        asked = Target(accelerator=machine_of_answer(answer, target)) if not is_plan else target_of(target)
        return _check_report(check_file(CheckRequest(path, network_of_answer(answer, network), asked)))


def check_view(checked: Checked) -> View[Any]:
    """Return the verifier's result for an answer of any kind, with its JSON object and its tables."""
    from onchip.api.check_request import answer_check_lines, answer_check_object
    from onchip.reports.program.outcome import Check, check_object, check_report
    from onchip.reports.schedule.outcome import ScheduleCheck, schedule_check_object, schedule_check_tables

    if isinstance(checked, Check):
        return View(checked, check_object, check_report)
    if isinstance(checked, ScheduleCheck):
        return View(checked, schedule_check_object, schedule_check_tables)
    return View(checked, answer_check_object, answer_check_lines)


def _check_report(checked: Checked) -> CheckReport:
    from onchip.api.check_request import AnswerCheck
    from onchip.reports.program.outcome import Check
    from onchip.verify.rules import Rule, Violation

    if isinstance(checked, AnswerCheck):
        kind, violations = checked.kind, tuple(checked.violations)
    else:
        kind, violations = "plan" if isinstance(checked, Check) else "schedule", checked.verdict.violations
    if isinstance(checked, Check) and checked.graph_differs:
        name = checked.document.graph.name
        violations = (Violation(Rule.NETWORK_DIFFERS, name, "the plan is for another network"), *violations)
    count = len(violations)
    headline = f"the {kind} is legal" if not count else f"the {kind} has {count} violation{'s' if count > 1 else ''}"
    return CheckReport(headline=headline, view=check_view(checked), violations=tuple(violations))


def audit(
    answer: Answer,
    network: NetworkLike | None = None,
    *,
    lower_bound: int | None = None,
    time_limit: float = 60.0,
    workers: int = 1,
) -> AuditReport:
    """Ask a second prover, which shares no code with the search, for an answer below the claimed bounds.

    Parameters
    ----------
    answer
        A result or a file: a plan or a packing.
    network
        As for `check`; the CSV file of buffers of a packing.
    lower_bound
        A bound to rule on instead of the claimed one.
    time_limit, workers
        Seconds and workers of the prover.

    Returns
    -------
    AuditReport
        For each claim `confirmed`, `refuted` or `undecided`.

    Raises
    ------
    OnchipError
        The answer is illegal, states no bound, or is of a kind that is not audited.

    """
    from rich.text import Text

    from onchip.api.audit import AuditRequest, audit_answer

    with _opened(answer, network) as (path, source):
        found = audit_answer(AuditRequest(path, source, lower_bound, seconds=time_limit, workers=workers))
    view = View(found, lambda one: one.as_object, lambda one: (Text(one.words),))
    return AuditReport(headline=found.words, view=view, rulings={found.subject: found.ruling})


def run(
    answer: Answer,
    network: NetworkLike | None = None,
    *,
    seed: int = 0,
    random_weights: int | None = None,
    steps: int = 1,
) -> RunReport:
    """Execute a plan or a schedule on real data, and compare every tensor with a run without it.

    Parameters
    ----------
    answer
        A result or a file: a plan or a schedule.
    network
        As for `check`. A model file runs in its runtime; other networks run synthetic kernels.
    seed, random_weights
        Seed of the network's inputs, and of random parameters instead of the model's.
    steps
        Number of inferences of a plan, each with the state left by the one before.

    Returns
    -------
    RunReport
        Whether all values and the number of bytes moved are right.

    Raises
    ------
    OnchipError
        An input is unreadable, or its runtime is not installed.

    Examples
    --------
    >>> import onchip as oc
    >>> plan = oc.plan("lenet5", oc.Memory("sram", "96KiB"))
    >>> oc.run(plan).is_right
    True

    """
    from onchip.api.run import RunValues
    from onchip.reports.execution import execution_object, execution_tables

    with _opened(answer, network) as (path, source):
        found = run_answer(path, source, RunValues(seed, random_weights), steps)
    words = "each tensor has the right values" if found.is_right else "the run differs from a run without the answer"
    view = View[Any](found, execution_object, execution_tables)
    return RunReport(headline=words, view=view, is_right=found.is_right)


def run_answer(path: Path, source: Network, values: RunValues, steps: int = 1) -> Execution | ScheduleExecution:
    """Execute the plan or the schedule in a file; raises UsageError for several inferences of a schedule."""
    from onchip.api.check_request import CheckRequest
    from onchip.api.run import run_plan, run_schedule

    if format_accepted_by("run", path) is not AnswerFormat.SCHEDULE:
        return run_plan(path, source, values, steps)
    if steps > 1:
        raise UsageError("several inferences in turn work for plans only", place="steps", expected="1, or a plan")
    return run_schedule(CheckRequest(path, source), values)


def time(
    answer: Answer, network: NetworkLike | None = None, *, target: TargetLike | None = None, cost: str | None = None
) -> TimeReport:
    """Time a plan on an accelerator, or a schedule on its own.

    Parameters
    ----------
    answer
        A result or a file: a plan or a schedule.
    network
        As for `check`.
    target
        The accelerator of a plan; by default the one it was planned for.
    cost
        Cycle model of a plan's operators: `macs` or a plug-in; by default as the plan says.

    Returns
    -------
    TimeReport
        The latency, and the time of each operator and transfer.

    Raises
    ------
    OnchipError
        An input is unreadable, the answer is illegal, or the accelerator has no array or DRAM.

    """
    from onchip.reports.execution import milliseconds_of, timing_object, timing_tables

    with _opened(answer, network) as (path, source):
        is_plan = format_accepted_by("time", path) is AnswerFormat.PLAN
        machine = machine_of_answer(answer, target) if is_plan or target is not None else None
        found = time_answer(path, source, machine, cost)
    cycles, milliseconds = found.latency_cycles, milliseconds_of(found)
    if cycles is None:
        raise IllegalAnswerError(found.check)
    headline = f"{cycles:,} cycles" + ("" if milliseconds is None else f" ({milliseconds:.4g} ms)")
    view = View[Any](found, timing_object, timing_tables)
    return TimeReport(headline=headline, view=view, latency_cycles=cycles, latency_ms=milliseconds)


def time_answer(
    path: Path, source: Network, machine: str | Accelerator | None, cost: str | None
) -> Timing | ScheduleTiming:
    """Time the plan or the schedule in a file; `machine` is that of a plan, or has to be that of the schedule.

    Raises UsageError for a plan without a machine.
    """
    from onchip.api.check_request import CheckRequest
    from onchip.api.run import time_network, time_schedule_file

    if format_accepted_by("time", path) is AnswerFormat.SCHEDULE:
        return time_schedule_file(CheckRequest(path, source, Target(accelerator=machine)))
    if machine is None:
        expected = "a name that `onchip accelerators` lists, or a file"
        raise UsageError("a plan is timed on an accelerator", place="target", expected=expected)
    return time_network(path, source, machine, cost)


class IllegalAnswerError(UsageError):
    """An error for an illegal answer, with its check."""

    def __init__(self, checked: Checked) -> None:
        report = _check_report(checked)
        super().__init__(f"{report.headline}: {report.violations[0]}", place="answer", expected="a legal answer")
        self.checked = checked


def explain(
    answer: Answer, network: NetworkLike | None = None, *, target: TargetLike | None = None, tensor: str | None = None
) -> Report[Any]:
    """Explain why a plan spills, or where the energy and the time of a schedule go.

    Parameters
    ----------
    answer
        A result or a file: a plan or a schedule.
    network
        As for `check`.
    target
        An accelerator on which a plan is also timed.
    tensor
        Of a schedule: the tensor to explain.

    Returns
    -------
    Report
        The explanation; `summary()` has its sentences.

    Raises
    ------
    OnchipError
        An input is unreadable, or the answer is illegal.

    Examples
    --------
    >>> import onchip as oc
    >>> plan = oc.plan("lenet5", oc.Memory("sram", "96KiB"))
    >>> oc.explain(plan).summary().splitlines()[0]
    'network     lenet5, 5 operators'

    """
    machine = None if target is None else machine_of(target)
    with _opened(answer, network) as (path, source):
        is_schedule = format_accepted_by("explain", path) is AnswerFormat.SCHEDULE
        view = explanation_of(path, source, None if is_schedule else machine, tensor if is_schedule else None)
    named = source if isinstance(source, str) else source.name
    return Report(
        headline=f"the energy and the moves of {named}" if is_schedule else f"the spills of {named}", view=view
    )


def explanation_of(
    path: Path,
    source: Network,
    machine: str | Accelerator | None,
    tensor: str | None,
    cost: str | None = None,
    least_peak: Callable[[History], SearchResult[tuple[int, ...]] | None] = lambda _: None,
) -> View[Any]:
    """Return the explanation of the plan or the schedule in a file, followed by that of its time if this is known.

    `least_peak` finds M_P for a plan that spills. Raises IllegalAnswerError for an illegal answer, UsageError for a
    plan with a `tensor`, and for a schedule with a `machine`, which contains its own.
    """
    from onchip.api.check_schedule import time_of_plan, time_of_schedule
    from onchip.formats.foreign_files import load_any_accelerator
    from onchip.reports.execution import time_object, time_tables
    from onchip.reports.explain.history import History
    from onchip.reports.program.explanation import Explanation, explanation_lines, explanation_object
    from onchip.reports.schedule import explanation as of_schedule

    view: View[Any]
    if format_accepted_by("explain", path) is AnswerFormat.SCHEDULE:
        outcome = legal_schedule(path, source)
        if machine is not None:
            raise UsageError("a schedule contains its accelerator", place="target", expected="a plan")
        with phase("explaining"):
            of_moves = of_schedule.ScheduleExplanation.of(outcome, tensor)
        view = View(of_moves, of_schedule.schedule_explanation_object, of_schedule.schedule_explanation_tables)
        time = time_of_schedule(outcome) if tensor is None else None
    else:
        if tensor is not None:
            raise UsageError("only schedules are explained by tensor", place="tensor", expected="a schedule")
        chip = None if machine is None else load_any_accelerator(machine)
        check = legal_plan(path, source)
        with phase("explaining"):
            history = History(check.problem, check.document.answer)
            view = View(Explanation.of(history, least_peak(history)), explanation_object, explanation_lines)
        time = time_of_plan(check, chip, cost)
    if time is None:
        return view
    return View(
        view.details,
        lambda one: {**view.as_object(one), **time_object(time)},
        lambda one: (*view.as_tables(one), *time_tables(time)),
    )


def legal_plan(path: Path, source: Network) -> Check:
    """Return the check of a legal plan; raises IllegalAnswerError for an illegal one."""
    from onchip.api.check import check_plan

    check = check_plan(path, source, Target(), {})
    if not check.is_legal:
        raise IllegalAnswerError(check)
    return check


def legal_schedule(path: Path, source: Network, machine: str | Accelerator | None = None) -> ScheduleOutcome:
    """Return a legal schedule as `schedule` shows it; raises IllegalAnswerError for an illegal one."""
    from onchip.api.check_request import CheckRequest
    from onchip.api.check_schedule import check_schedule_file, outcome_of_check

    watch = Stopwatch()
    check = check_schedule_file(CheckRequest(path, source, Target(accelerator=machine)))
    outcome = outcome_of_check(check, text_of(source), watch.seconds)
    if outcome is None:
        raise IllegalAnswerError(check)
    return outcome


def page_of_answer(answer: Answer, network: NetworkLike | None, target: TargetLike | None, asked: str) -> str:
    """Return the HTML page of an answer; raises UsageError for an illegal answer or one without a page."""
    if isinstance(answer, Result) and answer.view is not None and target is None:
        page = answer.view.page(asked)
        if page is not None:
            return page
    with _opened(answer, network) as (path, source):
        machine = None if target is None else machine_of(target)
        if format_accepted_by("report", path) is AnswerFormat.SCHEDULE:
            machine = None
        return page_of_file(path, source, machine, asked)[1]


def page_of_file(
    path: Path,
    source: Network,
    machine: str | Accelerator | None,
    asked: str,
    baselines: Callable[[Problem], tuple[BaselinePlan, ...]] | None = None,
) -> tuple[str, str]:
    """Return the network's name and the HTML page of the plan or the schedule in a file.

    Raises IllegalAnswerError for an illegal answer, and UsageError for a schedule with `baselines`.
    """
    from onchip.api.run import findings_of
    from onchip.formats.foreign_files import load_any_accelerator
    from onchip.reports.program.html import report_html
    from onchip.reports.schedule.html import schedule_html

    if format_accepted_by("report", path) is AnswerFormat.SCHEDULE:
        if baselines is not None:
            raise UsageError("only plans are compared with baselines", place="compare", expected="a plan")
        outcome = legal_schedule(path, source, machine)
        with phase("drawing"):
            return outcome.network.name, schedule_html(outcome, asked)
    chip = None if machine is None else load_any_accelerator(machine)
    check = legal_plan(path, source)
    plans = () if baselines is None else baselines(check.problem)
    with phase("drawing"):
        return check.problem.graph.name, report_html(findings_of(check, asked, chip, plans))
