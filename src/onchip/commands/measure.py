"""`onchip measure` and `onchip measure-host`: run mappings on this machine, and describe this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from onchip.commands.arguments import AsJson, accelerator_names
from onchip.commands.exit_code import ExitCode, code_of_check
from onchip.commands.show import show_tables, show_words


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """Arguments and options of `onchip measure`."""

    file: Annotated[Path, typer.Argument(metavar="MAPPING.yaml", help="A mapping file, as `onchip map -o` writes it.")]
    accelerator: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="Accelerator of the mappings, unless the file names a bundled one or the host.",
            autocompletion=accelerator_names,
        ),
    ] = None
    seconds: Annotated[
        float,
        typer.Option(
            min=0.0, max=60.0, metavar="S", help="Seconds for which each mapping and its baseline run in turn."
        ),
    ] = 1.0
    as_json: AsJson = False


def measure_command(options: MeasureOptions) -> int:
    """Compile each mapping of a file as C, run it on one thread of this machine, and compare its time and values.

    The model's prediction is shown with the time of numpy (products of floats) or onnxruntime (all others) on the same
    problem, run alternately with the mapping. Exit code 1 if values differ. Needs a C compiler: gcc, clang, or ziglang.
    """
    from onchip.api.answer_check import AnswerCheck, answer_check_lines, answer_check_object
    from onchip.backends.nests.mapping_files import MeasureRequest, measure_mappings, measured_object, measured_table

    found = measure_mappings(MeasureRequest(options.file, options.accelerator, options.seconds))
    if found.violations:
        check = AnswerCheck("mapping", "", found.accelerator.name, found.violations)
        show_tables(check, answer_check_object, answer_check_lines, as_json=options.as_json)
        return ExitCode.WRONG
    show_tables(found, measured_object, measured_table, as_json=options.as_json)
    return code_of_check(all(one.is_right for one in found.measured))


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureHostOptions:
    """Arguments and options of `onchip measure-host`."""

    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE.yaml", help="Write the accelerator file here, too.")
    ] = None
    as_json: AsJson = False


def measure_host_command(options: MeasureHostOptions) -> int:
    """Measure one core of this machine, and describe it as the accelerator `--accelerator host` from now on.

    Vector lanes, registers, units and caches come from the system, bandwidths from a probe of a few seconds. Needs a C
    compiler: gcc, clang, or ziglang.
    """
    from onchip.backends.nests.host_yaml import keep_host, kept_host_file, measure_host
    from onchip.formats.files import ensure_writable, write_file
    from onchip.formats.own.accelerator_yaml import accelerator_fields

    if options.output is not None:
        ensure_writable(options.output)
    accelerator, text = measure_host()
    place = kept_host_file()
    is_kept = place is not None and keep_host(text, place)
    if options.output is not None:
        write_file(options.output, text.encode())
    kept = str(place) if is_kept else None
    show_words(
        {"kept": kept, "accelerator": accelerator_fields(accelerator)}, text.rstrip("\n"), as_json=options.as_json
    )
    return ExitCode.ANSWER
