"""Homes of the operands of each operator at run time, found before workspaces are known, which depend on homes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction
from onchip.arch.memory import Memory, Operand
from onchip.verify.schedule.operands import TileOperand
from onchip.verify.schedule.streaming import HomeOf


@dataclass(slots=True)
class HomesOfProgram:
    """A replay of residency alone; `homes` maps operators to the homes of their operands.

    For an illegal program the homes are a guess at its intention; the full replay reports the violations.
    """

    memories: Sequence[Memory]
    operands: Mapping[str, Sequence[TileOperand]]
    homes: dict[str, HomeOf] = field(default_factory=dict)
    _is_written: dict[str, dict[str, bool]] = field(init=False)

    def __post_init__(self) -> None:
        self._is_written = {memory.name: {} for memory in self.memories}

    def run(self, program: Iterable[Instruction]) -> Mapping[str, HomeOf]:
        """Return the homes for all operators that the program runs."""
        for instruction in program:
            match instruction:
                case Allocate(tensor, memory) if memory in self._is_written:
                    self._is_written[memory].setdefault(tensor, False)
                case Free(tensor, memory) if memory in self._is_written:
                    self._is_written[memory].pop(tensor, None)
                case Copy(tensor, source, target):
                    for memory in (source, target):
                        if tensor in self._is_written.get(memory, ()):
                            self._is_written[memory][tensor] = True
                case Compute(operator) if operator in self.homes:
                    self._homes(self.operands[operator])  # the first time counts, but it writes again
                case Compute(operator) if operator in self.operands:
                    self.homes[operator] = self._homes(self.operands[operator])
        return self.homes

    def _homes(self, operands: Sequence[TileOperand]) -> HomeOf:
        homes = {}
        for operand in operands:
            if operand.held_as is Operand.OUTPUT:
                homes[operand.base] = self._home_of_what_is_written(operand.bands)
            else:
                homes[operand.base] = self._home_of_what_is_read(operand)
        return homes

    def _home_of_what_is_read(self, operand: TileOperand) -> str | None:
        """Return the memory nearest the MACs that may hold the operand and has all its bands; None if there is none."""
        for memory in self.memories:
            if operand.held_as in memory.holds:
                is_written = self._is_written[memory.name]
                if all(is_written.get(band, False) for band in operand.bands):
                    return memory.name
        return None

    def _home_of_what_is_written(self, bands: Sequence[str]) -> str | None:
        """Mark the bands as written in every memory where they are resident; return the first of these memories."""
        home = None
        for band in bands:
            for memory, is_written in self._is_written.items():
                if band in is_written:
                    is_written[band] = True
                    home = home or memory
        return home
