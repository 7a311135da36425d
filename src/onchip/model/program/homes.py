"""Home memories of each Compute's operands in a program (docs/schedule.md, section 4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from onchip.answer.program import Allocate, Compute, Copy, Free, Plan
from onchip.arch.memory import DRAM, MemoryLevel, Operand
from onchip.ops.derive.banded_operands import BandedOperand


def homes_of_computes(
    levels: Sequence[MemoryLevel], program: Plan, operands_of: Mapping[str, Sequence[BandedOperand]]
) -> Iterator[tuple[str, tuple[str | None, ...]]]:
    """Yield each Compute's operator and the homes of its operands, in their order; None: streamed.

    A home is the memory nearest the MACs that holds the operand kind and all its tiles, with the tiles to be read
    already written; `levels` are the addressed ones, nearest the MACs first.
    """
    there: dict[str, dict[str, bool]] = {level.memory.name: {} for level in levels}

    def home(operand: BandedOperand) -> str | None:
        is_output = operand.operand is Operand.OUTPUT
        for level in levels:
            held = there[level.memory.name]
            if operand.operand in level.memory.holds and all(
                band.name in held and (is_output or held[band.name]) for band in operand.bands
            ):
                return level.memory.name
        return None

    for instruction in program.instructions:
        match instruction:
            case Allocate(tensor, memory, _):
                there[memory][tensor] = False
            case Free(tensor, memory):
                del there[memory][tensor]
            case Copy(tensor, _, target) if target != DRAM:
                there[target][tensor] = True
            case Compute(name):
                yield name, tuple(home(operand) for operand in operands_of[name])
                written = [band for one in operands_of[name] if one.operand is Operand.OUTPUT for band in one.bands]
                for held in there.values():
                    held.update({band.name: True for band in written if band.name in held})
