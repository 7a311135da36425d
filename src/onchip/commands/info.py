"""`onchip info`, `networks` and `accelerators`: descriptions of networks, and lists of bundled files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from onchip.commands.arguments import AsJson, Network, ReadingOptions, seconds_of
from onchip.commands.exit_code import ExitCode
from onchip.commands.progress import watched_run
from onchip.commands.show import show_tables, show_words
from onchip.search.budget.limits import Limits

if TYPE_CHECKING:
    from rich.console import RenderableType

    from onchip.arch.accelerator import Accelerator
    from onchip.reports.program.outcome import Description


@dataclass(frozen=True, slots=True, kw_only=True)
class InfoOptions:
    """Arguments and options of `onchip info`."""

    network: Network
    read_as: ReadingOptions
    time_limit: Annotated[float, typer.Option(metavar="S", help="Seconds to look for M_P.")] = 10.0
    as_json: AsJson = False


def info_command(options: InfoOptions) -> int:
    """Describe NETWORK: operators, tensors, M_R and the operator that sets it, M_P, the largest tensors."""
    from onchip.api.plan import describe_network
    from onchip.reports.program.outcome import description_object

    reading, limits = options.read_as.reading, Limits(seconds_of(options.time_limit))
    description = describe_network(options.network, reading, limits, watched_run)
    show_tables(description, description_object, _description_tables, as_json=options.as_json)
    return ExitCode.ANSWER


def _description_tables(description: Description) -> tuple[RenderableType, ...]:
    from onchip.reports.program.outcome import description_report

    return description_report(description)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """Options of the commands that list bundled files."""

    as_json: AsJson = False


def networks_command(options: ListOptions) -> int:
    """List the names of the bundled networks, a line each."""
    from onchip.formats.own.graph_json import bundled_networks

    names = list(bundled_networks())
    show_words({"networks": names}, "\n".join(names), as_json=options.as_json)
    return ExitCode.ANSWER


def accelerators_command(options: ListOptions) -> int:
    """List the bundled accelerators and their scratchpads."""
    from onchip.formats.own.accelerator_yaml import bundled_accelerators, load_accelerator

    accelerators = [load_accelerator(name) for name in bundled_accelerators()]
    show_tables(accelerators, _accelerators_object, _accelerators_tables, as_json=options.as_json)
    return ExitCode.ANSWER


def _accelerators_object(accelerators: Sequence[Accelerator]) -> dict[str, object]:
    from onchip.reports.program.outcome import accelerator_object

    return {"accelerators": [accelerator_object(accelerator) for accelerator in accelerators]}


def _accelerators_tables(accelerators: Sequence[Accelerator]) -> tuple[RenderableType, ...]:
    from onchip.reports.program.outcome import accelerators_table

    return (accelerators_table(accelerators),)
