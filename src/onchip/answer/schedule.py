"""A schedule: the complete answer, with fused operators, tiles, mappings, and the program of all moves.

docs/schedule.md defines each part; `verify` checks schedules against it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.program import Plan
from onchip.answer.stacks import Tiling
from onchip.arch.memory import Operand
from onchip.errors import InputError
from onchip.ir.layer import Layer

WORKSPACE = "@workspace"
"""Suffix of an operator's name: the tensor of the workspace that its mapping needs in a memory while it runs."""
MOST_TILE_OPERATORS: Final = 50_000
"""Limit of the space of schedules; a network with more tile operators is outside it."""


class ScheduleError(InputError):
    """An error for an invalid schedule, or an unreadable schedule file."""


@dataclass(frozen=True, slots=True)
class Homes:
    """The memory that stores each whole operand while its operator runs.

    The home is None for an operand that streams from or to DRAM, and for one that the layer does not have.
    """

    input: str | None = None
    weight: str | None = None
    output: str | None = None

    def of(self, operand: Operand) -> str | None:
        """Return the home of one operand."""
        return {Operand.INPUT: self.input, Operand.WEIGHT: self.weight, Operand.OUTPUT: self.output}[operand]

    def __iter__(self) -> Iterator[tuple[Operand, str]]:
        """Yield the operands with an on-chip home, and that home."""
        return ((operand, home) for operand in Operand if (home := self.of(operand)) is not None)


@dataclass(frozen=True, slots=True)
class ScheduledStack:
    """Operators of the network, by name and in execution order, run tile by tile if there is a tiling.

    `tiling` divides the last operator's output; a stack of several operators has one, and only that output leaves it.
    Raises ScheduleError for a stack without operators, or one of several operators without a tiling.
    """

    operators: tuple[str, ...]
    tiling: Tiling | None = None

    def __post_init__(self) -> None:
        if not self.operators:
            raise ScheduleError("a stack has no operators", place="stacks", expected="at least one")
        if self.tiling is None and len(self.operators) > 1:
            place = f"stack of {self.operators[0]!r}"
            raise ScheduleError(f"{len(self.operators)} operators run without tiles", place=place, expected="a tile")


@dataclass(frozen=True, slots=True)
class ScheduledMapping:
    """The mapping of the tile operators of stack number `stack` with loop nest `layer` and operands at `homes`."""

    stack: int
    layer: Layer
    homes: Homes
    mapping: LayerMapping


@dataclass(frozen=True, slots=True)
class Schedule:
    """Stacks in execution order, their mappings, and a program that places and moves each tensor of the tiled network.

    Raises ScheduleError if an operator is in two stacks, or two mappings have the same stack, layer and homes.
    """

    stacks: tuple[ScheduledStack, ...]
    mappings: tuple[ScheduledMapping, ...]
    program: Plan

    def __post_init__(self) -> None:
        names = Counter(name for stack in self.stacks for name in stack.operators)
        for name, times in names.items():
            if times > 1:
                raise ScheduleError(f"operator {name!r} is in {times} stacks", place="stacks", expected="one")
        keys = Counter((one.stack, one.layer, one.homes) for one in self.mappings)
        for (stack, _, _), times in keys.items():
            if times > 1:
                detail = f"{times} mappings are of the same layer and homes"
                raise ScheduleError(detail, place=f"mappings of stack {stack}", expected="one")
