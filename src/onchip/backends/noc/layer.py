"""How long a layer's mapping takes on CoSA's network on a chip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from onchip import native
from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.backends.noc.dataflow import tasks_of
from onchip.backends.noc.floor import floor_of_rounds
from onchip.backends.noc.mesh import COSA_DRAM, COSA_ELEMENTS, COSA_NETWORK
from onchip.backends.noc.rounds import PLACE, element_rounds
from onchip.backends.noc.traffic import NetworkRun, TaskKind, TrafficTask, run_tasks
from onchip.errors import InputError

MOST_ROUNDS: Final = 4096
"""Of a mapping with more, so many are simulated."""


@dataclass(frozen=True, slots=True)
class LayerOnNetwork:
    """What a mapping takes; `flit_hops` and `dram_packets` are of the rounds that were simulated.

    Where these are not all, `cycles` go on as they did in the second half of what was simulated, and are never below
    the floor of all rounds. An element computes for `compute_cycles` in all.
    """

    cycles: int
    compute_cycles: int
    rounds: int
    rounds_simulated: int
    flit_hops: int
    dram_packets: int

    @property
    def is_whole(self) -> bool:
        """Whether every round was simulated."""
        return self.rounds == self.rounds_simulated


def layer_on_network(
    problem: LayerProblem,
    mapping: LayerMapping,
    most_rounds: int = MOST_ROUNDS,
    *,
    has_refills: bool = True,
    stop: native.StopToken | None = None,
) -> LayerOnNetwork | None:
    """Simulate a mapping; None if it was stopped. `has_refills` is as in `element_rounds`.

    Raises InputError for a mapping that uses more than 16 elements, or a machine without one shared memory beside them.
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
    """On average over the later half; element 0 computes once in each round."""
    ends = [end for task, end in zip(tasks, run.ends, strict=True) if task.kind is TaskKind.COMPUTE and task.actor == 0]
    half = simulated // 2
    return (ends[simulated - 1] - ends[half - 1]) / (simulated - half) if half else 0.0
