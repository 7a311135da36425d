"""`onchip export`: convert a plan or a schedule for other tools."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onchip.backends.nests import MappingFormat
from onchip.commands.answer_files import bundled_network_of
from onchip.commands.arguments import GREATEST_SEED, AsJson, PlanOrScheduleFile
from onchip.commands.check import show_checked
from onchip.commands.exit_code import code_of_check
from onchip.commands.show import show_words
from onchip.errors import UsageError
from onchip.formats.files import AnswerFormat, format_of_answer
from onchip.reports.exports import ExportFormat

if TYPE_CHECKING:
    from onchip.backends.exports import Exported


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
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Output file; see below for c and csv.")
    ]
    accelerator: Annotated[
        str | None,
        typer.Option(metavar="NAME|FILE", help="Accelerator of a mapping, or whose cycles a trace counts."),
    ] = None
    random_weights: Annotated[
        int | None,
        typer.Option(
            min=0, max=GREATEST_SEED, metavar="SEED", help="Random parameters of a c-project, instead of the model's."
        ),
    ] = None
    given: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="[NAME=]x.npy", help="Initial value of an input of a c-project; repeatable."),
    ] = None
    seed: Annotated[
        int, typer.Option(min=0, max=GREATEST_SEED, metavar="N", help="Seed of the other inputs of a c-project.")
    ] = 0
    replan: Annotated[
        bool,
        typer.Option(
            "--replan", help="Write other offsets or another order to a .tflite file if its arena becomes smaller."
        ),
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
    c-project: FILE is a folder: arenas of the plan's sizes, weights, kernels in C11, and the plan as calls; `make run`.
    graph: FILE is x.json[.gz], the network in the tiles of the plan, as input for plan, check or time.
    tflite: NETWORK, a .tflite file, with the plan's order and arena offsets, which TFLite Micro obeys;
    the plan needs --alignment 16. With --replan other offsets are written if the runtime cannot use the plan's.
    A schedule is exported as trace, in time, C and tables, all with its workspaces as tensors; C includes its mappings.
    For a MAPPING file --to c writes each loop nest as a function that runs: FILE is x.c; for several, x.LAYER.c each.
    --to cuda (x.cu) and --to opencl (x.cl) write a kernel: blocks, threads, shared memory and registers as mapped.
    """
    from onchip.api.kernels import RunValues
    from onchip.backends.exports import ExportRequest, export_answer

    is_mapping = format_of_answer(options.file) is AnswerFormat.MAPPING
    source = None if is_mapping else options.network or bundled_network_of(options.file)
    values = RunValues(options.seed, options.random_weights, tuple(options.given or ()))
    asked = options.file, source, options.to, options.output, options.accelerator, values, options.replan
    exported = export_answer(ExportRequest(*asked))
    _show(options, exported)
    return code_of_check(exported.check.is_legal)


def _show(options: ExportOptions, exported: Exported) -> None:
    """Print the names of the files written, or the violations of an illegal answer."""
    from onchip.api.answers import check_view

    check = exported.check
    if not check.is_legal and not options.as_json:
        show_checked(check, as_json=False)
        return
    is_project = options.to == ExportFormat.C_PROJECT
    named = [options.output] if is_project and exported.files else exported.files
    files = [str(file) for file in exported.files]
    found = {"to": options.to, "files": files, "check": check_view(check).to_dict(), **exported.facts}
    show_words(found, "\n".join((*map(str, named), *exported.lines)), as_json=options.as_json)
