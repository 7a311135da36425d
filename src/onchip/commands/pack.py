"""`onchip pack`: assign addresses to buffers with known live ranges."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onchip.commands.answer_files import AnswerFiles
from onchip.commands.arguments import AsJson, LimitOptions, PackingOptions
from onchip.commands.exit_code import code_of_result
from onchip.commands.progress import watched_run
from onchip.commands.show import show_words
from onchip.errors import UsageError

if TYPE_CHECKING:
    from onchip.reports.packing import OverflowOutcome, PackingOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class PackArguments:
    """Arguments and options of `onchip pack`."""

    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="Buffers as MiniMalloc's CSV has them.")]
    packing: PackingOptions
    search: LimitOptions
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="OUT.csv", help="Write buffers and offsets (none: outside)."),
    ] = None
    as_json: AsJson = False


def pack_command(options: PackArguments) -> int:
    """Give each buffer of FILE.csv an offset within a capacity, or prove that there are none.

    FILE.csv has columns id, lower, upper and size; a buffer is live over the half-open range [lower, upper). A column
    offset fixes the offset of a buffer; an empty field leaves it open. Exit code 0 if the buffers fit, 3 if they
    provably do not fit, 4 if the time was not sufficient for a decision.

    With --overflow each buffer is within the capacity for its whole live range, or outside: the bytes outside (the sum
    of the sizes there) are minimised. There is always an answer. OUT.csv has no offset for buffers outside.
    """
    from onchip.api.pack import overflow_file, pack_file
    from onchip.reports.packing import overflow_object, packing_object

    packing, capacity_bytes = options.packing, options.packing.capacity_bytes
    if capacity_bytes is None and not packing.minimize:
        expected = "a size" if packing.overflow else "a size, or --minimize"
        raise UsageError("there is no capacity", place="--capacity", expected=expected)
    limits, files = options.search.limits(), AnswerFiles((str(options.file),), options.output)
    files.ensure_they_can_be_written()
    if packing.overflow and capacity_bytes is not None:
        spilt = overflow_file(options.file, capacity_bytes, packing.alignment, limits, watched_run)
        return _handed_out(spilt, overflow_object(spilt), files, as_json=options.as_json)
    outcome = pack_file(options.file, capacity_bytes, packing.alignment, limits, watched_run, minimize=packing.minimize)
    return _handed_out(outcome, packing_object(outcome), files, as_json=options.as_json)


def _handed_out(
    outcome: PackingOutcome | OverflowOutcome, as_object: dict[str, object], files: AnswerFiles, *, as_json: bool
) -> int:
    """Write the requested file and print the result."""
    from onchip.formats.minimalloc import write_packing

    packed = outcome.result.answer
    if packed is not None:
        files.write_answer(lambda path: write_packing(outcome.ids, outcome.problem, packed, path))
    show_words(as_object, outcome.words, as_json=as_json)
    return code_of_result(outcome.result)
