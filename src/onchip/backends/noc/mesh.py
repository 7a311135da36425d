"""The simulated network on chip: a mesh of routers, its endpoints, and tasks run cycle by cycle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final

from onchip import native
from onchip.errors import InputError, InternalError

MOST_ENDPOINTS: Final = 64
"""The engine keeps sets of endpoints and of routers in 64 bits."""


class RouterPort(IntEnum):
    """A port of a router, to a neighbour or an endpoint."""

    LOCAL = 0
    NORTH = 1
    EAST = 2
    SOUTH = 3
    WEST = 4


@dataclass(frozen=True, slots=True)
class MeshEndpoint:
    """An endpoint at a port of a router; routers are counted row by row.

    The tail of a sent packet leaves at least `read_cycles` after the packet began, and the next packet begins after
    that; a received packet counts `write_cycles` after its tail arrived.
    """

    router: int
    port: RouterPort = RouterPort.LOCAL
    read_cycles: int = 0
    write_cycles: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshNetwork:
    """A mesh with X-Y routing; a packet has `packet_flits` flits, a head of no payload among them.

    Between two crossbars lie `buffer_flits` flits; a flit passes the next crossbar `hop_cycles` after the one before
    at the earliest, and the place it leaves is filled again `credit_cycles` later at the earliest. The same holds of
    the way in, `injection_flits` and `injection_cycles`; the way out never blocks and takes `ejection_cycles`.
    """

    columns: int
    rows: int
    endpoints: tuple[MeshEndpoint, ...]
    flit_bits: int = 64
    packet_flits: int = 5
    buffer_flits: int = 11
    hop_cycles: int = 4
    credit_cycles: int = 2
    injection_flits: int = 4
    injection_cycles: int = 2
    ejection_cycles: int = 3

    def __post_init__(self) -> None:
        routers = self.columns * self.rows
        if min(self.columns, self.rows) < 1 or routers > MOST_ENDPOINTS or len(self.endpoints) > MOST_ENDPOINTS:
            detail = f"it has {self.columns}x{self.rows} routers and {len(self.endpoints)} endpoints"
            raise InputError(detail, place="network on chip", expected=f"at most {MOST_ENDPOINTS} of each")
        if self.buffer_flits < self.packet_flits:
            detail = f"{self.buffer_flits} flits between crossbars"
            raise InputError(detail, place="network on chip", expected=f"a packet of {self.packet_flits} at least")

    @property
    def payload_bits(self) -> int:
        """Bits of payload of a packet, whose head has none unless it is alone."""
        return max(self.packet_flits - 1, 1) * self.flit_bits

    def packets(self, bits: int) -> int:
        """Return the number of packets for `bits` bits, at least one."""
        return max(-(-bits // self.payload_bits), 1)

    def shape(self) -> native.NetworkShape:
        """Return the network as the engine takes it; raises ValueError for endpoints that share a port."""
        names = (
            *("columns", "rows", "packet_flits", "buffer_flits", "hop_cycles", "credit_cycles"),
            *("injection_flits", "injection_cycles", "ejection_cycles"),
        )
        endpoints = [
            native.NetworkEndpoint(
                router=one.router, port=int(one.port), read_cycles=one.read_cycles, write_cycles=one.write_cycles
            )
            for one in self.endpoints
        ]
        return native.NetworkShape(**{name: getattr(self, name) for name in names}, endpoints=endpoints)


COSA_ELEMENTS: Final = 16
COSA_BUFFER: Final = 19
COSA_DRAM: Final = 20
"""Endpoints of COSA_NETWORK; elements are 0 to 15, and 16 to 18 have nothing to do."""
COSA_NETWORK: Final = MeshNetwork(
    columns=4,
    rows=5,
    endpoints=(
        *(MeshEndpoint(router) for router in range(20)),
        MeshEndpoint(19, RouterPort.SOUTH, read_cycles=16, write_cycles=13),
    ),
)
"""CoSA's simulation of Simba: elements row by row, the global buffer and DRAM at the last router.

Cycles and buffers were measured on the authors' simulator; DRAM reads 32 bytes in 17 cycles, one packet at a time.
"""


LAST_CYCLE: Final = 1 << 59


class TaskKind(StrEnum):
    """The kind of a task; a barrier has no endpoint and ends with the tasks it waits for."""

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
    """Packets to send to all `receivers`, or cycles to compute: `size`.

    A task begins when the earlier tasks of `waits_for` have ended (at its own endpoint, if that is a receiver), and not
    before cycle `earliest`; an endpoint runs one task at a time, the first that may begin.
    """

    kind: TaskKind
    actor: int | None
    size: int = 0
    receivers: tuple[int, ...] = ()
    waits_for: tuple[int, ...] = ()
    earliest: int = 0


@dataclass(frozen=True, slots=True)
class NetworkRun:
    """Begin and end of each task in cycles; a flit-hop is a flit that passes a router's output."""

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
