"""`onchip pack`: addresses for buffers with known lives."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onchip.commands.watched import seconds_of, watched_run
from onchip.errors import InputError, UsageError
from onchip.plan.result import Status, Stop
from onchip.report.output import write, write_json
from onchip.solve.limits import Limits

FITS, DOES_NOT_FIT, NO_ANSWER, INTERRUPTED = 0, 3, 4, 130
GREATEST_ALIGNMENT = 2**30
GREATEST_SEED = 2**31 - 1


def pack_command(
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="Buffers as MiniMalloc's CSV has them.")],
    capacity: Annotated[str | None, typer.Option(metavar="SIZE", help="Bytes to pack into (1048576, 1MiB).")] = None,
    alignment: Annotated[
        int | None,
        typer.Option(min=1, max=GREATEST_ALIGNMENT, metavar="N", help="Every offset is a multiple of N bytes."),
    ] = None,
    minimize: Annotated[bool, typer.Option("--minimize", help="Find the least capacity.")] = False,
    time_limit: Annotated[float | None, typer.Option(metavar="S", help="Seconds; else until proven.")] = None,
    workers: Annotated[int, typer.Option(min=1, metavar="N", help="Parallel workers.")] = 1,
    seed: Annotated[int, typer.Option(min=0, max=GREATEST_SEED, metavar="N", help="Seed of all choices.")] = 0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="OUT.csv", help="Write buffers and offsets.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> int:
    """Give each buffer of FILE.csv an offset within a capacity, or prove that there are none.

    FILE.csv has columns id, lower, upper and size; a buffer lives over the half-open range [lower, upper).
    Ends with 0 if the buffers fit, with 3 if they are proven not to, with 4 if that was not found out in time.
    """
    from onchip.export.writable import ensure_writable
    from onchip.pipeline import pack_file
    from onchip.report.packing import packing_object

    if capacity is None and not minimize:
        raise UsageError("there is no capacity", place="--capacity", expected="a size, or --minimize")
    limits = Limits(seconds_of(time_limit), workers=workers, seed=seed)
    if output is not None:
        ensure_writable(output, inputs=(str(file),))
    outcome = pack_file(file, _bytes(capacity), alignment, limits, watched_run, minimize=minimize)
    result = outcome.result
    if output is not None and result.answer is not None:
        from onchip.export.minimalloc_csv import write_packing

        write_packing(outcome.ids, outcome.problem, result.answer, output)
    if as_json:
        write_json(packing_object(outcome))
    else:
        write(outcome.words)
    if result.answer is not None:
        return FITS
    if result.status is Status.INFEASIBLE:
        return DOES_NOT_FIT
    return INTERRUPTED if result.stopped_by is Stop.INTERRUPTED else NO_ANSWER


def _bytes(capacity: str | None) -> int | None:
    from onchip.frontends.sizes import parse_size

    try:
        return None if capacity is None else parse_size(capacity)
    except InputError as error:
        error.place = error.place or "--capacity"
        raise
