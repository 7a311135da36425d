"""`onchip check`: a plan held against the rules, and against what it claims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from onchip.answer.document import Granularity
from onchip.answer.problem import Count
from onchip.commands.arguments import AcceleratorName, Alignment, AsJson, Bits, Dims, Network, PlanFile, Sram, dims_of
from onchip.commands.exit_code import code_of_check
from onchip.reports.shared.output import write, write_json

if TYPE_CHECKING:
    from onchip.reports.program.outcome import Check


def check_command(
    plan: PlanFile,
    network: Network,
    sram: Sram = None,
    accelerator: AcceleratorName = None,
    alignment: Alignment = None,
    count: Annotated[Count | None, typer.Option(help="Must be what the plan says.")] = None,
    bits: Bits = None,
    granularity: Annotated[Granularity | None, typer.Option(help="Must be what the plan says.")] = None,
    dim: Dims = None,
    as_json: AsJson = False,
) -> int:
    """Verify PLAN.json for NETWORK: name each violation, recompute every claim.

    NETWORK is read as the plan says; --sram, --accelerator and --alignment stand in for the plan's own memories.
    """
    from onchip.app.plan import check_plan
    from onchip.app.target import Target

    flags = {"bits": bits, "granularity": granularity, "count": count, "dims": dims_of(dim) or None}
    insisted = {name: value for name, value in flags.items() if value is not None}
    check = check_plan(plan, network, Target.of_text(sram, accelerator, alignment), insisted)
    show_check(check, as_json=as_json)
    return code_of_check(check.is_legal)


def show_check(check: Check, *, as_json: bool) -> None:
    """Print what the verifier found."""
    if as_json:
        from onchip.reports.program.json_view import check_object

        write_json(check_object(check))
    else:
        from onchip.reports.program.terminal import check_report, show

        write(show(*check_report(check)))
