"""The question of a mapping: a layer on an accelerator, and the operands that its memories keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from onchip.answer.schedule import Homes
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Memory, MemoryLevel, Operand
from onchip.errors import AcceleratorError
from onchip.ir.layer import Layer

FIRST_SERVED: Final = (Operand.OUTPUT, Operand.INPUT, Operand.WEIGHT)
"""Priority if not all operands fit; a weight that is a second input thus does not affect the other operands."""


def operands_kept(levels: Sequence[MemoryLevel], layer: Layer) -> tuple[frozenset[Operand], ...]:
    """Return, for each of the levels, nearest the MACs first, the operands that it holds and can store.

    A level can store an operand if one instance has capacity for one of its elements, two if double buffered, in
    addition to elements of the operands earlier in FIRST_SERVED. An output element in the nearest memory that keeps
    outputs is a partial sum, unless there is no reduction; elements beyond that memory may be complete. One element of
    every kept operand therefore always fits, and the result is independent of tiles, homes and capacities for tiles.
    """
    found = []
    sums_are_complete = layer.c * layer.r * layer.s == 1
    for level in levels:
        left_bits, kept = 8 * level.memory.capacity_bytes, list[Operand]()
        for operand in FIRST_SERVED:
            if operand not in level.memory.holds or operand not in layer.operands:
                continue
            is_partial = operand is Operand.OUTPUT and not sums_are_complete
            element_bits = layer.partial_bits if is_partial else layer.bits(operand)
            need_bits = element_bits * (2 if level.double_buffered else 1)
            if need_bits <= left_bits:
                left_bits -= need_bits
                kept.append(operand)
        sums_are_complete |= Operand.OUTPUT in kept
        found.append(frozenset(kept))
    return tuple(found)


def leaves_something_out(levels: Sequence[MemoryLevel], layer: Layer) -> bool:
    """Return True if a level holds an operand of the layer but cannot store an element of it."""
    kept = operands_kept(levels, layer)
    wanted = set(layer.operands)
    return any(wanted & set(level.memory.holds) - own for level, own in zip(levels, kept, strict=True))


EVERYTHING_STREAMED: Final = Homes()
MOST_ROOM_BITS: Final = 2**60


@dataclass(frozen=True, slots=True)
class LayerProblem:
    """The problem of mapping `layer` on `accelerator`; tiles of an operand are nearer the MACs than its home.

    `room_bytes` maps a memory to the bytes of one instance that tiles may use; an unlisted memory is free for tiles. An
    operand stored whole at its home uses none of this capacity, but the additional width of partial sums at an output's
    home does. With `weight_is_an_input` the layer reads two feature maps, and its weight is the second. The second map
    and its tiles are stored where inputs are; the tiles of a product may also be stored where weights are
    (`holds_second_map`). `levels` are the memories as this layer uses them, nearest the MACs first; `kept` are the
    operands that each level can store (`operands_kept`). Raises AcceleratorError for a home that is not a single memory
    that holds the operand, and for a capacity that a memory does not have.
    """

    layer: Layer
    accelerator: Accelerator = field(hash=False)
    homes: Homes = EVERYTHING_STREAMED
    room_bytes: Mapping[str, int] = field(default_factory=dict, hash=False)
    weight_is_an_input: bool = False
    levels: tuple[MemoryLevel, ...] = field(init=False, compare=False, repr=False)
    kept: tuple[frozenset[Operand], ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        levels = self.accelerator.levels
        if self.weight_is_an_input:
            levels = tuple(seen for level in levels if (seen := seen_by_two_maps(level, self.layer)) is not None)
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "kept", operands_kept(levels, self.layer))
        self._operands_have_homes_that_hold_all_of_them()
        self._room_is_within_the_memories()
        capacities = self._capacities_bytes
        less = {name: room for name, room in sorted(self.room_bytes.items()) if room < capacities[name]}
        object.__setattr__(self, "room_bytes", less)

    def home(self, operand: str) -> str:
        """Return the memory that stores the whole operand before or after the layer; DRAM for a streamed operand."""
        return self.homes.of(Operand(operand)) or DRAM

    def below_home(self, operand: str) -> tuple[MemoryLevel, ...]:
        """Return the levels nearer the MACs than the operand's home, nearest first.

        For a streamed operand these are all levels.
        """
        names = [level.memory.name for level in self.levels]
        home = self.home(operand)
        return self.levels[: names.index(home)] if home != DRAM else self.levels

    def keepers(self, operand: str) -> tuple[MemoryLevel, ...]:
        """Return the levels in which mappers keep tiles of an operand: all below its home that can store it.

        The nearest level is first. A legal mapping may bypass some of these levels, or have its only tile in another
        memory.
        """
        below = zip(self.below_home(operand), self.kept, strict=False)
        return tuple(level for level, operands in below if operand in operands)

    def without_memories_of_no_use(self) -> LayerProblem:
        """Return the same problem without the memories that can store no operand and are no operand's home.

        A mapping costs the same on both machines. If no memory is usable, all of them stay: a machine has at least one.
        """
        homes = {name for _, name in self.homes}
        of_no_use = {level.memory.name for level, kept in zip(self.levels, self.kept, strict=True) if not kept} - homes
        used = tuple(
            replace(level, is_scratchpad=True)
            for level in self.accelerator.levels
            if level.memory.name not in of_no_use
        )
        if not used or not of_no_use:
            return self
        machine = replace(self.accelerator, levels=used, scratchpads=tuple(level.memory for level in used), links=())
        names = {level.memory.name for level in used}
        room_bytes = {name: room for name, room in self.room_bytes.items() if name in names}
        return replace(self, accelerator=machine, room_bytes=room_bytes)

    def room_bits(self, memory: str) -> int:
        """Return the capacity for tiles in one instance of a memory, in bits, at most MOST_ROOM_BITS."""
        room = self.room_bytes.get(memory)
        return min(8 * (self._capacities_bytes[memory] if room is None else room), MOST_ROOM_BITS)

    def resident_bits(self, memory: str) -> int:
        """Return the bits of the operands that are stored whole in a memory."""
        here = (operand for operand in self.layer.operands if self.home(operand) == memory)
        return sum(self.layer.elements(operand) * self.layer.bits(operand) for operand in here)

    def usable_bits(self, memory: str) -> int:
        """Return the capacity for tiles and whole operands in a memory, in bits."""
        return self.room_bits(memory) + self.resident_bits(memory)

    @property
    def _capacities_bytes(self) -> dict[str, int]:
        return {level.memory.name: level.memory.capacity_bytes for level in self.accelerator.levels}

    def _operands_have_homes_that_hold_all_of_them(self) -> None:
        single = {level.memory.name for level in self.accelerator.addressed}
        for operand, name in self.homes:
            place = f"home of {operand}"
            if operand not in self.layer.operands:
                raise AcceleratorError(f"the layer has no {operand}", place=place, expected="none")
            held_as = Operand.INPUT if operand is Operand.WEIGHT and self.weight_is_an_input else operand
            holding = [level.memory.name for level in self.levels if held_as in level.memory.holds]
            fitting = [one for one in holding if one in single]
            if name not in fitting:
                expected = f"one of {', '.join(fitting)}" if fitting else "none"
                raise AcceleratorError(f"{name!r} is no single memory that holds it", place=place, expected=expected)

    def _room_is_within_the_memories(self) -> None:
        capacities = self._capacities_bytes
        for name, room in self.room_bytes.items():
            if name not in capacities:
                expected = f"one of {', '.join(capacities)}"
                raise AcceleratorError(f"there is no memory {name!r}", place="room of tiles", expected=expected)
            if not 0 <= room <= capacities[name]:
                expected = f"0 to {capacities[name]}"
                raise AcceleratorError(f"{room} bytes", place=f"room of tiles in {name!r}", expected=expected)


def holds_second_map(memory: Memory, layer: Layer) -> bool:
    """Return True if a memory may hold tiles of a layer's second feature map.

    A memory that holds tiles of the first map qualifies. A product feeds its second map to the MACs as a weight, so
    that memories for weights qualify too; an element-by-element layer has no weights and no such path.
    """
    return Operand.INPUT in memory.holds or (Operand.WEIGHT in memory.holds and not layer.is_element_by_element)


def seen_by_two_maps(level: MemoryLevel, layer: Layer) -> MemoryLevel | None:
    """Return a memory as used by a layer with two input maps, or None if it holds no operand of the layer."""
    holds: tuple[Operand, ...] = tuple(one for one in level.memory.holds if one is not Operand.WEIGHT)
    if holds_second_map(level.memory, layer):
        holds = (*holds, Operand.WEIGHT)
    return replace(level, memory=replace(level.memory, holds=holds)) if holds else None
