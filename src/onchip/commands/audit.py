"""`onchip audit`: check a claimed bound with a second, independent prover."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onchip.answer.problem import Order
from onchip.commands.answer_files import AnswerFiles
from onchip.commands.arguments import AsJson, PackedOptions, Workers, output_option, seconds_of
from onchip.commands.exit_code import ExitCode
from onchip.commands.show import show_words

if TYPE_CHECKING:
    from onchip.api.audit import AuditRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedAsOptions(PackedOptions):
    """Options for the claim of an audited packing."""

    capacity: Annotated[str | None, typer.Option(metavar="SIZE", help="Capacity of a packing.")] = None
    minimize: Annotated[bool, typer.Option("--minimize", help="The packing claims the minimum capacity.")] = False
    overflow: Annotated[bool, typer.Option("--overflow", help="The packing claims the minimum bytes outside.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """Arguments and options of `onchip audit`."""

    answer: Annotated[Path, typer.Argument(metavar="ANSWER", help="PLAN.json, or OUT.csv of `pack`.")]
    network: Annotated[
        str, typer.Argument(metavar="NETWORK", help="The network or the buffer file that ANSWER is for.")
    ]
    bound: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Check this bound instead of the claimed one.")
    ] = None
    order: Annotated[
        Order | None, typer.Option(help="Order to assume if the plan file does not record it.", show_default=False)
    ] = None
    packed_as: PackedAsOptions
    time_limit: Annotated[float, typer.Option(metavar="S", help="Seconds until a claim is undecided.")] = 60.0
    workers: Workers = 1
    output: Annotated[Path | None, output_option("BETTER", "Write the better answer, if there is one.")] = None
    as_json: AsJson = False

    @property
    def inputs(self) -> tuple[str, ...]:
        """Return the names of all input files, which must not be overwritten."""
        return str(self.answer), self.network

    @property
    def request(self) -> AuditRequest:
        """Return the request; raises InputError for an invalid size or time."""
        from onchip.api.audit import AuditRequest

        seconds, packed_as = seconds_of(self.time_limit) or 0.0, self.packed_as
        claimed = packed_as.capacity_bytes, packed_as.alignment, packed_as.overflow, packed_as.minimize
        asked = self.answer, self.network, self.bound, self.order
        return AuditRequest(*asked, *claimed, seconds, self.workers, self.output)


def audit_command(options: AuditOptions) -> int:
    """Check a claimed lower bound with a second prover.

    The prover shares no code with the methods, and searches for an answer below the bound that ANSWER claims.
    `confirmed` (exit code 0): no such answer exists. `refuted` (1): one exists; it is verified, and written with -o.
    `undecided` (4): the time was not sufficient for a decision.

    A packing made without --minimize or --overflow claims only to fit. A plan is audited over the orders that its claim
    covers: any, the network's own, or, for minimum peak, the plan's own.
    """
    from onchip.api.audit import audit_answer

    AnswerFiles(options.inputs, options.output).ensure_they_can_be_written()
    outcome = audit_answer(options.request)
    show_words(outcome.as_object, outcome.words, as_json=options.as_json)
    return {"confirmed": ExitCode.ANSWER, "refuted": ExitCode.WRONG}.get(outcome.ruling, ExitCode.NO_ANSWER)
