"""The cost models of loop nests: the interpreter's (`simulate.nest`), ZigZag's and DeFiNES's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from onchip.answer.layer_mapping import Kept, LayerMapping
from onchip.arch.memory import Operand
from onchip.ir.layer import RELEVANT


class AccountingName(StrEnum):
    """The user's names of the accountings."""

    INTERPRETER = "interpreter"
    ZIGZAG = "zigzag"
    DEFINES = "defines"

    @property
    def accounting(self) -> Accounting:
        """Return the accounting for which the name stands."""
        return Accounting(self)


@dataclass(frozen=True, slots=True)
class Accounting:
    """A cost model by name; docs/layer_cost.md, sections 8 and 9, lists the differences from the interpreter.

    `systolic` are the dimensions of the array that results leave one unit per cycle; the interpreter has none.
    """

    name: AccountingName = AccountingName.INTERPRETER
    systolic: tuple[str, ...] = ()

    @property
    def counts_from_bounds(self) -> bool:
        """True for ZigZag and DeFiNES, which compute sizes and moves of tiles from loop bounds alone."""
        return self.name is not AccountingName.INTERPRETER

    @property
    def is_zigzag(self) -> bool:
        """True for the accounting of zigzag-dse 3.9.1."""
        return self.name is AccountingName.ZIGZAG

    @property
    def is_defines(self) -> bool:
        """True for the accounting of KULeuven-MICAS/DeFiNES, commit 7097d60, whose layers have no padding."""
        return self.name is AccountingName.DEFINES


INTERPRETER: Final = Accounting()
ZIGZAG: Final = Accounting(AccountingName.ZIGZAG)
DEFINES: Final = Accounting(AccountingName.DEFINES)


def settled(mapping: LayerMapping) -> LayerMapping:
    """Return the mapping with each cut raised above the loops right above it that reuse the tile."""

    def raised(operand: Operand) -> tuple[Kept, ...]:
        return tuple(replace(kept, loops=_end_of_reuse(mapping, operand, kept.loops)) for kept in mapping.kept(operand))

    return replace(mapping, input=raised(Operand.INPUT), weight=raised(Operand.WEIGHT), output=raised(Operand.OUTPUT))


def _end_of_reuse(mapping: LayerMapping, operand: Operand, cut: int) -> int:
    end = cut
    for at, loop in enumerate(mapping.nest[cut:], cut):
        if loop.along is None and loop.size > 1:
            if loop.dimension in RELEVANT[operand]:
                break
            end = at + 1
    return end
