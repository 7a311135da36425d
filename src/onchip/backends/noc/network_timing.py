"""How long mappings take on a network on a chip, as it is shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onchip.backends.noc.layer import LayerOnNetwork
from onchip.reports.shared.answer_check import AnswerCheck, answer_check_lines, answer_check_object
from onchip.reports.shared.words import printable

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, slots=True)
class TimedMapping:
    """How one mapping ran, and the names of the layers that have it."""

    names: tuple[str, ...]
    run: LayerOnNetwork


@dataclass(frozen=True, slots=True)
class NetworkTiming:
    """A mapping file that was verified and, if legal, simulated."""

    check: AnswerCheck
    timed: tuple[TimedMapping, ...] = ()


def network_timing_object(timing: NetworkTiming) -> dict[str, object]:
    """Say what `time --network-on-chip` found; of a file that is not legal, `check` is as `onchip check` says it."""
    if not timing.check.is_legal:
        return {"accelerator": timing.check.accelerator, "mappings": None, "check": answer_check_object(timing.check)}
    return {
        "network": timing.check.network,
        "accelerator": timing.check.accelerator,
        "total_cycles": sum(one.run.cycles * len(one.names) for one in timing.timed),
        "mappings": [
            {
                "names": list(one.names),
                "cycles": one.run.cycles,
                "compute_cycles": one.run.compute_cycles,
                "rounds": one.run.rounds,
                "rounds_simulated": one.run.rounds_simulated,
                "flit_hops": one.run.flit_hops,
                "dram_packets": one.run.dram_packets,
            }
            for one in timing.timed
        ],
    }


def network_timing_lines(timing: NetworkTiming) -> Iterator[RenderableType]:
    """Yield a line for each mapping, or what is wrong with a file that was not simulated."""
    from rich.text import Text

    if not timing.check.is_legal:
        yield from answer_check_lines(timing.check)
        yield Text("the mappings are not all legal: none was simulated")
        return
    for one in timing.timed:
        run = one.run
        whole = "" if run.is_whole else f", from {run.rounds_simulated:,} of {run.rounds:,} rounds"
        times = f"{run.cycles:,} cycles on the network, {run.compute_cycles:,} for computing alone{whole}"
        yield Text(printable(f"{', '.join(one.names)}: {times}"))
