"""`onchip pack`: addresses for buffers with known lives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onchip.commands.arguments import Alignment, AsJson, Seed, TimeLimit, Workers, bytes_of, seconds_of
from onchip.commands.exit_code import code_of_result
from onchip.commands.progress import watched_run
from onchip.errors import UsageError
from onchip.reports.shared.output import write, write_json
from onchip.solve.run.limits import Limits

if TYPE_CHECKING:
    from onchip.reports.packing import OverflowOutcome, PackingOutcome


def pack_command(
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="Buffers as MiniMalloc's CSV has them.")],
    capacity: Annotated[str | None, typer.Option(metavar="SIZE", help="Bytes to pack into (1048576, 1MiB).")] = None,
    alignment: Alignment = None,
    minimize: Annotated[bool, typer.Option("--minimize", help="Find the least capacity.")] = False,
    overflow: Annotated[
        bool, typer.Option("--overflow", help="Keep what can be kept: the least bytes outside the capacity.")
    ] = False,
    time_limit: TimeLimit = None,
    workers: Workers = 1,
    seed: Seed = 0,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="OUT.csv", help="Write buffers and offsets (none: outside)."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Give each buffer of FILE.csv an offset within a capacity, or prove that there are none.

    FILE.csv has columns id, lower, upper and size; a buffer lives over the half-open range [lower, upper).
    Ends with 0 if the buffers fit, with 3 if they are proven not to, with 4 if that was not found out in time.

    With --overflow each buffer lies wholly within the capacity for its whole life, or wholly outside: the bytes
    outside (the sum of the sizes there) are made least. There is always an answer. OUT.csv has no offset for
    what is outside.
    """
    from onchip.app.plan import overflow_file, pack_file
    from onchip.formats.writable import ensure_writable
    from onchip.reports.packing import overflow_object, packing_object

    if overflow and minimize:
        raise UsageError("it contradicts --minimize", place="--overflow", expected="one of the two")
    capacity_bytes = bytes_of(capacity, "--capacity")
    if capacity_bytes is None and not minimize:
        raise UsageError("there is no capacity", place="--capacity", expected=_expected(overflow))
    limits = Limits(seconds_of(time_limit), workers=workers, seed=seed)
    if output is not None:
        ensure_writable(output, inputs=(str(file),))
    if overflow and capacity_bytes is not None:
        spilt = overflow_file(file, capacity_bytes, alignment, limits, watched_run)
        return _shown(spilt, overflow_object(spilt), output, as_json=as_json)
    outcome = pack_file(file, capacity_bytes, alignment, limits, watched_run, minimize=minimize)
    return _shown(outcome, packing_object(outcome), output, as_json=as_json)


def _expected(overflow: bool) -> str:
    return "a size" if overflow else "a size, or --minimize"


def _shown(
    outcome: PackingOutcome | OverflowOutcome, as_object: dict[str, object], output: Path | None, *, as_json: bool
) -> int:
    """Write the file asked for and what was found."""
    if output is not None and outcome.result.answer is not None:
        from onchip.formats.minimalloc.writer import write_packing

        write_packing(outcome.ids, outcome.problem, outcome.result.answer, output)
    if as_json:
        write_json(as_object)
    else:
        write(outcome.words)
    return code_of_result(outcome.result)
