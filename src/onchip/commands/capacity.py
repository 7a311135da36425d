"""`onchip capacity`: the minimum traffic of a network as a function of its scratchpad capacity."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from onchip.answer.operator_tiles import TilesOption
from onchip.answer.options.capacity_options import CapacityOptions
from onchip.answer.problem import Objective, Order
from onchip.arch.sharing import Share
from onchip.commands.arguments import Alignment, AsJson, CycleCost, LimitOptions, Network, ReadingOptions
from onchip.commands.completion import accelerator_names
from onchip.commands.exit_code import ExitCode
from onchip.commands.progress import watched_run
from onchip.commands.show import show_tables

if TYPE_CHECKING:
    from rich.console import RenderableType

    from onchip.sweeps.capacity import CapacityOutcome, CapacityRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityArguments:
    """Arguments and options of `onchip capacity`."""

    network: Network
    objective: Annotated[Objective, typer.Option(help="What is least; all but traffic and peak need a machine.")] = (
        Objective.TRAFFIC
    )
    accelerator: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="The machine whose only scratchpad takes all sizes.",
            autocompletion=accelerator_names,
        ),
    ] = None
    cost: CycleCost = "mapping"
    order: Annotated[Order, typer.Option(help="Any order, the network's own, or one of least peak.")] = Order.FREE
    read_as: ReadingOptions
    alignment: Alignment = None
    tiles: Annotated[TilesOption, typer.Option(help="Search tilings for each capacity, or keep operators whole.")] = (
        TilesOption.NEVER
    )
    share: Annotated[Share, typer.Option(help="Which outputs share bytes with inputs.")] = Share.NONE
    search: LimitOptions
    as_json: AsJson = False

    @property
    def request(self) -> CapacityRequest:
        """Return the request; raises InputError for an invalid time or dimension."""
        from onchip.sweeps.capacity import capacity_request

        options = CapacityOptions(
            order=self.order,
            count=self.read_as.count,
            share=self.share,
            cost=self.cost,
            alignment_bytes=self.alignment,
            tiles=self.tiles,
        )
        asked = self.network, self.read_as.reading, self.accelerator, self.objective, options
        return capacity_request(*asked, self.search.limits())


def capacity_command(options: CapacityArguments) -> int:
    """Find the minimum traffic of NETWORK for every scratchpad capacity: the exact start and value of each step.

    The curve runs from M_R, below which nothing fits, to the capacity at which only compulsory traffic is left. Each
    step is proven. For an accelerator with one scratchpad also the minimum DMA cycles and energy, proven as well, and
    the minimum latency, from a lower bound to a plan's. Ctrl-C ends with the curve so far. Exit code 3 if no capacity
    fits.
    """
    from onchip.sweeps.capacity import capacity_curve, capacity_object

    outcome = capacity_curve(options.request, watched_run)
    show_tables(outcome, capacity_object, _tables, as_json=options.as_json)
    return ExitCode.ANSWER if outcome.unfit is None else ExitCode.INFEASIBLE


def _tables(outcome: CapacityOutcome) -> Iterator[RenderableType]:
    from onchip.sweeps.capacity import capacity_tables

    return capacity_tables(outcome)
