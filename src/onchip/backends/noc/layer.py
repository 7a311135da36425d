"""Mappings timed on CoSA's network on chip, and how they are shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from onchip import native
from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.api.check_mapping import MappingFile, accelerator_named, check_mapping_file
from onchip.api.phases import phase
from onchip.backends.noc.mesh import (
    COSA_DRAM,
    COSA_ELEMENTS,
    COSA_NETWORK,
    NetworkRun,
    TaskKind,
    TrafficTask,
    run_tasks,
)
from onchip.backends.noc.rounds import PLACE, element_rounds, floor_of_rounds, tasks_of
from onchip.errors import InputError, InternalError, errors_in_file
from onchip.formats.foreign_files import load_any_accelerator
from onchip.formats.own.mapping_yaml import read_mappings
from onchip.reports.shared.answer_check import AnswerCheck, answer_check_lines, answer_check_object
from onchip.reports.shared.words import printable

if TYPE_CHECKING:
    from rich.console import RenderableType


MOST_ROUNDS: Final = 4096
"""Limit on simulated rounds of a mapping."""


@dataclass(frozen=True, slots=True)
class LayerOnNetwork:
    """A mapping's run; `flit_hops` and `dram_packets` belong to the simulated rounds.

    `cycles` extrapolate the second half of a partial simulation, and are at least the lower bound of all rounds. An
    element computes for `compute_cycles` in all rounds.
    """

    cycles: int
    compute_cycles: int
    rounds: int
    rounds_simulated: int
    flit_hops: int
    dram_packets: int

    @property
    def is_whole(self) -> bool:
        """True if every round was simulated."""
        return self.rounds == self.rounds_simulated


def layer_on_network(
    problem: LayerProblem,
    mapping: LayerMapping,
    most_rounds: int = MOST_ROUNDS,
    *,
    has_refills: bool = True,
    stop: native.StopToken | None = None,
) -> LayerOnNetwork | None:
    """Simulate a mapping; return None if it was stopped. `has_refills` is as in `element_rounds`.

    Raises InputError for a mapping that uses more than 16 elements, or a machine without one shared memory above them.
    """
    rounds = element_rounds(problem, mapping, has_refills=has_refills)
    if rounds.elements > COSA_ELEMENTS:
        detail = f"the mapping uses {rounds.elements} elements"
        raise InputError(detail, place=PLACE, expected=f"at most {COSA_ELEMENTS}")
    simulated = min(rounds.count, max(most_rounds, 2))
    tasks = tasks_of(rounds, simulated)
    run = run_tasks(COSA_NETWORK, tasks, stop)
    if run is None:
        return None
    cycles: float = run.cycles
    if simulated < rounds.count:
        going_on = (rounds.count - simulated) * _cycles_of_a_round(tasks, run, simulated)
        cycles = max(cycles + going_on, floor_of_rounds(rounds))
    dram = sum(one.size for one in tasks if one.kind is TaskKind.SEND and COSA_DRAM in (one.actor, *one.receivers))
    return LayerOnNetwork(round(cycles), rounds.count * rounds.cycles, rounds.count, simulated, run.flit_hops, dram)


def _cycles_of_a_round(tasks: list[TrafficTask], run: NetworkRun, simulated: int) -> float:
    """Return the mean of the later half; element 0 computes once in each round."""
    ends = [end for task, end in zip(tasks, run.ends, strict=True) if task.kind is TaskKind.COMPUTE and task.actor == 0]
    half = simulated // 2
    return (ends[simulated - 1] - ends[half - 1]) / (simulated - half) if half else 0.0


@dataclass(frozen=True, slots=True)
class TimedMapping:
    """A run, and the names of the layers with its mapping."""

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
        "mappings": [{"names": list(one.names), **asdict(one.run)} for one in timing.timed],
    }


def network_timing_lines(timing: NetworkTiming) -> Iterator[RenderableType]:
    """Yield a line for each mapping, or the violations of a file that was not simulated."""
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


def time_on_network(file: MappingFile) -> NetworkTiming:
    """Simulate each mapping of a file on CoSA's network, if all are legal.

    Raises InputError for what cannot be read, and for a machine or a mapping that is none of that network's.
    """
    check = check_mapping_file(file)
    if not check.is_legal:
        return NetworkTiming(check)
    document = read_mappings(file.path)
    name = accelerator_named(file.accelerator, document.accelerator.name, file.path)
    accelerator, timed = load_any_accelerator(name), []
    with phase("simulating"):
        for one in document.answer:
            with errors_in_file(str(file.path)):
                run = layer_on_network(LayerProblem(one.layer, accelerator), one.mapping)
            if run is None:
                raise InternalError("a run that nobody stops was stopped", place="network on chip")
            timed.append(TimedMapping(one.names, run))
    return NetworkTiming(check, tuple(timed))
