"""`onchip check`, `audit`, `diff`, `explain`, `run`, `time`, `report` and `export`: commands that take an answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onchip.answer.document import Granularity
from onchip.answer.options.choices import option
from onchip.answer.problem import Count, Objective, Order, Problem
from onchip.api.phases import phase
from onchip.backends.nests import MappingFormat
from onchip.commands.arguments import (
    GREATEST_SEED,
    AsJson,
    BindingOptions,
    CostOfPlan,
    MemoryOptions,
    Network,
    PackedOptions,
    PlanOrScheduleFile,
    Seed,
    Workers,
    accelerator_option,
    network_names,
    output_option,
    seconds_of,
)
from onchip.commands.show import AnswerFiles, ExitCode, code_of_check, command_line, show_view, show_words
from onchip.errors import UsageError
from onchip.formats.files import AnswerFormat, format_of_answer
from onchip.reports.exports import ExportFormat
from onchip.reports.shared.output import write_line

if TYPE_CHECKING:
    from onchip.answer.result import SearchResult
    from onchip.api.results import View
    from onchip.reports.explain.difference import AnswerDifference, GrowthLimit
    from onchip.reports.explain.history import History
    from onchip.reports.program.outcome import BaselinePlan

BASELINES = (("belady", "given"), ("belady", "min-peak"), ("greedy", "given"), ("greedy", "min-peak"))
RandomWeights = Annotated[
    int | None,
    typer.Option(min=0, max=GREATEST_SEED, metavar="SEED", help="Random parameters, instead of the model's."),
]
FailIf = Annotated[
    list[str] | None, typer.Option(metavar="'FIGURE > N %'", help="Exit 1 only if a figure grows by more; repeatable.")
]
NetworkIfBundled = Annotated[
    str | None,
    typer.Argument(
        metavar="[NETWORK]",
        help="Network of the answer: a bundled name, which may be omitted, or .onnx, .tflite, .pt2 or .json file.",
        autocompletion=network_names,
    ),
]


def _shown(make: Callable[[], View[Any]], *, as_json: bool) -> ExitCode:
    """Print what is made of a legal answer, or the violations of an illegal one, and return the exit code."""
    from onchip.api.answers import IllegalAnswerError, check_view

    try:
        view, code = make(), ExitCode.ANSWER
    except IllegalAnswerError as error:
        view, code = check_view(error.checked), ExitCode.WRONG
    show_view(view, as_json=as_json)
    return code


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """Arguments and options of `onchip check`."""

    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A plan, schedule, strategy or mapping file, from any tool; or a .tflite file with its arena.",
        ),
    ]
    network: Network
    memories: MemoryOptions
    count: Count | None = option(None, "Value that the file must state.")
    bits: int | None = option(None, "Value that the file must state.", "N", least=1)
    granularity: Granularity | None = option(None, "Value that the file must state.")
    open_sizes: BindingOptions
    against: Path | None = option(None, "Exit 1 if FILE differs from this answer.", "BASELINE")
    fail_if: FailIf = None
    partial: bool = option(False, "Accept a mapping file that lacks layers of the network, and list them.")
    as_json: AsJson = False


def check_command(options: CheckOptions) -> int:
    """Verify an answer file, and recompute all its figures.

    FILE is an answer for NETWORK, which is read as the file says. Each violation is named. Nothing is searched. --sram,
    --accelerator and --alignment replace a plan's own memories; a mapping or a strategy needs --accelerator unless it
    names a bundled one; a schedule contains its own. A mapping file must have a mapping for every layer of NETWORK
    unless --partial is given. With a .tflite file as FILE and as NETWORK, check its offsets for TFLite Micro's arena.
    With a .txt file, check what Vela prints with --verbose-allocation for the .tflite file NETWORK, or XLA's
    *-buffer-assignment.txt with its *-live-range.txt as NETWORK.
    """
    from onchip.api.answers import check_view
    from onchip.api.check import check_file
    from onchip.api.check_request import CheckRequest

    limits = _growth_limits(options.fail_if)
    if limits and options.against is None:
        raise UsageError("--fail-if needs a baseline", place="--fail-if", expected="--against BASELINE")
    bound = options.open_sizes.bindings
    flags = {"bits": options.bits, "granularity": options.granularity, "count": options.count}
    bindings = {"dims": bound.dims or None, "shapes": bound.shapes or None, "values": bound.values or None}
    insisted = {name: value for name, value in {**flags, **bindings}.items() if value is not None}
    request = CheckRequest(options.file, options.network, options.memories.target, insisted, options.partial)
    checked = check_file(request)
    show_view(check_view(checked), as_json=options.as_json)
    if options.against is None or not checked.is_legal:
        return code_of_check(checked.is_legal)
    from onchip.reports.explain.difference import change_words
    from onchip.sweeps.library import diff_files

    difference = diff_files(options.against, options.file).found
    for figure in difference.figures:
        if figure.before != figure.after:
            change = " ".join(change_words(figure)).strip()
            write_line(f"{figure.name}: {figure.before} in the baseline, {figure.after} now ({change or 'changed'})")
    return _code_of_difference(difference, limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedAsOptions(PackedOptions):
    """Options for the claim of an audited packing."""

    capacity: str | None = option(None, "Capacity of a packing.", "SIZE")
    minimize: bool = option(False, "The packing claims the minimum capacity.")
    overflow: bool = option(False, "The packing claims the minimum bytes outside.")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """Arguments and options of `onchip audit`."""

    answer: Annotated[Path, typer.Argument(metavar="ANSWER", help="PLAN.json, or OUT.csv of `pack`.")]
    network: Annotated[
        str, typer.Argument(metavar="NETWORK", help="The network or the buffer file that ANSWER is for.")
    ]
    bound: int | None = option(None, "Check this bound instead of the claimed one.", "N", least=0)
    order: Annotated[
        Order | None, typer.Option(help="Order to assume if the plan file does not record it.", show_default=False)
    ] = None
    packed_as: PackedAsOptions
    time_limit: float = option(60.0, "Seconds until a claim is undecided.", "S")
    workers: Workers = 1
    output: Annotated[Path | None, output_option("BETTER", "Write the better answer, if there is one.")] = None
    as_json: AsJson = False


def audit_command(options: AuditOptions) -> int:
    """Check a claimed lower bound with a second prover.

    The prover shares no code with the methods, and searches for an answer below the bound that ANSWER claims.
    `confirmed` (exit code 0): no such answer exists. `refuted` (1): one exists; it is verified, and written with -o.
    `undecided` (4): the time was not sufficient for a decision.

    A packing made without --minimize or --overflow claims only to fit. A plan is audited over the orders that its claim
    covers: any, the network's own, or, for minimum peak, the plan's own.
    """
    from onchip.api.audit import AuditRequest, audit_answer

    AnswerFiles((str(options.answer), options.network), options.output).ensure_they_can_be_written()
    seconds, packed_as = seconds_of(options.time_limit) or 0.0, options.packed_as
    claimed = packed_as.capacity_bytes, packed_as.alignment, packed_as.overflow, packed_as.minimize
    asked = options.answer, options.network, options.bound, options.order
    outcome = audit_answer(AuditRequest(*asked, *claimed, seconds, options.workers, options.output))
    show_words(outcome.as_object, outcome.words, as_json=options.as_json)
    return {"confirmed": ExitCode.ANSWER, "refuted": ExitCode.WRONG}.get(outcome.ruling, ExitCode.NO_ANSWER)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffOptions:
    """Arguments and options of `onchip diff`."""

    context: typer.Context
    before: Annotated[Path, typer.Argument(metavar="A", help="A plan, schedule, strategy, mapping file, or a store.")]
    after: Annotated[Path, typer.Argument(metavar="B", help="Another of the same kind.")]
    network: Annotated[
        str | None,
        typer.Argument(
            metavar="[NETWORK]",
            help="Network of both files; enables verification and spill explanations.",
            autocompletion=network_names,
        ),
    ] = None
    fail_if: FailIf = None
    report: Path | None = option(None, "Draw both on one page.", "FILE.html")
    as_json: AsJson = False


def diff_command(options: DiffOptions) -> int:
    """Compare two answers of one kind.

    Figures, order, addresses, moves of tensors, and mappings are compared. Exit code 0 if they are equal, 1 if they
    differ; with --fail-if 1 only if a figure has grown by more than its limit.
    """
    from onchip.api.results import View
    from onchip.reports.explain.difference import difference_html, difference_lines, difference_object
    from onchip.sweeps.library import diff_files

    inputs = str(options.before), str(options.after), options.network or str(options.before)
    files = AnswerFiles(inputs, None, options.report)
    files.ensure_they_can_be_written()
    limits = _growth_limits(options.fail_if)
    found = diff_files(options.before, options.after, options.network)
    code = _code_of_difference(found.found, limits)
    files.write_report(partial(difference_html, found.found, found.histories, command_line(options.context)))
    show_view(View(found.found, difference_object, difference_lines), as_json=options.as_json)
    return code


def _growth_limits(texts: list[str] | None) -> tuple[GrowthLimit, ...]:
    """Return the growth limits of figures; raises UsageError for invalid text."""
    from onchip.reports.explain.difference import GrowthLimit

    return tuple(GrowthLimit.of_text(text) for text in texts or ())


def _code_of_difference(difference: AnswerDifference, limits: tuple[GrowthLimit, ...]) -> ExitCode:
    """Return the exit code of a comparison, and print exceeded limits; raises UsageError for unknown figures."""
    if not limits:
        return code_of_check(difference.is_equal)
    exceeded = [limit for limit in limits if limit.is_exceeded_in(difference)]
    for limit in exceeded:
        write_line(f"onchip: {limit.text}")
    return code_of_check(not exceeded)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOptions:
    """Arguments and options of `onchip explain`."""

    file: PlanOrScheduleFile
    network: Network
    tensor: str | None = option(None, "Explain the placement and the moves of this tensor of a schedule.", "NAME")
    accelerator: Annotated[
        str | None,
        accelerator_option("Accelerator on which a plan is timed; plans of minimum latency state their own times."),
    ] = None
    cost: CostOfPlan = None
    time_limit: float | None = option(None, "Seconds to compute M_P of a plan that spills.", "S")
    as_json: AsJson = False


def explain_command(options: ExplainOptions) -> int:
    """Explain the spills of a plan, or the costs of a schedule.

    For a plan: the operator that sets M_R, the full steps, the cost and the cause of each spill, and the capacity
    without this spill, and without any. For a schedule: the energy by memory, the most expensive operators, the tensors
    that are copied or streamed, with reasons, and the size at which they would stay. For a timed answer: the cycle
    breakdown, the reasons for stalls, and the hardware changes that would speed up the same program most.
    """
    from onchip.api.answers import explanation_of
    from onchip.api.target import budgets_of, roomy_problem
    from onchip.memory.effort import STEP
    from onchip.search.budget.limits import Limits

    def least_peak(history: History) -> SearchResult[tuple[int, ...]] | None:
        """Return M_P; None if the plan's own order needs no spill, so that M_P is irrelevant."""
        problem = history.problem
        if history.bytes_without_spills <= sum(memory.capacity_bytes for memory in problem.memories):
            return None
        roomy = roomy_problem(problem.graph, problem.count, history.common_alignment_bytes)
        return budgets_of(roomy, Limits(seconds_of(options.time_limit), STEP.whole_states)).least_peak

    asked = options.file, options.network, options.accelerator, options.tensor, options.cost
    return _shown(lambda: explanation_of(*asked, least_peak), as_json=options.as_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Arguments and options of `onchip run`."""

    file: PlanOrScheduleFile
    network: Network
    random_weights: RandomWeights = None
    given: list[str] | None = option(
        None, "Value of a network input, by default random; repeatable.", "[NAME=]x.npy", flag="--input"
    )
    seed: Seed = 0
    steps: int = option(
        1, "Number of inferences of a plan; each continues with the state of the previous one.", "N", least=1
    )
    as_json: AsJson = False


def run_command(options: RunOptions) -> int:
    """Run a plan or a schedule on real data, and check it.

    Every tensor and the number of bytes moved are checked. Scratchpads and DRAM are simulated. An .onnx file's
    operators run in onnxruntime, a .tflite file's in ai-edge-litert, a .pt2 file's in torch, and the outputs are
    compared with those of the whole model. A network without a model runs synthetic kernels. Every tensor is compared,
    bit for bit, with a run without a plan. A schedule runs tile by tile, and its outputs are compared with those of the
    whole network; a model runs in its runtime if the schedule keeps the bits of its elements.
    """
    from onchip.api.answers import run_answer
    from onchip.api.results import View
    from onchip.api.run import RunValues
    from onchip.reports.execution import execution_object, execution_tables

    values = RunValues(options.seed, options.random_weights, tuple(options.given or ()))
    found = run_answer(options.file, options.network, values, options.steps)
    show_view(View(found, execution_object, execution_tables), as_json=options.as_json)
    return code_of_check(found.is_right)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeOptions:
    """Arguments and options of `onchip time`."""

    file: PlanOrScheduleFile
    network: Network
    accelerator: Annotated[
        str | None,
        accelerator_option(
            "Accelerator of a plan, with array and DRAM: a bundled name or a file. Schedules contain theirs."
        ),
    ] = None
    cost: CostOfPlan = None
    as_json: AsJson = False


def time_command(options: TimeOptions) -> int:
    """Time a plan or a schedule: cycles, stalls and energy.

    A plan has no mappings: an operator takes its multiply-accumulates divided by the array size, or the cycles that a
    plan of minimum latency states. Transfers within the array and its own memories are not counted. For a schedule
    everything is counted.
    """
    from onchip.api.answers import time_answer
    from onchip.api.results import View
    from onchip.reports.execution import timing_object, timing_tables

    found = time_answer(options.file, options.network, options.accelerator, options.cost)
    show_view(View(found, timing_object, timing_tables), as_json=options.as_json)
    return code_of_check(found.check.is_legal)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """Arguments and options of `onchip report`."""

    context: typer.Context
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A plan or schedule file, from any tool, or the store of a sweep.")
    ]
    network: NetworkIfBundled = None
    output: Annotated[Path, output_option("FILE.html", "Output file.")]
    accelerator: Annotated[
        str | None, accelerator_option("Add a timeline of a plan on this accelerator; schedules contain theirs.")
    ] = None
    compare: bool = option(False, "Compare a plan with those of the baseline methods.")
    time_limit: float = option(10.0, "Seconds for each baseline method.", "S", least=0.001, most=1e9)
    as_json: AsJson = False


def report_command(options: ReportOptions) -> int:
    """Draw a plan, a schedule or a sweep as one HTML page.

    The page works offline. A plan's has the memory map, footprint, traffic, timeline and summary; a schedule's also the
    fused groups, energy and mappings. The page of a sweep's store has curves, heat maps, the Pareto front, parallel
    coordinates and a table. Nothing is searched. `onchip map --report` and `onchip fuse --report` draw their answers.
    """
    from onchip.api.answers import IllegalAnswerError, check_view, format_accepted_by, network_of_file, page_of_file
    from onchip.sweeps.store import is_store, shown_store
    from onchip.sweeps.stored_row import sweep_html

    file, typed, drawn = options.file, command_line(options.context), is_store(options.file)
    if not drawn:
        format_accepted_by("report", file)
    elif options.network is not None or options.compare or options.accelerator is not None:
        what = "a store has no network, accelerator or baselines"
        raise UsageError(what, place="NETWORK, --accelerator, --compare", expected="only FILE and -o")
    network = file.name if drawn else options.network or network_of_file(file)
    files = AnswerFiles((str(file), network), None, options.output)
    files.ensure_they_can_be_written()
    if drawn:
        with phase("drawing"):
            name, page = network, sweep_html(shown_store(file), typed)
    else:
        baselines = partial(_baselines, options.time_limit) if options.compare else None
        try:
            name, page = page_of_file(file, network, options.accelerator, typed, baselines)
        except IllegalAnswerError as error:
            show_view(check_view(error.checked), as_json=options.as_json)
            return ExitCode.WRONG
    files.write_report(lambda: page)
    written = {"network": name, "report": str(options.output), "bytes": len(page.encode())}
    show_words(written, str(options.output), as_json=options.as_json)
    return ExitCode.ANSWER


def _baselines(seconds: float, problem: Problem) -> tuple[BaselinePlan, ...]:
    """Run the registered baseline methods; each plan is verified before its figures count."""
    from onchip.api.plan import plan_problem
    from onchip.memory.methods import METHODS
    from onchip.reports.program.outcome import BaselinePlan
    from onchip.search.budget.limits import Limits
    from onchip.verify.verifier import verify

    baselines = []
    is_traffic = problem.objective in (Objective.PEAK, Objective.LATENCY, Objective.RECOMPUTATION)
    objective = Objective.TRAFFIC if is_traffic else problem.objective
    for name, order in BASELINES:
        method = METHODS[name]
        asked = replace(problem, order=Order(order), objective=objective, recomputation=None)
        if method.supports(asked):
            with phase(f"{name}, {order} order"):
                result = plan_problem(asked, name, Limits(seconds))
                figures = None if result.answer is None else verify(asked, result.answer).figures
            baselines.append(BaselinePlan(f"{name}, {order} order", result.status, figures))
    return tuple(baselines)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """Arguments and options of `onchip export`."""

    file: PlanOrScheduleFile
    network: NetworkIfBundled = None
    to: Annotated[
        str,
        typer.Option(
            metavar="trace|c|c-project|csv|onnx|tflite|graph|cuda|opencl|NAME",
            help="Format of the output (see above), or that of a plug-in.",
        ),
    ]
    output: Annotated[Path, output_option("FILE", "Output file, or folder of a c-project.")]
    accelerator: Annotated[str | None, accelerator_option("Accelerator of a mapping, or for the times of a trace.")] = (
        None
    )
    random_weights: RandomWeights = None
    given: list[str] | None = option(
        None, "Initial value of an input of a c-project; repeatable.", "[NAME=]x.npy", flag="--input"
    )
    seed: Seed = 0
    as_json: AsJson = False

    def __post_init__(self) -> None:
        to = self.to
        if to != ExportFormat.C_PROJECT and (self.random_weights is not None or self.given or self.seed):
            what, place = f"only a c-project has weights and inputs, not {to}", "--random-weights, --input, --seed"
            raise UsageError(what, place=place, expected="--to c-project")
        is_mapping = format_of_answer(self.file) is AnswerFormat.MAPPING
        if self.accelerator is not None and to != ExportFormat.TRACE and not is_mapping:
            what = f"--accelerator is used with trace only, not with {to}"
            raise UsageError(what, place="--accelerator", expected="--to trace")
        if is_mapping and (to not in tuple(MappingFormat) or self.network is not None):
            what = "a mapping file is exported without NETWORK, as C or a GPU kernel"
            expected = f"{self.file} --to {' or '.join(MappingFormat)}"
            raise UsageError(what, file=str(self.file), expected=expected)


def export_command(options: ExportOptions) -> int:
    """Write a plan, a schedule or a mapping for other tools.

    The answer is verified first. The names of the files written are printed. Values of --to for a plan:

    \b
    trace      Chrome trace JSON (Perfetto). A step lasts a millisecond; with
               --accelerator, operators have their times, and stalls reasons.
    c          C99 tables of the plan: x.h and x.c
    c-project  a folder with a C11 program of the network: `make run`
    csv        tables of the plan: x.residencies.csv and x.transfers.csv
    tflite     copy of the .tflite file NETWORK with the plan's offsets, which
               TFLite Micro uses. The plan needs --alignment 16.
    graph      x.json[.gz], the network in the tiles of the plan

    A schedule can be written as trace, c (with its mappings) and csv. A mapping file can be written as c (a function
    for each loop nest: x.c, or x.LAYER.c if there are several), cuda (x.cu) or opencl (x.cl), without NETWORK.
    """  # noqa: D301 (\b keeps the lines of the list)
    from onchip.api.answers import check_view, network_of_file
    from onchip.api.run import RunValues
    from onchip.backends.exports import ExportRequest, export_answer

    is_mapping = format_of_answer(options.file) is AnswerFormat.MAPPING
    source = None if is_mapping else options.network or network_of_file(options.file)
    values = RunValues(options.seed, options.random_weights, tuple(options.given or ()))
    asked = options.file, source, options.to, options.output, options.accelerator, values
    exported = export_answer(ExportRequest(*asked))
    check = check_view(exported.check)
    if not exported.check.is_legal and not options.as_json:
        show_view(check, as_json=False)
        return ExitCode.WRONG
    is_project = options.to == ExportFormat.C_PROJECT
    named = [options.output] if is_project and exported.files else exported.files
    files = [str(file) for file in exported.files]
    found = {"to": options.to, "files": files, "check": check.to_dict(), **exported.facts}
    show_words(found, "\n".join((*map(str, named), *exported.lines)), as_json=options.as_json)
    return code_of_check(exported.check.is_legal)
