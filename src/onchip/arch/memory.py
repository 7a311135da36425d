"""Memories: scratchpads on the chip, DRAM off it."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.errors import AcceleratorError

DRAM = "dram"


@dataclass(frozen=True, slots=True)
class Memory:
    """A scratchpad: an on-chip memory that software addresses.

    Every offset in it is a multiple of `alignment_bytes`.
    """

    name: str
    capacity_bytes: int
    alignment_bytes: int = 1

    def __post_init__(self) -> None:
        if not self.name:
            raise AcceleratorError("a memory has no name", expected="a name")
        place = f"memory {self.name!r}"
        if self.name == DRAM:
            raise AcceleratorError("the name is reserved for the memory off chip", place=place, expected="another name")
        if self.capacity_bytes <= 0:
            raise AcceleratorError(f"capacity_bytes is {self.capacity_bytes}", place=place, expected="at least 1")
        if self.alignment_bytes <= 0:
            raise AcceleratorError(f"alignment_bytes is {self.alignment_bytes}", place=place, expected="at least 1")
