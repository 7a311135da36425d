"""The verbs of the Python API that take an answer: a result of a verb, the content of a file, or a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias

from onchip.answer.document import Document, MappingDocument
from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.problem import Objective
from onchip.answer.result import Status
from onchip.api.inputs import GivenNetwork, NetworkLike, TargetLike, machine_of, target_of
from onchip.api.networks import Network
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
from onchip.errors import OnchipError, UsageError
from onchip.formats.files import AnswerFormat, format_of_answer
from onchip.ir.layer import Layer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from onchip.api.check import Checked
    from onchip.arch.accelerator import Accelerator
    from onchip.formats.own.answers import AnswerDocument
    from onchip.reports.audit import AuditOutcome
    from onchip.reports.execution import TimeExplanation
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
    from onchip.formats.own.answers import read_answer
    from onchip.formats.own.graph_json import bundled_networks

    if isinstance(network, Layer):
        return network
    if network is not None:
        return GivenNetwork.of(network).source
    if isinstance(answer, Result) and answer.source is not None:
        return answer.source
    if isinstance(answer, Result):
        document = answer.document
    else:
        document = answer if isinstance(answer, Document) else read_answer(Path(answer))
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


def _graph_of_answer(answer: Answer, network: NetworkLike | None) -> Network:
    found = network_of_answer(answer, network)
    if isinstance(found, Layer):
        raise UsageError("the answer is for a layer", place="answer", expected="the answer for a network")
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
    from onchip.formats.own.mapping_yaml import read_mappings
    from onchip.formats.own.plan_json import read_plan
    from onchip.formats.own.schedule_json import read_schedule
    from onchip.formats.own.strategy_json import read_strategy

    file, source = Path(path), None if network is None else GivenNetwork.of(network).source
    match format_of_answer(file):
        case AnswerFormat.PLAN:
            plan = read_plan(file)
            return PlanResult(answer=plan.answer, **_claimed(plan, source))
        case AnswerFormat.SCHEDULE:
            schedule = read_schedule(file)
            return ScheduleResult(answer=schedule.answer, machine=schedule.accelerator, **_claimed(schedule, source))
        case AnswerFormat.STRATEGY:
            strategy = read_strategy(file)
            return FuseResult(answer=strategy.answer, **_claimed(strategy, source))
        case AnswerFormat.MAPPING:
            return _loaded_mappings(read_mappings(file), source)


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
    from onchip.api.check import CheckRequest, check_file
    from onchip.api.target import Target

    with answer_file(answer) as path:
        form = format_of_answer(path) if path.suffix not in (".tflite", ".txt") else None
        is_plan = form in (None, AnswerFormat.PLAN)
        asked = Target(accelerator=machine_of_answer(answer, target)) if not is_plan else target_of(target)
        return _check_report(check_file(CheckRequest(path, network_of_answer(answer, network), asked)))


def check_view(checked: Checked) -> View[Any]:
    """Return the verifier's result for an answer of any kind, with its JSON object and its tables."""
    from onchip.api.check import answer_check_lines, answer_check_object
    from onchip.reports.program.outcome import Check, check_object, check_report
    from onchip.reports.schedule.outcome import ScheduleCheck, schedule_check_object, schedule_check_tables

    if isinstance(checked, Check):
        return View(checked, check_object, check_report)
    if isinstance(checked, ScheduleCheck):
        return View(checked, schedule_check_object, schedule_check_tables)
    return View(checked, answer_check_object, answer_check_lines)


def _check_report(checked: Checked) -> CheckReport:
    from onchip.api.check import AnswerCheck
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
    from onchip.api.audit import AuditRequest, audit_answer

    with answer_file(answer) as path:
        source = _graph_of_answer(answer, network)
        found = audit_answer(AuditRequest(path, source, lower_bound, seconds=time_limit, workers=workers))
    view = View(found, lambda one: one.as_object, _text_of_audit)
    return AuditReport(headline=found.words, view=view, rulings={found.subject: found.ruling})


