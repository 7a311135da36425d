"""Where data of a stack may lie, and the machine as the mapper of one layer sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf

from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, MemoryLevel, Operand
from onchip.errors import AcceleratorError

Homes = tuple[tuple[Operand, str], ...]


@dataclass(slots=True)
class FusedMachine:
    """An accelerator of whose memories other data take some room; DRAM takes any amount.

    `taken_bits` are those of feature maps that lie whole in a memory, by its name, while the stack runs.
    """

    accelerator: Accelerator
    levels_are_skipped: bool = True
    taken_bits: Mapping[str, int] = field(default_factory=dict)
    _ranks: dict[str, int] = field(init=False)
    _places: dict[Operand, tuple[str, ...]] = field(init=False)
    _cut: dict[tuple[Homes, bool, tuple[tuple[str, int], ...]], Accelerator] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        levels = self.accelerator.levels
        self._ranks = {level.memory.name: rank for rank, level in enumerate(levels)} | {DRAM: len(levels)}
        self._places = {operand: self._places_of(operand) for operand in Operand}

    def places(self, operand: Operand) -> tuple[str, ...]:
        """Single memories that may have all of an operand's tile, nearest the MACs first, DRAM last."""
        return self._places[operand]

    @property
    def places_of_caches(self) -> tuple[str, ...]:
        """What is cached is written as output and read as input."""
        return tuple(name for name in self._places[Operand.INPUT] if name in self._places[Operand.OUTPUT])

    def rank(self, memory: str) -> int:
        """0 is nearest the MACs."""
        return self._ranks[memory]

    def higher(self, memories: Iterable[str]) -> str:
        """The one nearest DRAM."""
        return max(memories, key=self.rank)

    def room_bits(self, memory: str) -> float:
        """Without what the maps between stacks take."""
        if memory == DRAM:
            return inf
        level = self.accelerator.levels[self._ranks[memory]]
        return level.memory.capacity_bytes * 8 - self.taken_bits.get(memory, 0)

    def for_layer(self, homes: Homes, *, is_addition: bool, others_bits: Mapping[str, int]) -> Accelerator:
        """The machine cut down to where the operands lie, memories to the room that other data leave of them.

        An addition's second operand lives where the first may.
        """
        key = homes, is_addition, tuple(sorted(others_bits.items()))
        if key not in self._cut:
            levels = tuple(
                one for level in self.accelerator.levels if (one := _level(level, others_bits, is_addition=is_addition))
            )
            scratchpads = tuple(level.memory for level in levels if level.is_scratchpad)
            on_chip = tuple((operand, memory) for operand, memory in homes if memory != DRAM)
            self._cut[key] = replace(self.accelerator, levels=levels, scratchpads=scratchpads, homes=on_chip)
        return self._cut[key]

    def _places_of(self, operand: Operand) -> tuple[str, ...]:
        dimensions = set(self.accelerator.array.dimensions if self.accelerator.array else ())
        single = [
            level.memory.name
            for level in self.accelerator.levels
            if operand in level.memory.holds and (level.serves is None or set(level.serves) == dimensions)
        ]
        return (*(single if self.levels_are_skipped else single[-1:]), DRAM)


def _level(level: MemoryLevel, others_bits: Mapping[str, int], *, is_addition: bool) -> MemoryLevel | None:
    """A memory of which nothing is left has a byte: nothing of use fits."""
    memory = level.memory
    if others := others_bits.get(memory.name):
        memory = replace(memory, capacity_bytes=max(memory.capacity_bytes - -(-others // 8), 1))
    if is_addition:
        holds = tuple(operand for operand in memory.holds if operand is not Operand.WEIGHT)
        if not holds:
            return None
        memory = replace(memory, holds=(*holds, *([Operand.WEIGHT] if Operand.INPUT in holds else [])))
    return level if memory is level.memory else replace(level, memory=memory)


def check_machine(accelerator: Accelerator) -> None:
    """Every operand has a level on the chip; raises AcceleratorError."""
    for operand in Operand:
        if not any(operand in level.memory.holds for level in accelerator.levels):
            place = f"accelerator {accelerator.name!r}"
            raise AcceleratorError(f"no memory on the chip holds {operand}", place=place, expected="at least one")
