"""The candidate memories of a fused group's data, and the mapping problem of one layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final, TypeAlias

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import Homes
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import ensure_energies
from onchip.arch.memory import DRAM, Operand
from onchip.errors import AcceleratorError
from onchip.ir.layer import Layer
from onchip.model.layer.cost import LayerCost
from onchip.model.layer.limits import array_of

LEAST_BYTES: Final = 1
"""Capacity of a memory that other data fill: too small for any operand."""


@dataclass(slots=True)
class FusedMachine:
    """An accelerator with memories that other data partly fill; DRAM is unlimited.

    `taken_bits` are those of feature maps that reside whole in a memory while the group runs, by memory.
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
        """Return the memories that may hold an operand's whole tile, nearest the MACs first, DRAM last."""
        return self._places[operand]

    @property
    def places_of_caches(self) -> tuple[str, ...]:
        """Return the memories that hold outputs and inputs, as caches need."""
        return tuple(name for name in self._places[Operand.INPUT] if name in self._places[Operand.OUTPUT])

    def rank(self, memory: str) -> int:
        """Return the rank of a memory; 0 is nearest the MACs."""
        return self._ranks[memory]

    def higher(self, memories: Iterable[str]) -> str:
        """Return the memory nearest DRAM."""
        return max(memories, key=self.rank)

    def room_bits(self, memory: str) -> float:
        """Return the free bits of a memory next to the maps between groups; infinite for DRAM."""
        if memory == DRAM:
            return inf
        level = self.accelerator.levels[self._ranks[memory]]
        return level.memory.capacity_bytes * 8 - self.taken_bits.get(memory, 0)

    def problem(
        self, layer: Layer, homes: Homes, *, is_addition: bool, others_bits: Mapping[str, int]
    ) -> LayerProblem | None:
        """Return the mapping problem of a layer with its operands at `homes` and the remaining capacity for tiles.

        An addition's second operand is at the home of the first. None if a memory cannot hold the operands.
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
    """Raise AcceleratorError if there is no array, no memory level of an operand, or a needed energy is missing."""
    array_of(accelerator)
    check_machine(accelerator)
    ensure_energies(accelerator, objective)


def check_machine(accelerator: Accelerator) -> None:
    """Raise AcceleratorError unless every operand has an on-chip level."""
    for operand in Operand:
        if not any(operand in level.memory.holds for level in accelerator.levels):
            place = f"accelerator {accelerator.name!r}"
            raise AcceleratorError(f"no memory on the chip holds {operand}", place=place, expected="at least one")


Mapper: TypeAlias = Callable[[LayerProblem], LayerCost | None]
"""Returns the cost of a layer's best mapping, or None if none fits."""
