"""`onchip pack`: assign addresses to buffers with known live ranges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from onchip.commands.answer_files import AnswerFiles
from onchip.commands.arguments import AsJson, LimitOptions, PackingOptions, output_option
from onchip.commands.exit_code import code_of_result
from onchip.commands.progress import watched_run
from onchip.commands.show import show_tables
from onchip.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from onchip.reports.packing import MemoriesOutcome, OverflowOutcome, PackingOutcome

FoundT = TypeVar("FoundT", "PackingOutcome", "OverflowOutcome", "MemoriesOutcome")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackArguments:
    """Arguments and options of `onchip pack`."""

    file: Annotated[Path, typer.Argument(metavar="FILE", help="Buffers: .csv as MiniMalloc's, .json, .mlir or .txt.")]
    packing: PackingOptions
    search: LimitOptions
    output: Annotated[
        Path | None, output_option("OUT", "Write offsets (none: outside) as .csv, .json, .mlir or .txt.")
    ] = None
    as_json: AsJson = False


def pack_command(options: PackArguments) -> int:
    """Assign offsets to buffers within a capacity.

    The result is a packing, or a proof that there is none. A CSV file has columns id, lower, upper and size; a buffer
    is live over the half-open range [lower, upper). Columns offset, alignment and gaps (ranges such as 3-5 in which
    others may use the bytes) are optional; an empty offset leaves it open. A JSON file may also name several memories,
    preferences, and groups that must lie together or apart. Of an MLIR file, slices of stream.resource.pack and
    allocations of memrefs are packed, and -o OUT.mlir has the offsets. JSON may also be a program of ExecuTorch, with
    its offsets in -o OUT.json, or a graph of TVM, and a text file the plan that TFLite Micro prints. Exit code 0 if the
    buffers fit, 3 if they provably do not fit, 4 if the time was not sufficient for a decision. Buffers that do not fit
    together are named.

    With --overflow each buffer is within the capacity for its whole live range, or outside: the bytes outside (the sum
    of the sizes there) are minimised. There is always an answer. The output has no offset for buffers outside.
    """
    from onchip.api.pack import MemoriesRequest, memories_file, overflow_file, pack_file
    from onchip.formats.packing_files import read_packing_file
    from onchip.reports.packing import memories_object, overflow_object, packing_object

    packing, capacity_bytes = options.packing, options.packing.capacity_bytes
    limits, files = options.search.limits(), AnswerFiles((str(options.file),), options.output)
    given = read_packing_file(options.file) if options.file.suffix == ".json" else None
    has_memories = given is not None and bool(given.memories or given.together or given.apart)
    if capacity_bytes is None and not packing.minimize and not (given and given.memories):
        expected = "a size" if packing.overflow else "a size, or --minimize"
        raise UsageError("pack needs a capacity", place="--capacity", expected=expected)
    files.ensure_they_can_be_written()
    source = given or options.file
    if has_memories or packing.split:
        if given and given.memories and (capacity_bytes is not None or packing.minimize):
            raise UsageError("the file has memories", place="--capacity", expected="no capacity, and no --minimize")
        request = MemoriesRequest(
            (), capacity_bytes, packing.alignment, overflow=packing.overflow, splits=packing.split
        )
        return _handed_out(memories_file(source, request, limits, watched_run), memories_object, files, options)
    if packing.overflow and capacity_bytes is not None:
        spilt = overflow_file(source, capacity_bytes, packing.alignment, limits, watched_run)
        return _handed_out(spilt, overflow_object, files, options)
    outcome = pack_file(source, capacity_bytes, packing.alignment, limits, watched_run, minimize=packing.minimize)
    return _handed_out(outcome, packing_object, files, options)


def _handed_out(
    outcome: FoundT, as_object: Callable[[FoundT], dict[str, object]], files: AnswerFiles, options: PackArguments
) -> int:
    """Write the requested file and print the result."""
    from onchip.answer.packing import Overflow, Packing, PackingProblem
    from onchip.formats.packing_files import write_packing_file
    from onchip.reports.packing import OverflowOutcome, PackingOutcome

    packed: Packing | Overflow | None
    if isinstance(outcome, PackingOutcome | OverflowOutcome):
        packed, problem, memories = outcome.result.answer, outcome.problem, None
    else:
        packed = None if outcome.result.answer is None else Overflow(tuple(outcome.offsets.values()))
        problem, memories = PackingProblem(outcome.problem.buffers, 1), list(outcome.memories.values())
    if packed is not None:
        written = packed
        files.write_answer(lambda path: write_packing_file(outcome.ids, problem, written, path, options.file, memories))
    show_tables(outcome, as_object, _tables, as_json=options.as_json)
    return code_of_result(outcome.result)


def _tables(outcome: PackingOutcome | OverflowOutcome | MemoriesOutcome) -> tuple[RenderableType]:
    from onchip.reports.shared.facts import facts

    return (facts(outcome.rows),)
