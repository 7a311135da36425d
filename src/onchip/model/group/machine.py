"""Where data of a stack may lie, and the problem that is put to the mapper of one layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import Homes
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import ensure_energies
from onchip.arch.memory import DRAM, Operand
from onchip.errors import AcceleratorError
from onchip.ir.layer import Layer
from onchip.model.layer.limits import array_of

LEAST_BYTES: Final = 1
"""Of a memory that others fill: nothing of use fits."""


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
    _problems: dict[tuple[Layer, Homes, bool, tuple[tuple[str, int], ...]], LayerProblem] = field(default_factory=dict)

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
        """Return that one of the memories which is nearest DRAM."""
        return max(memories, key=self.rank)

    def room_bits(self, memory: str) -> float:
        """Return the bits of a memory that the maps between stacks leave; DRAM has infinitely many."""
        if memory == DRAM:
            return inf
        level = self.accelerator.levels[self._ranks[memory]]
        return level.memory.capacity_bytes * 8 - self.taken_bits.get(memory, 0)

    def problem(
        self, layer: Layer, homes: Homes, *, is_addition: bool, others_bits: Mapping[str, int]
    ) -> LayerProblem | None:
        """The layer, its operands at `homes`, its tiles in the room that those and other data leave.

        An addition's second operand lives where the first may. None where a memory has no room for the operands.
        """
        resident_bits: dict[str, int] = {}
        for operand, name in homes:
            resident_bits[name] = resident_bits.get(name, 0) + layer.elements(operand) * layer.bits(operand)
        room_bytes: dict[str, int] = {}
        for level in self.accelerator.levels:
            name, capacity_bytes = level.memory.name, level.memory.capacity_bytes
            if others := others_bits.get(name):
                capacity_bytes = max(capacity_bytes - -(-others // 8), LEAST_BYTES)
            left_bits = capacity_bytes * 8 - resident_bits.get(name, 0)
            if left_bits < 0:
                return None
            if left_bits // 8 < level.memory.capacity_bytes:
                room_bytes[name] = left_bits // 8
        key = layer, homes, is_addition, tuple(room_bytes.items())
        if key not in self._problems:
            self._problems[key] = LayerProblem(layer, self.accelerator, homes, room_bytes, is_addition)
        return self._problems[key]

    def _places_of(self, operand: Operand) -> tuple[str, ...]:
        single = [level.memory.name for level in self.accelerator.addressed if operand in level.memory.holds]
        return (*(single if self.levels_are_skipped else single[-1:]), DRAM)


def ensure_tiles_can_be_costed(accelerator: Accelerator, objective: str) -> None:
    """Raise AcceleratorError for a machine without an array, a level of an operand, or an energy that is needed."""
    array_of(accelerator)
    check_machine(accelerator)
    ensure_energies(accelerator, objective)


def check_machine(accelerator: Accelerator) -> None:
    """Every operand has a level on the chip; raises AcceleratorError."""
    for operand in Operand:
        if not any(operand in level.memory.holds for level in accelerator.levels):
            place = f"accelerator {accelerator.name!r}"
            raise AcceleratorError(f"no memory on the chip holds {operand}", place=place, expected="at least one")
