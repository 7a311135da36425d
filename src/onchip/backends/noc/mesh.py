"""The network on a chip that is simulated: a mesh of routers, its channels, and the endpoints at its ports.

What each number means for a flit, cycle by cycle, is said in docs/network_on_chip.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from onchip import native
from onchip.errors import InputError

MOST_ENDPOINTS: Final = 64
"""The engine keeps sets of endpoints and of routers in 64 bits."""


class RouterPort(IntEnum):
    """Where a router has neighbours, or at an edge of the mesh and locally endpoints."""

    LOCAL = 0
    NORTH = 1
    EAST = 2
    SOUTH = 3
    WEST = 4


@dataclass(frozen=True, slots=True)
class MeshEndpoint:
    """What sits at a port of a router, routers counted row by row.

    The tail of a packet that it sends leaves at least `read_cycles` after the packet was begun, and the next packet
    is begun after that; a packet that it receives counts `write_cycles` after its tail came.
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
        """Of a packet; its head has none, unless it is alone."""
        return max(self.packet_flits - 1, 1) * self.flit_bits

    def packets(self, bits: int) -> int:
        """How many packets carry so many bits; one at least."""
        return max(-(-bits // self.payload_bits), 1)

    def shape(self) -> native.NetworkShape:
        """Return the network as the engine takes it; raises ValueError for endpoints that share a port."""
        return native.NetworkShape(
            columns=self.columns,
            rows=self.rows,
            packet_flits=self.packet_flits,
            buffer_flits=self.buffer_flits,
            hop_cycles=self.hop_cycles,
            credit_cycles=self.credit_cycles,
            injection_flits=self.injection_flits,
            injection_cycles=self.injection_cycles,
            ejection_cycles=self.ejection_cycles,
            endpoints=[
                native.NetworkEndpoint(
                    router=one.router,
                    port=int(one.port),
                    read_cycles=one.read_cycles,
                    write_cycles=one.write_cycles,
                )
                for one in self.endpoints
            ],
        )


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
"""As the authors of CoSA simulate Simba: elements row by row, the global buffer and DRAM at the last router.

Cycles and buffers are those measured of their simulator; DRAM reads 32 bytes in 17 cycles, one packet at a time.
"""
