"""`onchip info`, `networks` and `accelerators`: what there is to plan, and for what."""

from __future__ import annotations

from typing import Annotated

import typer

from onchip.answer.document import Granularity, Reading
from onchip.answer.problem import Count
from onchip.commands.arguments import AsJson, Bits, Dims, Network, dims_of, seconds_of
from onchip.commands.exit_code import ExitCode
from onchip.commands.progress import watched_run
from onchip.reports.shared.output import write, write_json
from onchip.solve.run.limits import Limits


def info_command(
    network: Network,
    count: Annotated[Count, typer.Option(help="Count all tensors, or all but parameters.")] = Count.ACTIVATIONS,
    bits: Bits = None,
    granularity: Annotated[Granularity, typer.Option(help="Fuse operators, or leave the nodes.")] = Granularity.FUSED,
    dim: Dims = None,
    time_limit: Annotated[float, typer.Option(metavar="S", help="Seconds to look for M_P.")] = 10.0,
    as_json: AsJson = False,
) -> int:
    """Say what is in NETWORK: operators, tensors, M_R and the operator that sets it, M_P, the largest tensors."""
    from onchip.app.plan import describe_network

    reading = Reading(bits, dims_of(dim), granularity, count)
    description = describe_network(network, reading, Limits(seconds_of(time_limit)), watched_run)
    if as_json:
        from onchip.reports.program.json_view import description_object

        write_json(description_object(description))
    else:
        from onchip.reports.program.terminal import description_report, show

        write(show(*description_report(description)))
    return ExitCode.ANSWER


def networks_command(as_json: AsJson = False) -> int:
    """List the bundled networks."""
    from onchip.formats.own.bundled_networks import bundled_networks

    names = list(bundled_networks())
    if as_json:
        write_json({"networks": names})
    else:
        write("\n".join(names))
    return ExitCode.ANSWER


def accelerators_command(as_json: AsJson = False) -> int:
    """List the bundled accelerators and their scratchpads."""
    from onchip.formats.own.accelerator_yaml import bundled_accelerators, load_accelerator

    accelerators = [load_accelerator(name) for name in bundled_accelerators()]
    if as_json:
        from onchip.reports.program.json_view import accelerator_object

        write_json({"accelerators": [accelerator_object(accelerator) for accelerator in accelerators]})
    else:
        from onchip.reports.program.terminal import accelerators_table, show

        write(show(accelerators_table(accelerators)))
    return ExitCode.ANSWER
