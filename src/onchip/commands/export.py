"""`onchip export`: convert a plan or a schedule for other tools."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onchip.backends.nests import MappingFormat
from onchip.commands.answer_files import bundled_network_of
from onchip.commands.arguments import GREATEST_SEED, AsJson, PlanOrScheduleFile, accelerator_option, output_option
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
            help="Network of the answer: a bundled name, which may be omitted, or .onnx, .tflite, .pt2 or .json file.",
        ),
    ] = None
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
            what = f"only a c-project has weights and inputs, not {self.to}"
            raise UsageError(what, place="--random-weights, --input, --seed", expected="--to c-project")
        if self.replan and self.to != ExportFormat.TFLITE:
            raise UsageError(
                f"--replan is used with tflite only, not with {self.to}", place="--replan", expected="--to tflite"
            )
        is_mapping = format_of_answer(self.file) is AnswerFormat.MAPPING
        if self.accelerator is not None and self.to != ExportFormat.TRACE and not is_mapping:
            raise UsageError(
                f"--accelerator is used with trace only, not with {self.to}",
                place="--accelerator",
                expected="--to trace",
            )
        if is_mapping and (self.to not in tuple(MappingFormat) or self.network is not None):
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