def _text_of_audit(outcome: AuditOutcome) -> tuple[RenderableType, ...]:
    from rich.text import Text

    return (Text(outcome.words),)


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
    from onchip.api.check_schedule import ScheduleFile
    from onchip.api.kernels import RunValues
    from onchip.api.run import run_plan, run_schedule
    from onchip.reports.execution import Execution, ScheduleExecution, execution_object, execution_tables

    values, source = RunValues(seed, random_weights), _graph_of_answer(answer, network)
    with answer_file(answer) as path:
        if format_of_answer(path) is AnswerFormat.SCHEDULE:
            if steps > 1:
                raise UsageError(
                    "several inferences in turn work for plans only", place="steps", expected="1, or a plan"
                )
            found: Execution | ScheduleExecution = run_schedule(ScheduleFile(path, source), values)
        else:
            found = run_plan(path, source, values, steps)
    words = "each tensor has the right values" if found.is_right else "the run differs from a run without the answer"
    view = View[Any](found, execution_object, execution_tables)
    return RunReport(headline=words, view=view, is_right=found.is_right)


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
    from onchip.api.check_schedule import ScheduleFile
    from onchip.api.run import time_schedule_file
    from onchip.api.time_plan import time_network
    from onchip.reports.execution import ScheduleTiming, Timing, milliseconds_of, timing_object, timing_tables

    source = _graph_of_answer(answer, network)
    with answer_file(answer) as path:
        if format_of_answer(path) is AnswerFormat.SCHEDULE:
            found: Timing | ScheduleTiming = time_schedule_file(ScheduleFile(path, source))
        else:
            machine = machine_of_answer(answer, target)
            if machine is None:
                expected = "the accelerator that the plan is timed on"
                raise UsageError("a plan is timed on an accelerator", place="target", expected=expected)
            found = time_network(path, source, machine, cost)
    cycles, milliseconds = found.latency_cycles, milliseconds_of(found)
    if cycles is None:
        raise _illegal(_check_report(found.check))
    headline = f"{cycles:,} cycles" + ("" if milliseconds is None else f" ({milliseconds:.4g} ms)")
    view = View[Any](found, timing_object, timing_tables)
    return TimeReport(headline=headline, view=view, latency_cycles=cycles, latency_ms=milliseconds)


def _illegal(checked: CheckReport) -> UsageError:
    return UsageError(f"{checked.headline}: {checked.violations[0]}", place="answer", expected="a legal answer")


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
    from onchip.api.check_plan import check_plan
    from onchip.api.show_schedule import time_of_plan, time_of_schedule
    from onchip.api.target import Target
    from onchip.formats.foreign_files import load_any_accelerator
    from onchip.reports.explain.history import History
    from onchip.reports.program.explanation import Explanation, explanation_lines, explanation_object
    from onchip.reports.schedule import explanation as of_schedule

    source = _graph_of_answer(answer, network)
    with answer_file(answer) as path:
        if format_of_answer(path) is AnswerFormat.SCHEDULE:
            outcome = _legal_schedule(path, source)
            shown = of_schedule.ScheduleExplanation.of(outcome, tensor)
            time = time_of_schedule(outcome) if tensor is None else None
            faces = of_schedule.schedule_explanation_object, of_schedule.schedule_explanation_tables
            view = with_time(View[Any](shown, *faces), time)
            return Report(headline=f"the energy and the moves of {_named(source)}", view=view)
        check = check_plan(path, source, Target(), {})
    if not check.is_legal:
        raise _illegal(_check_report(check))
    explained = Explanation.of(History(check.problem, check.document.answer))
    chip = None if target is None else load_any_accelerator(machine_of(target))
    view = with_time(View[Any](explained, explanation_object, explanation_lines), time_of_plan(check, chip, None))
    return Report(headline=f"the spills of {_named(source)}", view=view)


def with_time(view: View[Any], time: TimeExplanation | None) -> View[Any]:
    """Return the view of an explanation, followed by the breakdown of the time if it is known."""
    from onchip.reports.execution import time_object, time_tables

    if time is None:
        return view
    return View(
        view.details,
        lambda one: {**view.as_object(one), **time_object(time)},
        lambda one: (*view.as_tables(one), *time_tables(time)),
    )


def _named(source: Network) -> str:
    return source if isinstance(source, str) else source.name


def _legal_schedule(path: Path, source: Network) -> ScheduleOutcome:
    from onchip.api.check_schedule import ScheduleFile
    from onchip.api.show_schedule import schedule_to_show

    shown = schedule_to_show(ScheduleFile(path, source))
    if shown.outcome is None:
        raise _illegal(_check_report(shown.check))
    return shown.outcome


def page_of_answer(answer: Answer, network: NetworkLike | None, target: TargetLike | None, asked: str) -> str:
    """Return the HTML page of an answer; raises UsageError for an illegal answer or one without a page."""
    from onchip.api.check_plan import check_plan
    from onchip.api.target import Target
    from onchip.api.time_plan import findings_of
    from onchip.formats.foreign_files import load_any_accelerator
    from onchip.reports.program.html import report_html
    from onchip.reports.schedule.html import schedule_html

    if isinstance(answer, Result) and answer.view is not None and target is None:
        page = answer.view.page(asked)
        if page is not None:
            return page
    with answer_file(answer) as path:
        form, source = format_of_answer(path), _graph_of_answer(answer, network)
        if form is AnswerFormat.SCHEDULE:
            return schedule_html(_legal_schedule(path, source), asked)
        if form is not AnswerFormat.PLAN:
            raise UsageError(
                "the file has no page", place="answer", expected="a plan, a schedule, or the verb's result"
            )
        check = check_plan(path, source, Target(), {})
    if not check.is_legal:
        raise _illegal(_check_report(check))
    chip = None if target is None else load_any_accelerator(machine_of(target))
    return report_html(findings_of(check, asked, chip))
