"""The capacity of a scratchpad at one instant."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from onchip.arch.memory import Memory
from onchip.model.lifetimes.bit_masks import bits, mask_of


@dataclass(frozen=True, slots=True)
class ScratchpadRoom:
    """The exact capacity check of a scratchpad at one instant, for any alignment.

    Sizes are counted in units of the alignment, rounded up. All but the topmost tensor end at a multiple of the
    alignment. The topmost may end within the last, partial unit of the capacity if its own last unit is filled no
    further: those tensors are `may_end_short`.
    """

    units: tuple[int, ...]
    padding_bytes: tuple[int, ...]
    capacity_units: int
    may_end_short: int
    alignment_bytes: int

    @classmethod
    def of(cls, sizes_bytes: tuple[int, ...], memory: Memory) -> ScratchpadRoom:
        """Count the sizes in units of the memory's alignment."""
        alignment = memory.alignment_bytes
        whole, partial = divmod(memory.capacity_bytes, alignment)
        return cls(
            units=tuple(-(-size // alignment) for size in sizes_bytes),
            padding_bytes=tuple(-size % alignment for size in sizes_bytes),
            capacity_units=whole,
            may_end_short=mask_of(i for i, size in enumerate(sizes_bytes) if 0 < size % alignment <= partial),
            alignment_bytes=alignment,
        )

    def units_of(self, mask: int) -> int:
        """Return the units that a set of tensors takes."""
        return self.units_of_all(bits(mask))

    def units_of_all(self, tensors: Iterable[int]) -> int:
        """Return the units that distinct tensors take."""
        units = self.units
        return sum(units[tensor] for tensor in tensors)

    def packed_bytes(self, tensors: Iterable[int], used_units: int) -> int:
        """Return the minimum arena in bytes of tensors that take `used_units`, all at once."""
        if self.alignment_bytes == 1:
            return used_units
        return used_units * self.alignment_bytes - max((self.padding_bytes[tensor] for tensor in tensors), default=0)

    def ends_short(self, tensors: Iterable[int]) -> bool:
        """Return True if one of these tensors may end within the last, partial unit of the capacity."""
        may = self.may_end_short
        return bool(may) and any(may >> tensor & 1 for tensor in tensors)

    def takes(self, used_units: int, ends_short: bool) -> bool:
        """Return True if `used_units` fit; `ends_short` is True if one of the tensors may end short."""
        return used_units <= self.capacity_units or (ends_short and used_units == self.capacity_units + 1)

    def holds(self, mask: int, used_units: int) -> bool:
        """Return True if a set of tensors that takes `used_units` can be resident at once."""
        return self.takes(used_units, bool(mask & self.may_end_short))

    def holds_all(self, tensors: Iterable[int], used_units: int) -> bool:
        """Return True if tensors that take `used_units` can be resident at once."""
        return used_units <= self.capacity_units or self.takes(used_units, self.ends_short(tensors))
