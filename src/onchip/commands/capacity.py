"""`onchip capacity`: the minimum traffic of a network as a function of its scratchpad capacity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from onchip.answer.options.verb_options import CapacityOptions
from onchip.answer.problem import Objective
from onchip.commands.arguments import LimitOptions, Network, ReadingOptions, accelerator_option
from onchip.commands.exit_code import ExitCode
from onchip.commands.progress import watched_run
from onchip.commands.show import ShownOptions, show_solved

if TYPE_CHECKING:
    from onchip.sweeps.capacity import CapacityRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityArguments:
    """Arguments and options of `onchip capacity`."""

    network: Network
    objective: Annotated[
        Objective, typer.Option(help="Minimised cost; all but traffic and peak need an accelerator.")
    ] = Objective.TRAFFIC
    accelerator: Annotated[str | None, accelerator_option("Accelerator whose only scratchpad takes all sizes.")] = None
    options: CapacityOptions
    read_as: ReadingOptions
    search: LimitOptions
    shown: ShownOptions

    @property
    def request(self) -> CapacityRequest:
        """Return the request; raises InputError for an invalid time or dimension."""
        from onchip.sweeps.capacity import capacity_request

        asked = self.network, self.read_as.reading, self.accelerator, self.objective, self.options
        return capacity_request(*asked, self.search.limits())


def capacity_command(options: CapacityArguments) -> int:
    """Find the minimum traffic for every scratchpad capacity.

    The result is a step function, with the exact start and value of each step. The curve runs from M_R, below which
    nothing fits, to the capacity at which only compulsory traffic is left. Each step is proven. With an accelerator
    that has one scratchpad, --objective may also be DMA cycles or energy, proven as well, or latency, from a lower
    bound to a plan's. Ctrl-C ends with the curve so far. Exit code 3 if no capacity fits.
    """
    from onchip.sweeps.capacity import capacity_curve, capacity_object, capacity_tables

    outcome = capacity_curve(options.request, watched_run)
    show_solved(outcome, capacity_object, capacity_tables, options.shown)
    return ExitCode.ANSWER if outcome.unfit is None else ExitCode.INFEASIBLE
