"""`onchip export`: convert a plan or a schedule for other tools."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from onchip.api.phases import phase
from onchip.commands.arguments import GREATEST_SEED, AsJson, PlanOrScheduleFile
from onchip.commands.check import show_answer_check, show_check, show_schedule_check
from onchip.commands.exit_code import code_of_check
from onchip.commands.planned_network import bundled_network_of
from onchip.commands.show import show_words
from onchip.errors import UsageError
from onchip.formats.files import AnswerFormat, ensure_writable, format_of_answer
from onchip.reports.exports import Export, ExportFormat, MappingFormat, files_of

if TYPE_CHECKING:
    from onchip.reports.exports import TracedWaits, TraceSpan
    from onchip.reports.program.outcome import Check


Traced: TypeAlias = "tuple[tuple[TraceSpan, ...], TracedWaits]"
"""The times of the instructions, and the reasons why the array waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """Arguments and options of `onchip export`."""

    file: PlanOrScheduleFile
    network: Annotated[
        str | None,
        typer.Argument(
            metavar="[NETWORK]",
            help="A bundled name, or .onnx, .tflite, .pt2 or .json file; may be left out if bundled.",
        ),
    ] = None
    to: Annotated[
        str,
        typer.Option(
            metavar="trace|c|c-project|csv|onnx|tflite|graph|cuda|opencl|NAME",
            help="A trace for Perfetto, C99 tables, a C project that runs, CSV tables, a model with the plan, its "
            "graph, or a plug-in's; a mapping's c, cuda or opencl.",
        ),
    ]
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Write this; see below for c and csv.")]
    accelerator: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE", help="Of a trace: time in cycles of this accelerator. Of a mapping: it is for this."
        ),
    ] = None
    random_weights: Annotated[
        int | None,
        typer.Option(
            min=0, max=GREATEST_SEED, metavar="SEED", help="Of a c-project: random parameters, not the model's."
        ),
    ] = None
    given: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="[NAME=]x.npy", help="Of a c-project: an input's value that main begins with."),
    ] = None
    seed: Annotated[
        int, typer.Option(min=0, max=GREATEST_SEED, metavar="N", help="Of a c-project: seed of its other inputs.")
    ] = 0
    replan: Annotated[
        bool,
        typer.Option("--replan", help="Of a tflite: write other offsets or another order where the arena is smaller."),
    ] = False
    as_json: AsJson = False

    def __post_init__(self) -> None:
        if self.to != ExportFormat.C_PROJECT and (self.random_weights is not None or self.given or self.seed):
            what = f"{self.to} has no values"
            raise UsageError(what, place="--random-weights, --input, --seed", expected="--to c-project")
        if self.replan and self.to != ExportFormat.TFLITE:
            raise UsageError(f"{self.to} keeps the plan", place="--replan", expected="--to tflite")
        is_mapping = format_of_answer(self.file) is AnswerFormat.MAPPING
        if self.accelerator is not None and self.to != ExportFormat.TRACE and not is_mapping:
            raise UsageError(f"{self.to} has no times", place="--accelerator", expected="--to trace")
        if is_mapping and (self.to not in tuple(MappingFormat) or self.network is not None):
            expected = f"MAPPING --to {', '.join(MappingFormat)}"
            raise UsageError("a mapping is exported as C or a GPU's, and by itself", place="export", expected=expected)


def export_command(options: ExportOptions) -> int:
    """Verify a plan or a schedule, write it for other tools, and print the names of the files written.

    trace: Chrome trace JSON (Perfetto); a step is shown as a millisecond, or with --accelerator in real microseconds,
    with the reasons why the array waits; a plan of least latency has its own times, with a microsecond per cycle.
    c: FILE is x.h or x.c; both are written. csv: FILE is x.csv; x.residencies.csv and x.transfers.csv are written.
    onnx: NETWORK, an .onnx file, with the plan in its metadata_props; its external data stay where they are.
    c-project: FILE is a folder: arenas of the plan's sizes, weights, kernels in C11, and the plan as calls; `make run`.
    graph: FILE is x.json[.gz], the network in the tiles of the plan, as input for plan, check or time.
    tflite: NETWORK, a .tflite file, with the plan's order and arena offsets, which TFLite Micro obeys;
    the plan needs --alignment 16. With --replan other offsets are written if the runtime cannot use the plan's.
    A schedule is exported as trace, in time, C and tables, all with its workspaces as tensors; C includes its mappings.
    For a MAPPING file --to c writes each loop nest as a function that runs: FILE is x.c; for several, x.LAYER.c each.
    --to cuda (x.cu) and --to opencl (x.cl) write a kernel: blocks, threads, shared memory and registers as mapped.
    """
    plan, accelerator = options.file, options.accelerator
    if format_of_answer(plan) is AnswerFormat.MAPPING:
        return _export_mapping(options)
    source = options.network or bundled_network_of(plan)
    if options.to == ExportFormat.C_PROJECT:
        return _export_project(options, source)
    files = files_of(options.to, options.output, source)
    for file in files:
        ensure_writable(file, inputs=(str(plan), source, accelerator or source))
    if format_of_answer(plan) is AnswerFormat.SCHEDULE:
        return _export_schedule(options, source, files)
    if options.to == ExportFormat.TFLITE:
        return _export_arena(options, source, files)
    check, times = _checked(plan, source, accelerator)
    if check.is_legal and options.to == ExportFormat.C and source.endswith(".tflite"):
        from onchip.api.joined_bytes import ensure_joined_as_stored

        ensure_joined_as_stored(plan, source, check)
    if check.is_legal:
        with phase("writing"):
            if options.to == ExportFormat.C:
                from onchip.backends.c.tables import write_plan_in_c

                write_plan_in_c(files, check.problem, check.document.answer)
            else:
                Export(options.to, files, check.document, check.problem, source, *(times or ())).write()
    _show(options.to, files, check, as_json=options.as_json)
    return code_of_check(check.is_legal)


