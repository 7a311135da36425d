"""`onchip check`: a plan held against the rules, and against what it claims."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onchip.answer.document import Granularity
from onchip.answer.problem import Count
from onchip.commands.arguments import AsJson, Bits, Dims, MemoryOptions, Network, PlanFile, dims_of
from onchip.commands.exit_code import code_of_check
from onchip.commands.show import show_tables

if TYPE_CHECKING:
    from rich.console import RenderableType

    from onchip.reports.program.outcome import Check


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """What `onchip check` is asked."""

    plan: PlanFile
    network: Network
    memories: MemoryOptions
    count: Annotated[Count | None, typer.Option(help="Must be what the plan says.")] = None
    bits: Bits = None
    granularity: Annotated[Granularity | None, typer.Option(help="Must be what the plan says.")] = None
    dim: Dims = None
    as_json: AsJson = False

    @property
    def insisted(self) -> dict[str, object]:
        """What the plan must say, by name; raises UsageError."""
        flags = {
            "bits": self.bits,
            "granularity": self.granularity,
            "count": self.count,
            "dims": dims_of(self.dim) or None,
        }
        return {name: value for name, value in flags.items() if value is not None}


def check_command(options: CheckOptions) -> int:
    """Verify PLAN.json for NETWORK: name each violation, recompute every claim.

    NETWORK is read as the plan says; --sram, --accelerator and --alignment stand in for the plan's own memories.
    """
    from onchip.app.plan import check_plan

    insisted = options.insisted
    check = check_plan(options.plan, options.network, options.memories.target, insisted)
    show_check(check, as_json=options.as_json)
    return code_of_check(check.is_legal)


def check_of_legal_plan(plan: Path, network: str, *, as_json: bool) -> Check | None:
    """Return a plan held against its network; None where it is not legal, and what is wrong is printed."""
    from onchip.app.plan import check_plan
    from onchip.app.target import Target

    check = check_plan(plan, network, Target(), {})
    if check.is_legal:
        return check
    show_check(check, as_json=as_json)
    return None


def show_check(check: Check, *, as_json: bool) -> None:
    """Print what the verifier found."""
    from onchip.reports.program.json_view import check_object

    show_tables(check, check_object, _tables, as_json=as_json)


def _tables(check: Check) -> tuple[RenderableType, ...]:
    from onchip.reports.program.terminal import check_report

    return check_report(check)
