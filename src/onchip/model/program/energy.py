"""Energy of a plan's computation and transfers, by part."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.arch.memory import Access


@dataclass(frozen=True, slots=True)
class Energy:
    """The energy of a plan in pJ: multiply-accumulates, scratchpad accesses and DRAM accesses.

    Each operator reads each operand from its scratchpad once and writes each result once. A move over a link reads one
    scratchpad and writes another. A part is None if the accelerator does not state its cost. Memories nearer to the
    MACs are excluded, since a plan does not describe them.
    """

    mac_pj: float | None
    scratchpad_read_pj: float | None
    scratchpad_write_pj: float | None
    dram_read_pj: float | None
    dram_write_pj: float | None

    @property
    def total_pj(self) -> float | None:
        """Return the sum of the parts, or None if one is unknown."""
        parts = (self.mac_pj, self.scratchpad_read_pj, self.scratchpad_write_pj, self.dram_read_pj, self.dram_write_pj)
        return None if None in parts else sum(part for part in parts if part is not None)


@dataclass(slots=True)
class AccessMeter:
    """The accesses of one or several memories; an energy is None once an access has an unknown cost."""

    read_pj: float | None = 0.0
    write_pj: float | None = 0.0

    def read(self, access: Access | None, size_bytes: int) -> None:
        """Add a read of `size_bytes`."""
        more = None if access is None else access.read_energy_pj * accesses(access, size_bytes)
        self.read_pj = None if self.read_pj is None or more is None else self.read_pj + more

    def write(self, access: Access | None, size_bytes: int) -> None:
        """Add a write of `size_bytes`."""
        more = None if access is None else access.write_energy_pj * accesses(access, size_bytes)
        self.write_pj = None if self.write_pj is None or more is None else self.write_pj + more


def accesses(access: Access, size_bytes: int) -> float:
    """Return the number of accesses for the bytes; the last may be as short as the memory allows."""
    unit = access.shortest_access_bits or access.access_bits
    return -(-size_bytes * 8 // unit) * unit / access.access_bits
