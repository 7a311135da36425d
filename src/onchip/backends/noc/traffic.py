"""What endpoints of a network do, and how long it takes: tasks that wait for one another, run cycle by cycle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from onchip import native
from onchip.backends.noc.mesh import MOST_ENDPOINTS, MeshNetwork
from onchip.errors import InputError, InternalError

LAST_CYCLE: Final = 1 << 59


class TaskKind(StrEnum):
    """What an endpoint does; a barrier is nobody's, and done when all it waits for is."""

    SEND = "send"
    COMPUTE = "compute"
    BARRIER = "barrier"


KINDS: Final = {
    TaskKind.SEND: native.NetworkTaskKind.SEND,
    TaskKind.COMPUTE: native.NetworkTaskKind.COMPUTE,
    TaskKind.BARRIER: native.NetworkTaskKind.BARRIER,
}


@dataclass(frozen=True, slots=True)
class TrafficTask:
    """Packets to send to `receivers`, all of which get each, or cycles to compute: `size`.

    It begins when the tasks of `waits_for`, which stand earlier, have ended (at its own endpoint, if that is a
    receiver), and not before cycle `earliest`; an endpoint does one at a time, of those it may begin the first.
    """

    kind: TaskKind
    actor: int | None
    size: int = 0
    receivers: tuple[int, ...] = ()
    waits_for: tuple[int, ...] = ()
    earliest: int = 0


@dataclass(frozen=True, slots=True)
class NetworkRun:
    """By task, when it began and when it had ended everywhere; a flit-hop is a flit that passes a router's output."""

    cycles: int
    flit_hops: int
    begins: tuple[int, ...]
    ends: tuple[int, ...]


def run_tasks(
    network: MeshNetwork, tasks: Sequence[TrafficTask], stop: native.StopToken | None = None
) -> NetworkRun | None:
    """Run all tasks to their end; None if it was stopped.

    Raises InputError for tasks that no network has, InternalError where tasks wait for one another for ever.
    """
    try:
        simulation = native.NetworkSimulation(network.shape(), [_native(task) for task in tasks])
    except ValueError as error:
        raise InputError(str(error), place="network on chip", expected="tasks of its endpoints") from None
    outcome = simulation.run(LAST_CYCLE, stop or native.StopToken())
    if outcome is native.NetworkOutcome.STOPPED:
        return None
    if outcome is not native.NetworkOutcome.FINISHED:
        raise InternalError(f"after {simulation.cycles} cycles nothing can move any more", place="network on chip")
    return NetworkRun(simulation.cycles, simulation.flit_hops, tuple(simulation.begins), tuple(simulation.ends))


def _native(task: TrafficTask) -> native.NetworkTask:
    if task.receivers and not 0 <= min(task.receivers) <= max(task.receivers) < MOST_ENDPOINTS:
        raise ValueError(f"a task sends to {task.receivers}")
    return native.NetworkTask(
        KINDS[task.kind],
        -1 if task.actor is None else task.actor,
        task.size,
        task.earliest,
        sum(1 << one for one in task.receivers),
        task.waits_for,
    )
