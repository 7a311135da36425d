"""`onchip audit`: is there anything better than the claimed bound? A second prover is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onchip.answer.problem import Order
from onchip.commands.arguments import Alignment, AsJson, Workers, bytes_of, seconds_of
from onchip.commands.exit_code import ExitCode
from onchip.errors import UsageError
from onchip.reports.shared.output import write, write_json


def audit_command(
    answer: Annotated[Path, typer.Argument(metavar="ANSWER", help="PLAN.json, OUT.csv of `pack`, or MAPPING.yaml.")],
    network: Annotated[
        str, typer.Argument(metavar="NETWORK", help="What it answers, as `plan`, `pack` or `map` had it.")
    ],
    bound: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Ask about this bound, not the claimed one.")
    ] = None,
    order: Annotated[
        Order | None, typer.Option(help="Of a plan file that says nothing of it.", show_default=False)
    ] = None,
    capacity: Annotated[str | None, typer.Option(metavar="SIZE", help="Of a packing, as `pack` had it.")] = None,
    alignment: Alignment = None,
    minimize: Annotated[bool, typer.Option("--minimize", help="The packing claims the least capacity.")] = False,
    overflow: Annotated[bool, typer.Option("--overflow", help="The packing claims the least bytes outside.")] = False,
    accelerator: Annotated[str | None, typer.Option(metavar="NAME|FILE", help="Of a mapping, as `map` had it.")] = None,
    time_limit: Annotated[float, typer.Option(metavar="S", help="Seconds; then it is undecided.")] = 60.0,
    workers: Workers = 1,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="BETTER", help="Write the better answer, if there is one.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Ask a second prover, which shares no code with the methods, for anything better than the bound ANSWER claims.

    `confirmed` (ends with 0): there is nothing. `refuted` (1): there is, it is verified, and written with -o.
    `undecided` (4): neither was found out in time.

    What was packed without --minimize or --overflow claims only to fit. A plan is audited in the orders that its
    claim is about: any, the network's own, or, for one of least peak, the plan's own.
    """
    from onchip.app.audit import AuditRequest, audit_answer
    from onchip.formats.writable import ensure_writable

    if overflow and minimize:
        raise UsageError("it contradicts --minimize", place="--overflow", expected="one of the two")
    if output is not None:
        ensure_writable(output, inputs=(str(answer), network, *filter(None, (accelerator,))))
    seconds, capacity_bytes = seconds_of(time_limit) or 0.0, bytes_of(capacity, "--capacity")
    packed_as = capacity_bytes, alignment, overflow, minimize
    request = AuditRequest(answer, network, bound, order, *packed_as, accelerator, seconds, workers, output)
    outcome = audit_answer(request)
    if as_json:
        write_json(outcome.as_object)
    else:
        write(outcome.words)
    return {"confirmed": ExitCode.ANSWER, "refuted": ExitCode.WRONG}.get(outcome.ruling, ExitCode.NO_ANSWER)