def _export_schedule(options: ExportOptions, source: str, files: tuple[Path, ...]) -> int:
    from onchip.api.check_schedule import ScheduleFile
    from onchip.backends.c.exports import export_schedule
    from onchip.reports.schedule.outcome import schedule_check_object

    check = export_schedule(ScheduleFile(options.file, source, options.accelerator), options.to, files)
    written = [str(file) for file in files] if check.is_legal else []
    if check.is_legal or options.as_json:
        found = {"to": options.to, "files": written, "check": schedule_check_object(check)}
        show_words(found, "\n".join(written), as_json=options.as_json)
    else:
        show_schedule_check(check, as_json=False)
    return code_of_check(check.is_legal)


def _export_project(options: ExportOptions, source: str) -> int:
    from onchip.api.kernels import RunValues
    from onchip.backends.c.exports import export_project, project_export_lines, project_export_object
    from onchip.reports.program.outcome import check_object

    if format_of_answer(options.file) is AnswerFormat.SCHEDULE:
        what = "a schedule's tiles have no kernels in C"
        raise UsageError(what, file=str(options.file), expected="a plan")
    values = RunValues(options.seed, options.random_weights, tuple(options.given or ()))
    export = export_project(options.file, source, options.output, values)
    if export.project is None:
        _show(options.to, (options.output,), export.check, as_json=options.as_json)
        return code_of_check(False)
    found = {
        "to": options.to,
        "files": [str(options.output / name) for name in export.project.files],
        "check": check_object(export.check),
        "project": project_export_object(export.project),
    }
    words = "\n".join((str(options.output), *project_export_lines(export.project)))
    show_words(found, words, as_json=options.as_json)
    return code_of_check(True)


def _export_arena(options: ExportOptions, source: str, files: tuple[Path, ...]) -> int:
    from onchip.backends.tflm.export_arena import arena_export_lines, arena_export_object, export_arena
    from onchip.reports.program.outcome import check_object

    check, export = export_arena(options.file, source, files[0], may_replan=options.replan)
    if export is None:
        _show(options.to, files, check, as_json=options.as_json)
        return code_of_check(False)
    found = {
        "to": options.to,
        "files": [str(file) for file in files],
        "check": check_object(check),
        "arena": arena_export_object(export),
    }
    words = "\n".join((*map(str, files), *arena_export_lines(export)))
    show_words(found, words, as_json=options.as_json)
    return code_of_check(True)


def _export_mapping(options: ExportOptions) -> int:
    from onchip.backends.nests.mapping_files import export_mapping
    from onchip.reports.program.outcome import answer_check_object

    check, files = export_mapping(options.file, options.accelerator, options.output, MappingFormat(options.to))
    written = [str(file) for file in files]
    if check.is_legal or options.as_json:
        found = {"to": options.to, "files": written, "check": answer_check_object(check)}
        show_words(found, "\n".join(written), as_json=options.as_json)
    else:
        show_answer_check(check, as_json=False)
    return code_of_check(check.is_legal)


def _checked(plan: Path, network: str, accelerator: str | None) -> tuple[Check, Traced | None]:
    """Return the check of a plan and, if it is legal, the times of its instructions.

    The times are those on an accelerator, or the plan's own; None if neither is known.
    """
    from onchip.api.time_plan import own_timeline, time_network
    from onchip.reports.exports import spans_of_activities, traced_activities, traced_waits

    if accelerator is None:
        from onchip.api.check_plan import check_plan
        from onchip.api.target import Target

        check, clock_mhz = check_plan(plan, network, Target(), {}), None
        timeline = own_timeline(check.problem, check.document.answer) if check.is_legal else None
    else:
        timing = time_network(plan, network, accelerator)
        check, timeline, clock_mhz = timing.check, timing.timeline, timing.accelerator.clock_mhz
    if timeline is None:
        return check, None
    spans = traced_activities(timeline.activities, clock_mhz)
    in_time = spans_of_activities(check.problem, check.document.answer, spans)
    return check, (in_time, traced_waits(timeline.activities, clock_mhz))


def _show(form: str, files: tuple[Path, ...], check: Check, *, as_json: bool) -> None:
    """Print the names of the files written, or the violations of an illegal plan."""
    from onchip.reports.program.outcome import check_object

    if not check.is_legal and not as_json:
        show_check(check, as_json=False)
        return
    written = [str(file) for file in files] if check.is_legal else []
    show_words({"to": form, "files": written, "check": check_object(check)}, "\n".join(written), as_json=as_json)
