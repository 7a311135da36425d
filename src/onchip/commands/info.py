"""`onchip info`, `networks` and `accelerators`: descriptions of networks, and lists of bundled files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import typer

from onchip.answer.options.choices import option
from onchip.answer.problem import Count
from onchip.commands.arguments import AsJson, Network, ReadingOptions, accelerator_names, seconds_of
from onchip.commands.progress import watched_run
from onchip.commands.show import ExitCode, show_view, show_words
from onchip.errors import UsageError
from onchip.reports.shared.output import write
from onchip.search.budget.limits import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class InfoOptions:
    """Arguments and options of `onchip info`."""

    network: Network
    count: Count = option(Count.ACTIVATIONS, "Count all tensors, or all but parameters.")
    read_as: ReadingOptions
    time_limit: float = option(10.0, "Seconds to look for M_P.", "S")
    as_json: AsJson = False


def info_command(options: InfoOptions) -> int:
    """Describe a network: operators, tensors, M_R and M_P.

    M_R is the memory of the largest working set of one operator: no smaller scratchpad can run NETWORK with whole
    operators. M_P is the minimum peak without spills over all operator orders.
    """
    from onchip.api.plan import describe_network
    from onchip.api.results import View
    from onchip.reports.program.outcome import description_object, description_report

    reading = replace(options.read_as.reading, count=options.count)
    limits = Limits(seconds_of(options.time_limit))
    description = describe_network(options.network, reading, limits, watched_run)
    show_view(View(description, description_object, description_report), as_json=options.as_json)
    return ExitCode.ANSWER


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """Options of the commands that list bundled files."""

    as_json: AsJson = False


def networks_command(options: ListOptions) -> int:
    """List the bundled networks, one name per line."""
    from onchip.formats.own.graph_json import bundled_networks

    names = list(bundled_networks())
    show_words({"networks": names}, "\n".join(names), as_json=options.as_json)
    return ExitCode.ANSWER


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorsOptions:
    """Arguments and options of `onchip accelerators`."""

    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME|FILE]", help="Accelerator to describe in detail.", autocompletion=accelerator_names
        ),
    ] = None
    as_yaml: bool = option(False, "Print the accelerator file of NAME.", flag="--yaml")
    as_json: AsJson = False

    def __post_init__(self) -> None:
        if self.as_yaml and self.name is None:
            raise UsageError("--yaml prints one accelerator", place="--yaml", expected="NAME --yaml")


def accelerators_command(options: AcceleratorsOptions) -> int:
    """List the bundled accelerators, or describe one.

    The list shows the compute array, the memories, whether energies are stated, and the commands that work with each.
    """
    from onchip.api.results import View
    from onchip.formats.foreign_files import load_any_accelerator
    from onchip.formats.own.accelerator_yaml import accelerator_to_yaml, bundled_accelerators, load_accelerator
    from onchip.reports.program.outcome import accelerator_object, accelerator_tables, accelerators_table

    if options.name is None:
        accelerators = [load_accelerator(name) for name in bundled_accelerators()]
        listed = View(
            accelerators,
            lambda found: {"accelerators": [accelerator_object(one) for one in found]},
            lambda found: (accelerators_table(found),),
        )
        show_view(listed, as_json=options.as_json)
        return ExitCode.ANSWER
    accelerator = load_any_accelerator(options.name)
    if options.as_yaml and not options.as_json:
        write(accelerator_to_yaml(accelerator).rstrip())
        return ExitCode.ANSWER
    show_view(View(accelerator, accelerator_object, accelerator_tables), as_json=options.as_json)
    return ExitCode.ANSWER
