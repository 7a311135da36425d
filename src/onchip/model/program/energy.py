"""What a plan's work and transfers cost in energy, part by part."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.arch.memory import Access


@dataclass(frozen=True, slots=True)
class Energy:
    """Picojoules: of the multiply-accumulates, the scratchpads' accesses and DRAM's.

    Each operator reads each operand from its scratchpad once and writes each result once; a move over a
    link reads one scratchpad and writes another. A part is
    None where the accelerator does not say what it costs; the memories nearer to the MACs, which a
    plan says nothing of, are left out.
    """

    mac_pj: float | None
    scratchpad_read_pj: float | None
    scratchpad_write_pj: float | None
    dram_read_pj: float | None
    dram_write_pj: float | None

    @property
    def total_pj(self) -> float | None:
        """The sum of the parts, None where one is not known."""
        parts = (self.mac_pj, self.scratchpad_read_pj, self.scratchpad_write_pj, self.dram_read_pj, self.dram_write_pj)
        return None if None in parts else sum(part for part in parts if part is not None)


@dataclass(slots=True)
class AccessMeter:
    """Adds up the accesses of one memory or of several; `None` as soon as one does not say what they cost."""

    read_pj: float | None = 0.0
    write_pj: float | None = 0.0

    def read(self, access: Access | None, size_bytes: int) -> None:
        """The bytes of a tensor are read."""
        more = None if access is None else access.read_energy_pj * accesses(access, size_bytes)
        self.read_pj = None if self.read_pj is None or more is None else self.read_pj + more

    def write(self, access: Access | None, size_bytes: int) -> None:
        """The bytes of a tensor are written."""
        more = None if access is None else access.write_energy_pj * accesses(access, size_bytes)
        self.write_pj = None if self.write_pj is None or more is None else self.write_pj + more


def accesses(access: Access, size_bytes: int) -> float:
    """How many accesses the bytes take, the last as short as the memory allows."""
    unit = access.shortest_access_bits or access.access_bits
    return -(-size_bytes * 8 // unit) * unit / access.access_bits
